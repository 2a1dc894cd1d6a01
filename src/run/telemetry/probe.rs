//! What is fetched in one turn, from each kind of source, and where it is kept.
//!
//! A probe knows nothing of phases and turns: it fetches when it is told to. The history is shared with the
//! conductor, so that a source that hangs at the end takes nothing with it.

use crate::artifact::telemetry::lines;
use crate::prometheus::{Dialect, read};
use crate::run::telemetry::http::{Answer, Client, FetchError};
use crate::run::telemetry::line_file::LineFile;
use crate::run::telemetry::nvml::{Library, LibraryError};
use crate::telemetry::gpu::{Sample, Signal, dcgm, extra::Extra};
use crate::telemetry::history::Page;
use crate::telemetry::{Fetch, GpuSource, Occasion, PhaseKey, ServerSource, SourceAccount, address};
use crate::time::{Clock, Nanos};
use std::sync::{Arc, Mutex, PoisonError};

/// The phase and the reason of a fetch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Errand<'a> {
    pub(super) phase: Option<&'a PhaseKey>,
    pub(super) occasion: Occasion,
    pub(super) limit: Nanos,
}

/// Why a turn brought nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProbeError {
    /// The page.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The library on this machine.
    #[error(transparent)]
    Library(#[from] LibraryError),
}

impl ProbeError {
    /// There is no point in trying again.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Fetch(error) => matches!(error, FetchError::Address(_) | FetchError::Tls),
            Self::Library(_) => false,
        }
    }
}

/// A source as its thread sees it.
pub(super) trait Probe: Send {
    /// Fetches once and keeps what came; tells how long it took.
    fn fetch(&mut self, errand: Errand<'_>) -> Result<Nanos, ProbeError>;

    /// Goes to the next place where the source may be; tells whether there is one.
    fn try_elsewhere(&mut self, error: &ProbeError) -> bool;

    /// Changes the account.
    fn note(&self, change: &mut dyn FnMut(&mut SourceAccount));
}

pub(super) fn locked<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // What a thread that panicked had kept is still true.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pages of a server.
pub(super) struct ServerProbe {
    pub(super) clock: Clock,
    pub(super) shared: Arc<Mutex<ServerSource>>,
    pub(super) lines: Option<Arc<LineFile>>,
    /// Where to look, the likeliest place first.
    pub(super) candidates: Vec<String>,
    /// Which of them is looked at.
    pub(super) at: usize,
    pub(super) client: Option<Client>,
    pub(super) last_body: Vec<u8>,
}

impl ServerProbe {
    fn answer(&mut self, limit: Nanos) -> Result<Answer, FetchError> {
        let url = self.candidates.get(self.at).cloned().unwrap_or_default();
        let client = match &mut self.client {
            Some(client) => client,
            none => none.insert(Client::new(&url, self.clock)?),
        };
        client.fetch(limit)
    }
}

impl Probe for ServerProbe {
    fn fetch(&mut self, errand: Errand<'_>) -> Result<Nanos, ProbeError> {
        let answer = self.answer(errand.limit)?;
        let latency = answer.ended.since(answer.sent);
        let fetch = Fetch {
            sent_ns: self.clock.unix_ns(answer.sent),
            at_ns: self.clock.unix_ns(answer.first_byte),
            latency_ns: latency.0,
            phase: errand.phase.map(|phase| phase.index),
            occasion: errand.occasion,
        };
        let same = !self.last_body.is_empty() && self.last_body == answer.body;
        let page = if same { None } else { Some(page_of(&answer)?) };
        let (url, kept) = {
            let mut source = locked(&self.shared);
            source.account.bytes += answer.body.len() as u64;
            if let Some(url) = self.candidates.get(self.at)
                && source.history.fetches().is_empty()
            {
                source.history.moved_to(url.clone());
            }
            let kept = source.history.push(fetch, page.as_ref().map_or(Page::Same, Page::New));
            (source.history.url().to_owned(), kept)
        };
        if let (Some(page), Some(lines)) = (&page, &self.lines)
            && !page.families.is_empty()
        {
            lines.write(&lines::server(&url, &fetch, page, errand.phase));
        }
        if !kept {
            self.last_body.clear();
        } else if !same {
            self.last_body = answer.body;
        }
        Ok(latency)
    }

    fn try_elsewhere(&mut self, error: &ProbeError) -> bool {
        if let (ProbeError::Fetch(FetchError::NotMetrics(_)), Some(url)) =
            (error, self.candidates.get(self.at))
            && let Some(other) = address::fallback(url)
            && !self.candidates.contains(&other)
        {
            self.candidates.push(other);
        }
        self.at += 1;
        self.client = None;
        self.at < self.candidates.len()
    }

    fn note(&self, change: &mut dyn FnMut(&mut SourceAccount)) {
        change(&mut locked(&self.shared).account);
    }
}

fn page_of(answer: &Answer) -> Result<crate::prometheus::Exposition, FetchError> {
    let text = text_of(answer)?;
    let dialect = Dialect::of_content_type(answer.content_type.as_deref());
    read(&text, dialect).map_err(|error| FetchError::NotMetrics(error.to_string()))
}

/// The page as text. JSON and HTML are told apart by their names, for a message that says what came.
fn text_of(answer: &Answer) -> Result<String, FetchError> {
    let kind = answer.content_type.as_deref().unwrap_or_default().to_ascii_lowercase();
    if kind.contains("json") || kind.contains("html") {
        return Err(FetchError::NotMetrics(format!("its type is {kind}")));
    }
    Ok(String::from_utf8_lossy(&answer.body).into_owned())
}

/// Pages of dcgm-exporter.
pub(super) struct DcgmProbe {
    pub(super) clock: Clock,
    pub(super) shared: Arc<Mutex<GpuSource>>,
    pub(super) edges: Arc<Mutex<Vec<(u16, u64)>>>,
    pub(super) lines: Arc<LineFile>,
    pub(super) signals: Arc<[Signal]>,
    pub(super) extra: Arc<[Extra]>,
    pub(super) url: String,
    pub(super) client: Option<Client>,
    pub(super) last_body: Vec<u8>,
}

impl Probe for DcgmProbe {
    fn fetch(&mut self, errand: Errand<'_>) -> Result<Nanos, ProbeError> {
        let client = match &mut self.client {
            Some(client) => client,
            none => none.insert(Client::new(&self.url, self.clock)?),
        };
        let answer = client.fetch(errand.limit)?;
        let latency = answer.ended.since(answer.sent);
        let at_ns = self.clock.unix_ns(answer.first_byte);
        note_edge(&self.edges, errand, at_ns);
        locked(&self.shared).account.bytes += answer.body.len() as u64;
        // An exporter that has not measured again has said nothing new.
        if !self.last_body.is_empty() && self.last_body == answer.body {
            return Ok(latency);
        }
        let (samples, incomplete) = dcgm::read(&text_of(&answer)?, &self.extra)
            .map_err(|error| FetchError::NotMetrics(error.to_string()))?;
        keep(&self.shared, &self.lines, &self.signals, at_ns, &samples);
        if incomplete > 0 {
            locked(&self.shared).account.fail(&format!("{incomplete} GPUs have no UUID or modelName"));
        }
        self.last_body = answer.body;
        Ok(latency)
    }

    fn try_elsewhere(&mut self, _error: &ProbeError) -> bool {
        false
    }

    fn note(&self, change: &mut dyn FnMut(&mut SourceAccount)) {
        change(&mut locked(&self.shared).account);
    }
}

fn note_edge(edges: &Mutex<Vec<(u16, u64)>>, errand: Errand<'_>, at_ns: u64) {
    if let (Some(phase), Occasion::PhaseEnd) = (errand.phase, errand.occasion) {
        locked(edges).push((phase.index, at_ns));
    }
}

fn keep(shared: &Mutex<GpuSource>, file: &LineFile, signals: &[Signal], at_ns: u64, samples: &[Sample]) {
    let mut source = locked(shared);
    for sample in samples {
        source.history.push(at_ns, sample);
    }
    let url = source.history.url().to_owned();
    drop(source);
    for sample in samples {
        file.write(&lines::gpu(&url, at_ns, sample, signals));
    }
}

/// GPUs of this machine.
pub(super) struct LibraryProbe {
    pub(super) clock: Clock,
    pub(super) shared: Arc<Mutex<GpuSource>>,
    pub(super) edges: Arc<Mutex<Vec<(u16, u64)>>>,
    pub(super) lines: Arc<LineFile>,
    pub(super) signals: Arc<[Signal]>,
    pub(super) library: Box<dyn Library>,
}

impl Probe for LibraryProbe {
    fn fetch(&mut self, errand: Errand<'_>) -> Result<Nanos, ProbeError> {
        let start = self.clock.now();
        let mut samples = Vec::new();
        for index in 0..self.library.devices()? {
            match self.library.sample(index) {
                Ok(sample) => samples.push(sample),
                // One GPU that is gone does not cost the others.
                Err(error) => locked(&self.shared).account.fail(&error.to_string()),
            }
        }
        let now = self.clock.now();
        let at_ns = self.clock.unix_ns(now);
        note_edge(&self.edges, errand, at_ns);
        if samples.is_empty() {
            return Err(LibraryError::NoDevice.into());
        }
        keep(&self.shared, &self.lines, &self.signals, at_ns, &samples);
        Ok(now.since(start))
    }

    fn try_elsewhere(&mut self, _error: &ProbeError) -> bool {
        false
    }

    fn note(&self, change: &mut dyn FnMut(&mut SourceAccount)) {
        change(&mut locked(&self.shared).account);
    }
}

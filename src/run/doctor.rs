//! `phasor doctor`: whether this machine can drive load well, and what to set where it cannot.
//!
//! Each check reads the kernel's files below a root directory (or is handed a [`Probe`] of what was really
//! tried) and comes to one [`Finding`]. It changes nothing. What the system does not tell is
//! [`Status::Unknown`]: neither a pass nor a failure that was not measured.

mod container;
mod kernel;
mod limits;
mod network;
mod processor;

use crate::run::machine::Tree;
use crate::shard::peer::Peer;
use crate::shard::ring::Ring;
use crate::shard::ring::RingError;
use crate::shard::ring::RingOptions;
use crate::shard::sources::Sources;
use crate::shard::sys::set_timer_slack;
use crate::time::Nanos;
use serde::Serialize;
use std::fmt::Write as _;
use std::sync::Arc;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It would spoil a run.
    Bad,
    /// As it should be.
    Ok,
    /// The system does not tell.
    Unknown,
    /// A run works and may measure worse than the machine could.
    Warn,
}

impl Status {
    /// The word shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warn => "warn",
        }
    }
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the check.
    pub name: &'static str,
    /// How it came out.
    pub status: Status,
    /// The value found.
    pub found: String,
    /// What it should be.
    pub wanted: String,
    /// The command that sets it; absent where all is well or nothing was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

impl Finding {
    /// A check that came out as `status`; `cure` is kept only where there is something to cure.
    fn new(
        name: &'static str,
        status: Status,
        found: impl Into<String>,
        wanted: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        let cure = match status {
            Status::Bad | Status::Warn => Some(cure.into()),
            Status::Ok | Status::Unknown => None,
        };
        Self { name, status, found: found.into(), wanted: wanted.into(), cure }
    }

    /// A check for which the system tells nothing; `missing` says what could not be read.
    fn unknown(name: &'static str, missing: &str, wanted: impl Into<String>) -> Self {
        Self::new(name, Status::Unknown, format!("not told: {missing}"), wanted, "")
    }
}

/// What a run would need, if a config says so.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// Most requests in flight; absent when an open loop has no cap.
    pub peak: Option<u64>,
    /// Where the servers are.
    pub addresses: Vec<Peer>,
    /// Addresses that connections come from.
    pub sources: Sources,
}

/// What is to be examined.
#[derive(Clone, Debug)]
pub struct Question {
    /// The kernel's files.
    pub tree: Tree,
    /// The shards' cores, one for each shard.
    pub cpus: Vec<usize>,
    /// What a run needs; absent without a config.
    pub demand: Option<Demand>,
}

impl Question {
    fn shards(&self) -> u64 {
        self.cpus.len() as u64
    }

    fn peak(&self) -> Option<u64> {
        self.demand.as_ref().and_then(|demand| demand.peak)
    }
}

/// What was tried on this machine, on a thread of its own.
#[derive(Debug)]
pub struct Probe {
    /// Making a ring as a shard does.
    pub ring: Result<(), RingError>,
    /// Setting the timer slack as a shard does.
    pub slack: Result<(), std::io::Error>,
}

impl Probe {
    /// Tries everything. The thread's pinning and slack end with it.
    pub fn take() -> Self {
        let tried = std::thread::Builder::new().name("phasor-doctor".to_owned()).spawn(|| {
            let options =
                RingOptions { sockets_max: 1_024, entries: 1_024, buffers: 1_024, buffer_bytes: 16 * 1_024 };
            Self { ring: Ring::new(options, Arc::from([0_u8])).map(drop), slack: set_timer_slack(Nanos(1)) }
        });
        let failed = |why: &str| std::io::Error::other(why.to_owned());
        match tried.map(std::thread::JoinHandle::join) {
            Ok(Ok(probe)) => probe,
            Ok(Err(_)) => Self {
                ring: Err(RingError::System(failed("the thread that tried it ended early"))),
                slack: Err(failed("the thread that tried it ended early")),
            },
            Err(error) => {
                Self { slack: Err(failed(&error.to_string())), ring: Err(RingError::System(error)) }
            }
        }
    }
}

/// Makes every check, in the order in which they are shown.
pub fn examine(question: &Question, probe: &Probe) -> Vec<Finding> {
    let tree = &question.tree;
    vec![
        kernel::version(tree),
        kernel::io_uring(tree, &probe.ring),
        kernel::seccomp(tree, &probe.ring),
        limits::locked_memory(question),
        limits::open_files(question),
        limits::memory(question),
        limits::swap(tree),
        network::ports(question),
        network::time_wait(question),
        network::somaxconn(question),
        container::cpuset(question),
        container::cpu_quota(question),
        processor::spare_core(question),
        processor::governor(question),
        processor::idle_states(question),
        processor::siblings(question),
        processor::isolation(question),
        processor::numa(question),
        processor::steal(question),
        kernel::clock_source(tree),
        kernel::timer_slack(tree, &probe.slack),
    ]
}

/// Nothing found would spoil a run.
pub fn is_fit(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.status != Status::Bad)
}

/// The findings for a person: a line each, and what to do where something is to be done.
pub fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<9}{:<width$}  {}", finding.status.name(), finding.name, finding.found);
        let indent = width + 11;
        if finding.status != Status::Ok {
            let _ = writeln!(text, "{:indent$}should be: {}", "", finding.wanted);
        }
        if let Some(cure) = &finding.cure {
            let _ = writeln!(text, "{:indent$}set it by: {cure}", "");
        }
    }
    let count = |status| findings.iter().filter(|finding| finding.status == status).count();
    let (bad, warnings, unknown) = (count(Status::Bad), count(Status::Warn), count(Status::Unknown));
    let verdict = if bad == 0 { "fit" } else { "not fit" };
    let _ =
        writeln!(text, "\nThis machine is {verdict}: {bad} bad, {warnings} to improve, {unknown} not known.");
    text
}

/// The findings for a machine.
pub fn json(findings: &[Finding]) -> serde_json::Value {
    serde_json::json!({
        "schema_version": 1,
        "phasor_version": env!("CARGO_PKG_VERSION"),
        "fit": is_fit(findings),
        "checks": findings,
    })
}

//! `client_profile.json`: the figures of a calibration, written once and read by every run on the machine.

use crate::artifact::calibration::Calibration;
use crate::artifact::calibration::Floor;
use crate::run::calibrate::Length;
use crate::run::machine::Machine;
use serde::Deserialize;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

/// Name of the file, looked for in the current directory.
pub const CLIENT_PROFILE: &str = "client_profile.json";

/// A shard that was kept from its core for this share of the time has measured its neighbours.
const RUN_DELAY_SHARE_MAX: f64 = 0.02;

/// Form of the file that is written and read.
pub const SCHEMA_VERSION: u32 = 1;

/// The figures of one machine. Rates are those of one shard; times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientProfile {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Release that measured.
    pub phasor_version: String,
    /// Where it measured.
    pub machine: Machine,
    /// The shard's core.
    pub shard_cpu: usize,
    /// The server's core; absent: it had none of its own, and shared the shard's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu: Option<usize>,
    /// How long it measured.
    pub length: Length,
    /// What a shard can do at most.
    pub ceiling: Ceilings,
    /// What is measured when there is nothing to measure.
    pub floor_ns: Floors,
    /// How late the kernel ends a wait.
    pub wake_up_ns: WakeUp,
    /// Cost of one stamp.
    pub clock_ns: f64,
    /// How late requests are sent, by load.
    pub lateness: Vec<LatenessAt>,
    /// Share of the time, in the load where it was largest, that the shard could have run and did not, because
    /// its core was taken; absent where the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_share: Option<f64>,
}

/// Ceilings of the two shapes that replies have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// Each token in a write of its own, many streams at once.
    pub one_token_per_write: Ceiling,
    /// The whole reply in one write.
    pub whole_replies: Ceiling,
}

/// What one shard can do. The rates are counts over the shard's own processor time: those of a shard that is
/// never idle. They are absent where the system does not tell that time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Connections of the closed loop.
    pub connections: u64,
    /// Requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_s: Option<f64>,
    /// Server-sent events per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_per_s: Option<f64>,
    /// Reads that brought bytes of a body, per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_per_s: Option<f64>,
    /// Bytes of reply bodies per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
    /// Requests per second of wall time that client and server together came to.
    pub delivered_requests_per_s: f64,
    /// Events per second of wall time.
    pub delivered_events_per_s: f64,
    /// Share of the wall time that the shard was busy, 0 to 1: the nearer to 1, the less was extrapolated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_share: Option<f64>,
}

/// Floors of both latencies, from the first byte written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Floors {
    /// To the last content.
    pub request_latency: FloorSpread,
    /// To the first content.
    pub time_to_first_token: FloorSpread,
}

/// A latency at concurrency 1 against a server that answers at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FloorSpread {
    /// Half were no longer.
    pub p50: f64,
    /// 99 % were no longer.
    pub p99: f64,
    /// Requests measured.
    pub count: u64,
}

/// How late waits in the ring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeUp {
    /// Half were no later.
    pub p50: u64,
    /// 90 % were no later.
    pub p90: u64,
    /// 99 % were no later.
    pub p99: u64,
    /// None was later.
    pub max: u64,
    /// Waits measured.
    pub count: u64,
    /// How long before a due time a shard stops waiting and spins, after these waits.
    pub spin_window: u64,
}

/// Lateness of an open loop at a part of the ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatenessAt {
    /// Part of the ceiling of whole replies, 0 to 1.
    pub share: f64,
    /// Arrivals planned per second.
    pub planned_per_s: f64,
    /// Requests sent per second.
    pub sent_per_s: f64,
    /// Arrivals that found too many requests in flight, because the server did not follow.
    pub dropped: u64,
    /// Half were no later.
    pub p50_ns: u64,
    /// 99 % were no later.
    pub p99_ns: u64,
    /// None was later.
    pub max_ns: u64,
    /// Requests measured.
    pub count: u64,
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientProfileError {
    /// It is no such file.
    #[error("{path} is no client profile: {source}; make a new one with `phasor calibrate`")]
    Content {
        /// The file.
        path: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// It cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// It is of another machine, kernel or release.
    #[error(
        "{path} is ignored: its {what} is {theirs}, and here it is {ours}; make one for this machine with \
         `phasor calibrate`"
    )]
    Foreign {
        /// The file.
        path: String,
        /// What differs.
        what: &'static str,
        /// What the file says.
        theirs: String,
        /// What is so here.
        ours: String,
    },
}

impl ClientProfile {
    /// Reads the file at `path` and makes sure that it is of machine `here`.
    pub fn load(path: &Path, here: &Machine) -> Result<Self, ClientProfileError> {
        let shown = || path.display().to_string();
        let text =
            std::fs::read(path).map_err(|source| ClientProfileError::File { path: shown(), source })?;
        let profile: Self = serde_json::from_slice(&text)
            .map_err(|source| ClientProfileError::Content { path: shown(), source })?;
        match profile.difference(here) {
            None => Ok(profile),
            Some((what, theirs, ours)) => {
                Err(ClientProfileError::Foreign { path: shown(), what, theirs, ours })
            }
        }
    }

    /// Writes the file.
    pub fn save(&self, path: &Path) -> Result<(), ClientProfileError> {
        let failed = |source| ClientProfileError::File { path: path.display().to_string(), source };
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        // Beside its place and then renamed, so that a run that starts now never reads half of it.
        let beside = path.with_extension("json.tmp");
        std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path)).map_err(failed)
    }

    /// What keeps the figures from being those of `here`.
    fn difference(&self, here: &Machine) -> Option<(&'static str, String, String)> {
        let told = |text: Option<&String>| text.map_or_else(|| "not told".to_owned(), Clone::clone);
        let count = |cores: Option<usize>| told(cores.map(|cores| cores.to_string()).as_ref());
        let there = &self.machine;
        [
            ("schema_version", self.schema_version.to_string(), SCHEMA_VERSION.to_string()),
            ("phasor release", self.phasor_version.clone(), env!("CARGO_PKG_VERSION").to_owned()),
            ("processor", told(there.cpu_model.as_ref()), told(here.cpu_model.as_ref())),
            ("number of cores", count(there.cores), count(here.cores)),
            ("kernel", told(there.kernel.as_ref()), told(here.kernel.as_ref())),
            ("governor", told(there.governor.as_ref()), told(here.governor.as_ref())),
        ]
        .into_iter()
        .find(|(_, theirs, ours)| theirs != ours)
    }

    /// What a run is held against.
    pub fn calibration(&self) -> Calibration {
        let floor = |spread: &FloorSpread| Floor { p50: spread.p50, p99: spread.p99 };
        Calibration {
            requests_per_s: self.ceiling.whole_replies.requests_per_s,
            reads_per_s: self.ceiling.one_token_per_write.reads_per_s,
            request_latency: floor(&self.floor_ns.request_latency),
            time_to_first_token: floor(&self.floor_ns.time_to_first_token),
        }
    }

    /// What speaks against the figures: other programs ran on the shard's core meanwhile. A server on that
    /// core does so by necessity, and is no news.
    pub fn doubt(&self) -> Option<String> {
        let share = self.run_delay_share.filter(|share| *share > RUN_DELAY_SHARE_MAX)?;
        self.server_cpu?;
        Some(format!(
            "the shard was kept from core {} for up to {:.0} % of the time: other programs were running, and floor, \
             wake-up and lateness are partly theirs; calibrate again on an idle machine, or name quieter cores \
             with --cpus",
            self.shard_cpu,
            share * 100.0
        ))
    }

    /// The figures as a table for a person.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:<34}{value}");
        };
        let or_absent = |value: Option<f64>, unit: &str| {
            value.map_or_else(|| "not told by the system".to_owned(), |value| format!("{value:.0} {unit}"))
        };
        let micros = |nanos: f64| nanos / 1e3;
        let machine = &self.machine;
        row("processor", machine.cpu_model.clone().unwrap_or_else(|| "not told".to_owned()));
        row("kernel", machine.kernel.clone().unwrap_or_else(|| "not told".to_owned()));
        row(
            "cores",
            match self.server_cpu {
                Some(server) => format!("shard on {}, server on {server}", self.shard_cpu),
                None => format!(
                    "shard and server on {}: there is no second core. Ceilings are over the shard's own processor \
                 time and hold; floor and lateness include waiting for the server's turns",
                    self.shard_cpu
                ),
            },
        );
        for (name, ceiling) in [
            ("whole replies, one shard", &self.ceiling.whole_replies),
            ("one token per write, one shard", &self.ceiling.one_token_per_write),
        ] {
            let busy = ceiling.busy_share.map_or_else(String::new, |share| {
                format!(
                    " ({} connections, shard {:.0} % busy, {:.0} requests/s delivered)",
                    ceiling.connections,
                    share * 100.0,
                    ceiling.delivered_requests_per_s
                )
            });
            row(name, or_absent(ceiling.requests_per_s, "requests/s") + &busy);
            row("", or_absent(ceiling.events_per_s, "events/s"));
            row("", or_absent(ceiling.bytes_per_s.map(|bytes| bytes / 1e6), "MB/s of bodies"));
        }
        for (name, floor) in [
            ("floor of TTFT", &self.floor_ns.time_to_first_token),
            ("floor of request latency", &self.floor_ns.request_latency),
        ] {
            row(name, format!("p50 {:.1} us, p99 {:.1} us", micros(floor.p50), micros(floor.p99)));
        }
        let wake = &self.wake_up_ns;
        let [p50, p99, max, window] =
            [wake.p50, wake.p99, wake.max, wake.spin_window].map(|ns| ns as f64 / 1e3);
        row("wake-up from a wait is late by", format!("p50 {p50:.1} us, p99 {p99:.1} us, max {max:.1} us"));
        row("spin window that follows", format!("{window:.1} us"));
        row("cost of a stamp", format!("{:.1} ns", self.clock_ns));
        for at in &self.lateness {
            row(
                &format!("lateness at {:.0} % of the ceiling", at.share * 100.0),
                format!(
                    "p50 {:.2} us, p99 {:.1} us ({:.0} of {:.0} requests/s sent)",
                    at.p50_ns as f64 / 1e3,
                    at.p99_ns as f64 / 1e3,
                    at.sent_per_s,
                    at.planned_per_s
                ),
            );
        }
        text
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    fn profile() -> ClientProfile {
        let ceiling = Ceiling {
            connections: 64,
            requests_per_s: Some(50_000.0),
            events_per_s: Some(1_800_000.0),
            reads_per_s: None,
            bytes_per_s: Some(4e8),
            delivered_requests_per_s: 40_000.0,
            delivered_events_per_s: 1_440_000.0,
            busy_share: Some(0.8),
        };
        let floor = FloorSpread { p50: 30_000.0, p99: 50_000.0, count: 1_000 };
        ClientProfile {
            schema_version: SCHEMA_VERSION,
            phasor_version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: Machine {
                cpu_model: Some("Fast 9000".to_owned()),
                cores: Some(8),
                kernel: Some("6.12.3".to_owned()),
                governor: None,
            },
            shard_cpu: 2,
            server_cpu: Some(3),
            length: Length::Full,
            ceiling: Ceilings { one_token_per_write: ceiling.clone(), whole_replies: ceiling },
            floor_ns: Floors { request_latency: floor, time_to_first_token: floor },
            wake_up_ns: WakeUp { p50: 1, p90: 2, p99: 3, max: 4, count: 5, spin_window: 6 },
            clock_ns: 24.0,
            lateness: Vec::new(),
            run_delay_share: Some(0.001),
        }
    }

    #[test]
    fn a_file_read_back_says_what_was_written_and_absent_figures_stay_absent() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(CLIENT_PROFILE);
        let written = profile();
        written.save(&path).unwrap();
        assert_eq!(ClientProfile::load(&path, &written.machine).unwrap(), written);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("governor") && !text.contains("null"), "{text}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(written.calibration().reads_per_s, None);
    }

    #[test]
    fn figures_of_another_machine_are_refused_by_what_differs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(CLIENT_PROFILE);
        profile().save(&path).unwrap();
        let here = profile().machine;
        let others = [
            ("processor", Machine { cpu_model: None, ..here.clone() }),
            ("number of cores", Machine { cores: Some(4), ..here.clone() }),
            ("kernel", Machine { kernel: Some("6.1.0".to_owned()), ..here.clone() }),
            ("governor", Machine { governor: Some("powersave".to_owned()), ..here.clone() }),
        ];
        for (what, other) in others {
            let refused = ClientProfile::load(&path, &other).unwrap_err().to_string();
            assert!(refused.contains(&format!("its {what} is")), "{refused}");
        }
        let mut old = profile();
        old.phasor_version = "0.0.1".to_owned();
        old.save(&path).unwrap();
        let refused = ClientProfile::load(&path, &here).unwrap_err().to_string();
        assert!(refused.contains("phasor release is 0.0.1"), "{refused}");
    }

    #[test]
    fn a_neighbour_on_the_shards_core_is_a_doubt_unless_it_is_the_server() {
        assert_eq!(profile().doubt(), None);
        let disturbed = ClientProfile { run_delay_share: Some(0.3), ..profile() };
        assert!(disturbed.doubt().unwrap().contains("30 %"));
        assert_eq!(ClientProfile { server_cpu: None, ..disturbed }.doubt(), None);
        assert_eq!(ClientProfile { run_delay_share: None, ..profile() }.doubt(), None);
    }
}

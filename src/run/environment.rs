//! The `AIPERF_*` variables that touch timing and connections: read once, at the start, here.
//!
//! Variables that other modules read are listed so that they are not taken for unknown ones.

use crate::plan::AtCapacity;
use crate::plan::Tuning;
use crate::run::telemetry::TelemetrySettings;
use crate::shard::socket::SocketOptions;
use crate::time::Nanos;
use crate::wire::tls::Verification;

/// Variables that are read elsewhere.
const READ_ELSEWHERE: [&str; 5] = [
    "AIPERF_ENDPOINT_FORCE_CONTENT_PARTS",
    "AIPERF_HTTP_X_SESSION_AFFINITY_FROM_CORRELATION_ID",
    "AIPERF_METRICS_OSL_MISMATCH_MAX_TOKEN_THRESHOLD",
    "AIPERF_METRICS_OSL_MISMATCH_PCT_THRESHOLD",
    "AIPERF_METRICS_USAGE_PCT_DIFF_THRESHOLD",
];

/// Variables that mean nothing here, for a good reason: the clock is always the precise one, and what is cut
/// is cut at once.
/// Telemetry is written line by line and waits for nothing at the end.
const NEEDLESS: [&str; 8] = [
    "AIPERF_GPU_EXPORT_BATCH_SIZE",
    "AIPERF_GPU_SHUTDOWN_DELAY",
    "AIPERF_SERVER_METRICS_COLLECTION_FLUSH_PERIOD",
    "AIPERF_SERVER_METRICS_EXPORT_BATCH_SIZE",
    "AIPERF_SERVER_METRICS_REALTIME_PUBLISH_INTERVAL_SECONDS",
    "AIPERF_SERVER_METRICS_SHUTDOWN_DELAY",
    "AIPERF_TIMING_CANCEL_DRAIN_TIMEOUT",
    "AIPERF_TIMING_HIGH_RES_TIMER",
];

/// How long aiohttp keeps an unused connection when nothing is said.
const KEEPALIVE_UNSAID: Nanos = Nanos::from_millis(15_000);

/// What the environment says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// About the plan.
    pub tuning: Tuning,
    /// About sockets.
    pub sockets: SocketOptions,
    /// About telemetry.
    pub telemetry: TelemetrySettings,
    /// Whether servers must prove who they are.
    pub verification: Verification,
    /// Columns of the result tables, if something is said.
    pub console_width: Option<usize>,
    /// Variables named `AIPERF_*` that have no effect, in alphabetical order.
    pub without_effect: Vec<String>,
}

/// A variable with a value that it cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {name} is `{value}`: it must be {expected}; correct or unset it")]
pub struct EnvironmentError {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// What it may be.
    pub expected: String,
}

impl Environment {
    /// Reads `variables`, which are pairs of name and value.
    pub fn read(variables: impl Iterator<Item = (String, String)>) -> Result<Self, EnvironmentError> {
        let mut environment = Self::default();
        let aiperf = variables.filter(|(name, _)| name.starts_with("AIPERF_"));
        for (name, value) in aiperf {
            let variable = Variable { name, value };
            if !environment.take(&variable)? && !READ_ELSEWHERE.contains(&variable.name.as_str()) {
                environment.without_effect.push(variable.name);
            }
        }
        environment.without_effect.sort();
        Ok(environment)
    }

    /// One line that names what has no effect.
    pub fn warning(&self) -> Option<String> {
        if self.without_effect.is_empty() {
            return None;
        }
        let needless = self.without_effect.iter().all(|name| NEEDLESS.contains(&name.as_str()));
        let why = if needless { "phasor needs no such setting" } else { "phasor does not know them" };
        Some(format!("without effect in the environment ({why}): {}", self.without_effect.join(", ")))
    }

    /// Takes one variable in; tells whether it is known.
    fn take(&mut self, variable: &Variable) -> Result<bool, EnvironmentError> {
        let Self { tuning, sockets, telemetry, verification, console_width, .. } = self;
        match variable.name.as_str() {
            "AIPERF_TIMING_MAX_CATCHUP_SECONDS" => tuning.catch_up = Some(variable.seconds(0.0, 10.0)?),
            "AIPERF_TIMING_RATE_RAMP_UPDATE_INTERVAL" => tuning.ramp_step = variable.seconds(0.01, 10.0)?,
            "AIPERF_HTTP_CONNECTION_LIMIT" => tuning.connections_max = Some(variable.count(1, 65_000)?),
            "AIPERF_HTTP_KEEPALIVE_TIMEOUT" => {
                tuning.idle_lifetime = match variable.seconds(0.0, 100_000.0)? {
                    Nanos::ZERO => KEEPALIVE_UNSAID,
                    lifetime => lifetime,
                }
            }
            "AIPERF_HTTP_FORCE_CLOSE" => tuning.never_reuse = variable.switch()?,
            "AIPERF_HTTP_SSL_VERIFY" => {
                *verification = if variable.switch()? { Verification::On } else { Verification::Off };
            }
            "AIPERF_HTTP_SO_RCVBUF" => sockets.receive_buffer = Some(variable.count(1_024, i32::MAX as u32)?),
            "AIPERF_HTTP_SO_SNDBUF" => sockets.send_buffer = Some(variable.count(1_024, i32::MAX as u32)?),
            "AIPERF_HTTP_TCP_KEEPIDLE" => {
                sockets.keepalive_idle = Nanos::from_millis(u64::from(variable.count(1, 100_000)?) * 1_000);
            }
            "AIPERF_HTTP_TCP_KEEPINTVL" => {
                sockets.keepalive_interval =
                    Nanos::from_millis(u64::from(variable.count(1, 100_000)?) * 1_000);
            }
            "AIPERF_HTTP_TCP_KEEPCNT" => sockets.keepalive_probes = variable.count(1, 127)?,
            "AIPERF_HTTP_TCP_USER_TIMEOUT" => {
                sockets.user_timeout = Nanos::from_millis(variable.count(1, 1_000_000)?.into());
            }
            "AIPERF_UI_CONSOLE_EXPORT_WIDTH" => {
                *console_width = Some(variable.count(40, 10_000)? as usize);
            }
            "AIPERF_SERVER_METRICS_COLLECTION_INTERVAL" => {
                telemetry.server_interval = variable.seconds(0.001, 300.0)?;
            }
            "AIPERF_SERVER_METRICS_REACHABILITY_TIMEOUT" => {
                telemetry.server_first = variable.seconds(0.001, 300.0)?;
            }
            "AIPERF_SERVER_METRICS_SCRAPE_TIMEOUT" => {
                telemetry.server_fetch = variable.seconds(0.001, 300.0)?;
            }
            "AIPERF_GPU_COLLECTION_INTERVAL" => telemetry.gpu_interval = variable.seconds(0.01, 300.0)?,
            "AIPERF_GPU_REACHABILITY_TIMEOUT" => telemetry.gpu_first = variable.seconds(0.001, 300.0)?,
            "AIPERF_GPU_FINAL_SCRAPE_GRACE_NS" => {
                telemetry.gpu_grace = Nanos(variable.count(0, u32::MAX)?.into());
            }
            "AIPERF_GPU_DEFAULT_DCGM_ENDPOINTS" => telemetry.set_dcgm_endpoints(&variable.value),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The plan's part, with what the command line says.
    pub fn tuning(&self, at_capacity: AtCapacity) -> Tuning {
        Tuning { at_capacity, ..self.tuning }
    }
}

struct Variable {
    name: String,
    value: String,
}

impl Variable {
    fn seconds(&self, least: f64, most: f64) -> Result<Nanos, EnvironmentError> {
        let value = self.value.trim().parse::<f64>().ok();
        value
            .filter(|seconds| (least..=most).contains(seconds))
            .map(Nanos::from_secs_f64)
            .ok_or_else(|| self.refuse(format!("a number of seconds from {least} to {most}")))
    }

    fn count(&self, least: u32, most: u32) -> Result<u32, EnvironmentError> {
        let value = self.value.trim().parse::<u32>().ok();
        value
            .filter(|count| (least..=most).contains(count))
            .ok_or_else(|| self.refuse(format!("a whole number from {least} to {most}")))
    }

    fn switch(&self) -> Result<bool, EnvironmentError> {
        match self.value.trim().to_ascii_lowercase().as_str() {
            "1" | "on" | "t" | "true" | "y" | "yes" => Ok(true),
            "0" | "f" | "false" | "n" | "no" | "off" => Ok(false),
            _ => Err(self.refuse("`true` or `false`".to_owned())),
        }
    }

    fn refuse(&self, expected: String) -> EnvironmentError {
        EnvironmentError { name: self.name.clone(), value: self.value.clone(), expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Environment, EnvironmentError> {
        Environment::read(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn an_environment_without_a_word_means_the_defaults() {
        assert_eq!(read(&[("PATH", "/bin"), ("HOME", "/")]), Ok(Environment::default()));
        assert_eq!(Environment::default().warning(), None);
    }

    #[test]
    fn every_variable_that_is_known_acts() {
        let known = [
            ("AIPERF_TIMING_MAX_CATCHUP_SECONDS", "0.01"),
            ("AIPERF_TIMING_RATE_RAMP_UPDATE_INTERVAL", "0.5"),
            ("AIPERF_HTTP_CONNECTION_LIMIT", "10"),
            ("AIPERF_HTTP_KEEPALIVE_TIMEOUT", "5"),
            ("AIPERF_HTTP_FORCE_CLOSE", "true"),
            ("AIPERF_HTTP_SSL_VERIFY", "false"),
            ("AIPERF_HTTP_SO_RCVBUF", "65536"),
            ("AIPERF_HTTP_SO_SNDBUF", "65536"),
            ("AIPERF_HTTP_TCP_KEEPIDLE", "7"),
            ("AIPERF_HTTP_TCP_KEEPINTVL", "8"),
            ("AIPERF_HTTP_TCP_KEEPCNT", "9"),
            ("AIPERF_HTTP_TCP_USER_TIMEOUT", "1000"),
            ("AIPERF_UI_CONSOLE_EXPORT_WIDTH", "100"),
            ("AIPERF_SERVER_METRICS_COLLECTION_INTERVAL", "0.1"),
            ("AIPERF_SERVER_METRICS_REACHABILITY_TIMEOUT", "1"),
            ("AIPERF_SERVER_METRICS_SCRAPE_TIMEOUT", "1"),
            ("AIPERF_GPU_COLLECTION_INTERVAL", "0.1"),
            ("AIPERF_GPU_REACHABILITY_TIMEOUT", "1"),
            ("AIPERF_GPU_FINAL_SCRAPE_GRACE_NS", "1"),
        ];
        for variable in known {
            let environment = read(&[variable]);
            assert_ne!(environment, Ok(Environment::default()), "{variable:?}");
            assert_eq!(environment.map(|environment| environment.without_effect), Ok(Vec::new()));
            for wrong in ["", "many", "-1", "1e9"] {
                let refused = read(&[(variable.0, wrong)]);
                assert!(refused.is_err_and(|error| error.to_string().contains(variable.0)), "{variable:?}");
            }
        }
    }

    #[test]
    fn the_usual_exporters_are_a_list_with_commas_or_json() {
        for text in ["http://a:1, b:2", "[\"http://a:1\", \"b:2\"]"] {
            let environment = read(&[("AIPERF_GPU_DEFAULT_DCGM_ENDPOINTS", text)]);
            let found = environment.map(|environment| environment.telemetry.dcgm_endpoints);
            assert_eq!(found, Ok(vec!["http://a:1".to_owned(), "b:2".to_owned()]), "{text}");
        }
    }

    #[test]
    fn what_is_not_known_is_named_in_one_warning() {
        let environment = read(&[
            ("AIPERF_ZMQ_TIMEOUT", "1"),
            ("AIPERF_METRICS_OSL_MISMATCH_PCT_THRESHOLD", "1"),
            ("AIPERF_TIMING_HIGH_RES_TIMER", "true"),
        ]);
        let warning = environment.ok().and_then(|environment| environment.warning()).unwrap_or_default();
        assert!(warning.ends_with(": AIPERF_TIMING_HIGH_RES_TIMER, AIPERF_ZMQ_TIMEOUT"), "{warning}");
        assert!(!warning.contains("OSL"), "{warning}");
    }
}

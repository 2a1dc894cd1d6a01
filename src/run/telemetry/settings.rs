//! How often and how long servers and GPUs are asked: defaults and the environment's word.

use crate::run::telemetry::source::Limits;
use crate::time::Nanos;

/// Where dcgm-exporter listens when nobody says otherwise.
const DCGM_ENDPOINTS: [&str; 2] = ["http://localhost:9400/metrics", "http://localhost:9401/metrics"];

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetrySettings {
    /// Between two fetches of server metrics.
    pub server_interval: Nanos,
    /// Longest wait for the first page of a server.
    pub server_first: Nanos,
    /// Longest wait for any other one.
    pub server_fetch: Nanos,
    /// Between two samples of a GPU.
    pub gpu_interval: Nanos,
    /// Longest wait for the first page of a GPU exporter.
    pub gpu_first: Nanos,
    /// How long after the last phase counters of GPUs are still read for it.
    pub gpu_grace: Nanos,
    /// Exporters of GPUs that are tried without being asked for.
    pub dcgm_endpoints: Vec<String>,
    /// The config names telemetry: what is missing is shown and not only logged.
    pub asked_for: bool,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        Self {
            server_interval: Nanos::from_millis(333),
            server_first: Nanos::from_millis(10_000),
            server_fetch: Nanos::from_millis(30_000),
            gpu_interval: Nanos::from_millis(333),
            gpu_first: Nanos::from_millis(10_000),
            gpu_grace: Nanos::from_millis(666),
            dcgm_endpoints: DCGM_ENDPOINTS.map(str::to_owned).to_vec(),
            asked_for: false,
        }
    }
}

impl TelemetrySettings {
    pub(super) fn server_limits(&self) -> Limits {
        Limits { interval: self.server_interval, first: self.server_first, fetch: self.server_fetch }
    }

    pub(super) fn gpu_limits(&self) -> Limits {
        Limits { interval: self.gpu_interval, first: self.gpu_first, fetch: self.server_fetch }
    }

    /// Takes a list of addresses: JSON, or separated by commas.
    pub fn set_dcgm_endpoints(&mut self, text: &str) {
        let listed: Option<Vec<String>> = serde_json::from_str(text).ok();
        self.dcgm_endpoints = listed.unwrap_or_else(|| {
            text.split(',').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect()
        });
    }
}

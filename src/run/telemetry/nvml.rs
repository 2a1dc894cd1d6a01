//! GPUs of this machine through NVIDIA's library.
//!
//! The library is found when the program runs; that it is not there is normal. [`Library`] is what the rest
//! of the program sees, so that everything but the binding is tested without a GPU; [`sample_of`] turns the
//! library's units into those of the results.

use crate::telemetry::gpu::{Device, Nvidia, Sample};
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{PerformancePolicy, TemperatureSensor};
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};

/// What stands in files as the source of these samples.
pub const SOURCE: &str = "pynvml://localhost";

/// Why there is no sample.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// A device answers no more.
    #[error("GPU {index}: {why}")]
    Device {
        /// Which.
        index: u32,
        /// What the library says.
        why: String,
    },
    /// There is no library, no driver, or no permission.
    #[error("NVIDIA's library cannot be used: {0}")]
    Missing(String),
    /// The library sees no GPU that answers.
    #[error("no GPU answers")]
    NoDevice,
}

/// A library that knows the GPUs of this machine.
pub trait Library: Send {
    /// How many there are.
    ///
    /// # Errors
    /// The library does not tell.
    fn devices(&self) -> Result<u32, LibraryError>;

    /// What one of them is measured at now.
    ///
    /// # Errors
    /// The device is gone, or may not be asked.
    fn sample(&mut self, index: u32) -> Result<Sample, LibraryError>;
}

/// One device in the library's own units; what it does not support is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Raw {
    /// Its identifier.
    pub uuid: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its place on the bus.
    pub pci_bus_id: Option<String>,
    /// Milliwatts.
    pub power_mw: Option<u32>,
    /// Millijoules since the driver was loaded.
    pub energy_mj: Option<u64>,
    /// Per cent.
    pub gpu_percent: Option<u32>,
    /// Per cent.
    pub memory_percent: Option<u32>,
    /// Bytes in use, with what the driver keeps for itself.
    pub memory_used_bytes: Option<u64>,
    /// Degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Per cent.
    pub sm_percent: Option<f64>,
    /// Per cent.
    pub decoder_percent: Option<u32>,
    /// Per cent.
    pub encoder_percent: Option<u32>,
    /// Nanoseconds for which the power limit held the clocks down.
    pub power_violation_ns: Option<u64>,
}

/// A device's numbers in the units of the results.
pub fn sample_of(index: u32, raw: Raw) -> Sample {
    let mut values: Vec<Option<f64>> = vec![None; Nvidia::PowerViolation as usize + 1];
    let mut put = |signal: Nvidia, value: Option<f64>| {
        if let Some(place) = values.get_mut(signal as usize) {
            *place = value.filter(|value| value.is_finite());
        }
    };
    put(Nvidia::PowerUsage, raw.power_mw.map(|milliwatts| f64::from(milliwatts) * 1e-3));
    put(Nvidia::EnergyConsumption, raw.energy_mj.map(|millijoules| millijoules as f64 * 1e-9));
    put(Nvidia::GpuUtilization, raw.gpu_percent.map(f64::from));
    put(Nvidia::MemoryUtilization, raw.memory_percent.map(f64::from));
    put(Nvidia::MemoryUsed, raw.memory_used_bytes.map(|bytes| bytes as f64 * 1e-9));
    put(Nvidia::Temperature, raw.temperature_c.map(f64::from));
    put(Nvidia::SmUtilization, raw.sm_percent.map(|percent| percent.min(100.0)));
    put(Nvidia::DecoderUtilization, raw.decoder_percent.map(f64::from));
    put(Nvidia::EncoderUtilization, raw.encoder_percent.map(f64::from));
    put(Nvidia::PowerViolation, raw.power_violation_ns.map(|nanos| nanos as f64 * 1e-3));
    let device = Device {
        index,
        uuid: raw.uuid.unwrap_or_else(|| format!("GPU-unknown-{index}")),
        model: raw.model.unwrap_or_else(|| "unknown".to_owned()),
        pci_bus_id: raw.pci_bus_id,
        device: Some(format!("nvidia{index}")),
        hostname: Some("localhost".to_owned()),
        namespace: None,
        pod_name: None,
    };
    Sample { device, values }
}

/// The library itself.
pub struct Binding {
    /// Loaded once and kept to the end of the process: samples of its performance monitor borrow from it.
    nvml: &'static Nvml,
    /// Per device: the last sample of the performance monitor.
    last: Vec<Option<GpmSample<'static>>>,
}

impl Binding {
    /// Loads the library.
    ///
    /// # Errors
    /// There is none, or no driver that it could talk to.
    pub fn load() -> Result<Self, LibraryError> {
        let nvml = Nvml::init().map_err(|error| LibraryError::Missing(error.to_string()))?;
        Ok(Self { nvml: Box::leak(Box::new(nvml)), last: Vec::new() })
    }

    /// Utilisation of the multiprocessors: from the performance monitor between two samples where the GPU has
    /// one, else the sum over its processes.
    fn sm_percent(&mut self, index: u32, device: &nvml_wrapper::Device<'static>) -> Option<f64> {
        if device.gpm_support().is_ok_and(|supported| supported) {
            let place = usize::try_from(index).ok()?;
            while self.last.len() <= place {
                self.last.push(None);
            }
            let now = device.gpm_sample().ok()?;
            let slot = self.last.get_mut(place)?;
            let before = slot.replace(now);
            let (before, now) = (before?, slot.as_ref()?);
            let metrics = gpm_metrics_get(self.nvml, &before, now, &[GpmMetricId::SmUtil]).ok()?;
            return metrics.into_iter().next()?.ok().map(|metric| metric.value);
        }
        match device.process_utilization_stats(None::<u64>) {
            Ok(processes) => Some(processes.iter().map(|process| f64::from(process.sm_util)).sum()),
            // No process has run since the last look.
            Err(NvmlError::NotFound) => Some(0.0),
            Err(_) => None,
        }
    }
}

impl Library for Binding {
    fn devices(&self) -> Result<u32, LibraryError> {
        self.nvml.device_count().map_err(|error| LibraryError::Missing(error.to_string()))
    }

    fn sample(&mut self, index: u32) -> Result<Sample, LibraryError> {
        let nvml: &'static Nvml = self.nvml;
        let device = nvml
            .device_by_index(index)
            .map_err(|error| LibraryError::Device { index, why: error.to_string() })?;
        let utilization = device.utilization_rates().ok();
        let raw = Raw {
            uuid: device.uuid().ok(),
            model: device.name().ok(),
            pci_bus_id: device.pci_info().ok().map(|info| info.bus_id),
            power_mw: device.power_usage().ok(),
            energy_mj: device.total_energy_consumption().ok(),
            gpu_percent: utilization.as_ref().map(|rates| rates.gpu),
            memory_percent: utilization.as_ref().map(|rates| rates.memory),
            memory_used_bytes: device.memory_info().ok().map(|info| info.used.saturating_add(info.reserved)),
            temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
            sm_percent: self.sm_percent(index, &device),
            decoder_percent: device.decoder_utilization().ok().map(|info| info.utilization),
            encoder_percent: device.encoder_utilization().ok().map(|info| info.utilization),
            power_violation_ns: device
                .violation_status(PerformancePolicy::Power)
                .ok()
                .map(|status| status.violation_time),
        };
        if raw == (Raw { sm_percent: raw.sm_percent, ..Raw::default() }) {
            return Err(LibraryError::Device { index, why: "it answers nothing".to_owned() });
        }
        Ok(sample_of(index, raw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_the_library_become_those_of_the_results() {
        let raw = Raw {
            power_mw: Some(312_500),
            energy_mj: Some(2_000_000_000),
            memory_used_bytes: Some(3_000_000_000),
            sm_percent: Some(140.0),
            power_violation_ns: Some(5_000),
            ..Raw::default()
        };
        let sample = sample_of(3, raw);
        let value = |signal: Nvidia| sample.values.get(signal as usize).copied().flatten();
        assert_eq!(value(Nvidia::PowerUsage), Some(312.5));
        assert_eq!(value(Nvidia::EnergyConsumption), Some(2.0));
        assert_eq!(value(Nvidia::MemoryUsed), Some(3.0));
        assert_eq!(value(Nvidia::SmUtilization), Some(100.0));
        assert_eq!(value(Nvidia::PowerViolation), Some(5.0));
        assert_eq!(value(Nvidia::Temperature), None);
        assert_eq!(sample.device.uuid, "GPU-unknown-3");
        assert_eq!(sample.device.device.as_deref(), Some("nvidia3"));
    }
}

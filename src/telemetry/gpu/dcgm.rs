//! A page of dcgm-exporter into samples, one per GPU.

use crate::prometheus::{Line, ReadError, lines};
use crate::telemetry::gpu::extra::Extra;
use crate::telemetry::gpu::{Device, Nvidia, Sample};
use std::borrow::Cow;
use std::fmt::Write;

/// DCGM's name, the signal, and what a value is multiplied with: millijoules to megajoules, MiB to GB,
/// shares to per cent, nanoseconds to microseconds.
const FIELDS: [(&str, Nvidia, f64); 11] = [
    ("DCGM_FI_DEV_POWER_USAGE", Nvidia::PowerUsage, 1.0),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", Nvidia::EnergyConsumption, 1e-9),
    ("DCGM_FI_DEV_GPU_UTIL", Nvidia::GpuUtilization, 1.0),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", Nvidia::MemoryUtilization, 1.0),
    ("DCGM_FI_DEV_FB_USED", Nvidia::MemoryUsed, 1.048_576e-3),
    ("DCGM_FI_DEV_GPU_TEMP", Nvidia::Temperature, 1.0),
    ("DCGM_FI_PROF_SM_ACTIVE", Nvidia::SmUtilization, 100.0),
    ("DCGM_FI_DEV_DEC_UTIL", Nvidia::DecoderUtilization, 1.0),
    ("DCGM_FI_DEV_ENC_UTIL", Nvidia::EncoderUtilization, 1.0),
    ("DCGM_FI_DEV_XID_ERRORS", Nvidia::XidErrors, 1.0),
    ("DCGM_FI_DEV_POWER_VIOLATION", Nvidia::PowerViolation, 1e-3),
];

/// Whether a field of DCGM is known already.
pub fn is_known(field: &str) -> bool {
    FIELDS.iter().any(|(known, _, _)| *known == field)
}

/// The samples of a page, and how many GPUs were left out because they have no identifier or model.
///
/// # Errors
/// The page is not Prometheus text.
pub fn read(text: &str, extra: &[Extra]) -> Result<(Vec<Sample>, usize), ReadError> {
    let mut found: Vec<Found> = Vec::new();
    for line in lines(text) {
        let Line::Sample { name, labels, value } = line? else { continue };
        let label = |wanted: &str| {
            let label = labels.iter().find(|(name, _)| *name == wanted);
            label.map(|(_, value)| value.as_ref()).filter(|value| !value.is_empty())
        };
        let Some(index) = label("gpu").and_then(|index| index.trim().parse::<u32>().ok()) else { continue };
        let Some((signal, factor)) = signal_of(name.strip_suffix("_total").unwrap_or(name), extra) else {
            continue;
        };
        if !value.is_finite() {
            continue;
        }
        let owned = |wanted: &str| label(wanted).map(ToOwned::to_owned);
        let device = PartialDevice {
            index,
            uuid: owned("UUID"),
            model: owned("modelName"),
            pci_bus_id: owned("pci_bus_id"),
            device: owned("device"),
            hostname: owned("Hostname"),
            namespace: owned("namespace"),
            pod_name: owned("pod"),
        };
        let same = |one: &Found| {
            one.device.index == index
                && one.device.uuid == device.uuid
                && one.device.hostname == device.hostname
        };
        let place = found.iter().position(same).unwrap_or_else(|| {
            found.push(Found { device, values: Vec::new() });
            found.len() - 1
        });
        if let Some(found) = found.get_mut(place) {
            if found.values.len() <= signal {
                found.values.resize(signal + 1, None);
            }
            if let Some(place) = found.values.get_mut(signal) {
                *place = Some(value * factor);
            }
        }
    }
    let all = found.len();
    let samples: Vec<Sample> = found.into_iter().filter_map(Found::sample).collect();
    let incomplete = all - samples.len();
    Ok((samples, incomplete))
}

fn signal_of(field: &str, extra: &[Extra]) -> Option<(usize, f64)> {
    let known = FIELDS.iter().find(|(known, _, _)| *known == field);
    known.map(|(_, signal, factor)| (*signal as usize, *factor)).or_else(|| {
        let place = extra.iter().position(|extra| extra.field == field)?;
        Some((crate::telemetry::gpu::KNOWN.len() + place, 1.0))
    })
}

struct PartialDevice {
    index: u32,
    uuid: Option<String>,
    model: Option<String>,
    pci_bus_id: Option<String>,
    device: Option<String>,
    hostname: Option<String>,
    namespace: Option<String>,
    pod_name: Option<String>,
}

struct Found {
    device: PartialDevice,
    values: Vec<Option<f64>>,
}

impl Found {
    fn sample(self) -> Option<Sample> {
        let PartialDevice { index, uuid, model, pci_bus_id, device, hostname, namespace, pod_name } =
            self.device;
        let device =
            Device { index, uuid: uuid?, model: model?, pci_bus_id, device, hostname, namespace, pod_name };
        Some(Sample { device, values: self.values })
    }
}

/// A page as a fake exporter gives it: `gpus` devices with values that the caller makes up.
pub fn render(gpus: &[(Device, Vec<(Nvidia, f64)>)]) -> String {
    let mut text = String::new();
    for (field, signal, factor) in FIELDS {
        let mut rows = gpus.iter().filter_map(|(device, values)| {
            let value = values.iter().find(|(known, _)| *known == signal)?.1 / factor;
            let host = device
                .hostname
                .as_deref()
                .map_or(Cow::Borrowed(""), |host| Cow::Owned(format!(",Hostname=\"{host}\"")));
            let bus = device
                .pci_bus_id
                .as_deref()
                .map_or(Cow::Borrowed(""), |bus| Cow::Owned(format!(",pci_bus_id=\"{bus}\"")));
            Some(format!(
                "{field}{{gpu=\"{}\",UUID=\"{}\"{bus},device=\"nvidia{}\",modelName=\"{}\"{host}}} {value}\n",
                device.index, device.uuid, device.index, device.model
            ))
        });
        if let Some(first) = rows.next() {
            let kind = match signal {
                Nvidia::EnergyConsumption | Nvidia::PowerViolation => "counter",
                _ => "gauge",
            };
            let _ = write!(text, "# HELP {field} A signal of DCGM.\n# TYPE {field} {kind}\n{first}");
            text.extend(rows);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_without_identity_does_not_cost_the_others() {
        let page = "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"u\",modelName=\"m\"} 5\n\
                    DCGM_FI_DEV_POWER_USAGE{gpu=\"1\",modelName=\"m\"} 6\n";
        let read = read(page, &[]);
        assert_eq!(read.map(|(samples, incomplete)| (samples.len(), incomplete)), Ok((1, 1)));
    }

    #[test]
    fn gpus_of_two_hosts_behind_one_exporter_are_two() {
        let page = "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"u\",modelName=\"m\",Hostname=\"a\"} 5\n\
                    DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"w\",modelName=\"m\",Hostname=\"b\"} 6\n";
        assert_eq!(read(page, &[]).map(|(samples, _)| samples.len()), Ok(2));
    }

    #[test]
    fn what_is_rendered_is_read_again() {
        let device = Device {
            index: 1,
            uuid: "GPU-1".to_owned(),
            model: "M".to_owned(),
            pci_bus_id: None,
            device: Some("nvidia1".to_owned()),
            hostname: Some("h".to_owned()),
            namespace: None,
            pod_name: None,
        };
        let page =
            render(&[(device.clone(), vec![(Nvidia::PowerUsage, 300.0), (Nvidia::GpuUtilization, 7.0)])]);
        let samples = read(&page, &[]).map(|(samples, _)| samples).unwrap_or_default();
        assert_eq!(samples, [Sample { device, values: vec![Some(300.0), None, Some(7.0)] }]);
    }
}

//! Samples of GPUs: which signals there are, and how they are kept.
//!
//! A sample comes from an exporter's page ([`dcgm`]) or from NVIDIA's library on this machine; from here on
//! nothing depends on which. Numbers are in the units of the results already (W, MJ, GB, %).

pub mod dcgm;
pub mod extra;
pub mod summary;

use std::borrow::Cow;

/// Samples of one device that are kept: at three a second, eight hours are 86,400.
pub const SAMPLES_MAX: usize = 1 << 20;

/// Something that is measured of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its key in files.
    pub key: Cow<'static, str>,
    /// Its name for people.
    pub header: Cow<'static, str>,
    /// Its unit in files.
    pub unit: Cow<'static, str>,
    /// Whether it rises or goes up and down.
    pub kind: SignalKind,
}

/// How a signal is summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalKind {
    /// It rises: how much is what counts.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// Whose GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// AMD's.
    Amd,
    /// NVIDIA's.
    Nvidia,
}

impl Platform {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Amd => "amd",
            Self::Nvidia => "nvidia",
        }
    }
}

/// NVIDIA's signals, in the order of files and tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[expect(missing_docs, reason = "the names say it, and `KNOWN` has the units")]
pub enum Nvidia {
    PowerUsage,
    EnergyConsumption,
    GpuUtilization,
    MemoryUtilization,
    MemoryUsed,
    Temperature,
    SmUtilization,
    DecoderUtilization,
    EncoderUtilization,
    JpgUtilization,
    XidErrors,
    PowerViolation,
}

/// The signals that are known, NVIDIA's in the order of [`Nvidia`].
const KNOWN: [(&str, &str, &str, SignalKind); 12] = {
    use SignalKind::{Counter, Gauge};
    [
        ("nvidia_power_usage", "NVIDIA GPU Power Usage", "W", Gauge),
        ("nvidia_energy_consumption", "NVIDIA Energy Consumption", "MJ", Counter),
        ("nvidia_gpu_utilization", "NVIDIA GPU Utilization", "%", Gauge),
        ("nvidia_memory_utilization", "NVIDIA Memory Utilization", "%", Gauge),
        ("nvidia_memory_used", "NVIDIA GPU Memory Used", "GB", Gauge),
        ("nvidia_temperature", "NVIDIA GPU Temperature", "\u{b0}C", Gauge),
        ("nvidia_sm_utilization", "NVIDIA SM Utilization", "%", Gauge),
        ("nvidia_decoder_utilization", "NVIDIA Decoder Utilization", "%", Gauge),
        ("nvidia_encoder_utilization", "NVIDIA Encoder Utilization", "%", Gauge),
        ("nvidia_jpg_utilization", "NVIDIA JPEG Utilization", "%", Gauge),
        ("nvidia_xid_errors", "NVIDIA XID Errors", "count", Counter),
        ("nvidia_power_violation", "NVIDIA Power Violation", "us", Counter),
    ]
};

/// All signals: the known ones, then those of the user.
pub fn signals(extra: &[extra::Extra]) -> Vec<Signal> {
    let known = KNOWN.iter().map(|(key, header, unit, kind)| Signal {
        key: Cow::Borrowed(key),
        header: Cow::Borrowed(header),
        unit: Cow::Borrowed(unit),
        kind: *kind,
    });
    let extra = extra.iter().map(|extra| Signal {
        key: Cow::Owned(extra.key.clone()),
        header: Cow::Owned(extra.header.clone()),
        unit: Cow::Borrowed(extra.unit),
        kind: SignalKind::Gauge,
    });
    known.chain(extra).collect()
}

/// Which GPU.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// Its number on its host.
    pub index: u32,
    /// Its identifier.
    pub uuid: String,
    /// Its model.
    pub model: String,
    /// Its place on the bus.
    pub pci_bus_id: Option<String>,
    /// The device file.
    pub device: Option<String>,
    /// Its host.
    pub hostname: Option<String>,
    /// In a cluster: the namespace of the workload that has it.
    pub namespace: Option<String>,
    /// In a cluster: the pod that has it.
    pub pod_name: Option<String>,
}

/// What was measured of a device at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The device.
    pub device: Device,
    /// A value per signal, in their order; absent where it is not known. Trailing absent ones may lack.
    pub values: Vec<Option<f64>>,
}

/// All samples from one source.
#[derive(Debug)]
pub struct GpuHistory {
    url: String,
    tracks: Vec<Track>,
}

/// One device over time.
#[derive(Debug)]
pub struct Track {
    /// The device, as first seen.
    pub device: Device,
    times_ns: Vec<u64>,
    /// Per signal; not a number where it is not known.
    columns: Vec<Vec<f64>>,
}

impl GpuHistory {
    /// Nothing measured yet at `url`.
    pub fn new(url: String) -> Self {
        Self { url, tracks: Vec::new() }
    }

    /// The address of the source.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The devices, in order of appearance.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Keeps a sample. A device that has [`SAMPLES_MAX`] already takes none.
    pub fn push(&mut self, at_ns: u64, sample: &Sample) {
        let same = |track: &Track| {
            track.device.uuid == sample.device.uuid
                && track.device.index == sample.device.index
                && track.device.hostname == sample.device.hostname
        };
        let place = self.tracks.iter().position(same).unwrap_or_else(|| {
            let device = sample.device.clone();
            self.tracks.push(Track { device, times_ns: Vec::new(), columns: Vec::new() });
            self.tracks.len() - 1
        });
        let Some(track) = self.tracks.get_mut(place) else { return };
        let before = track.times_ns.len();
        if before >= SAMPLES_MAX {
            return;
        }
        while track.columns.len() < sample.values.len() {
            track.columns.push(vec![f64::NAN; before]);
        }
        track.times_ns.push(at_ns);
        for (number, column) in track.columns.iter_mut().enumerate() {
            column.push(sample.values.get(number).copied().flatten().unwrap_or(f64::NAN));
        }
    }
}

impl Track {
    /// Time and value of one signal, in order of time.
    pub fn values(&self, signal: usize) -> impl DoubleEndedIterator<Item = (u64, f64)> {
        let column = self.columns.get(signal).map(Vec::as_slice).unwrap_or_default();
        self.times_ns.iter().copied().zip(column.iter().copied()).filter(|(_, value)| !value.is_nan())
    }
}

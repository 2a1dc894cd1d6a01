//! GPU samples cut to a window.

use crate::telemetry::gpu::{Device, Signal, SignalKind, Track};
use crate::telemetry::numbers::Spread;
use crate::telemetry::{GpuSource, Telemetry, address};

/// A window in nanoseconds since the Unix epoch, both ends inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First moment.
    pub start_ns: u64,
    /// Last moment.
    pub end_ns: u64,
}

/// What is said about one signal of a device.
#[derive(Clone, Debug, PartialEq)]
pub enum SignalFigures {
    /// By how much it rose.
    Rise(f64),
    /// Its values.
    Spread(Spread),
}

/// What is said about one device.
#[derive(Clone, Debug)]
pub struct DeviceFigures<'a> {
    /// The device.
    pub device: &'a Device,
    /// Its key in files: `gpu_0`, with the host behind it when another GPU of the source has that number.
    pub key: String,
    /// The signals that have a sample in the window.
    pub signals: Vec<(&'a Signal, SignalFigures)>,
}

/// What is said about one source.
#[derive(Clone, Debug)]
pub struct SourceFigures<'a> {
    /// Its address for people.
    pub endpoint: String,
    /// Its devices, in order of appearance.
    pub devices: Vec<DeviceFigures<'a>>,
}

/// Every source cut to `window`.
pub fn of(telemetry: &Telemetry, window: Window) -> Vec<SourceFigures<'_>> {
    telemetry
        .gpus
        .iter()
        .map(|source| SourceFigures {
            endpoint: address::display(source.history.url()),
            devices: devices(source, &telemetry.signals, window),
        })
        .collect()
}

fn devices<'a>(source: &'a GpuSource, signals: &'a [Signal], window: Window) -> Vec<DeviceFigures<'a>> {
    let mut devices: Vec<DeviceFigures<'a>> = Vec::new();
    for track in source.history.tracks() {
        let device = &track.device;
        let plain = format!("gpu_{}", device.index);
        let key = if devices.iter().any(|other| other.key == plain) {
            format!("{plain}_{}", device.hostname.as_deref().unwrap_or(&device.uuid))
        } else {
            plain
        };
        let found = signals.iter().enumerate().filter_map(|(number, signal)| {
            let figures = match signal.kind {
                SignalKind::Counter => SignalFigures::Rise(rise(track, number, window)?),
                SignalKind::Gauge => SignalFigures::Spread(spread(track, number, window)?),
            };
            Some((signal, figures))
        });
        devices.push(DeviceFigures { device, key, signals: found.collect() });
    }
    devices
}

/// The values of a gauge in a window.
pub fn spread(track: &Track, signal: usize, window: Window) -> Option<Spread> {
    let inside = track.values(signal).filter(|(at, _)| (window.start_ns..=window.end_ns).contains(at));
    Spread::of(&inside.map(|(_, value)| value).collect::<Vec<_>>())
}

/// By how much a counter rose in a window, from the last sample before it; never below 0.
pub fn rise(track: &Track, signal: usize, window: Window) -> Option<f64> {
    let last = track.values(signal).rfind(|(at, _)| (window.start_ns..=window.end_ns).contains(at))?;
    let before = track.values(signal).rfind(|(at, _)| *at < window.start_ns);
    let first = track.values(signal).find(|(at, _)| *at >= window.start_ns);
    let reference = before.or(first)?;
    Some((last.1 - reference.1).max(0.0))
}

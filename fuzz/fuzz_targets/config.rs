//! The loader of configs, on any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    phasor::config::check::loader(data);
});

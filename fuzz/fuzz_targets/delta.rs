//! The byte scanner against the parsed tree, on the JSON of one message.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    phasor::wire::check::delta(data);
});

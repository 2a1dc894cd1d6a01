//! A reply gives the same sums however it is cut.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    phasor::wire::check::reply_input(data);
});

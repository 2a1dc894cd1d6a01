//! The machine: a pinned executor, its ring, its sockets.
//!
//! All unsafe code of phasor lives in [`sys`]. [`ring`] is a safe, completion-based socket layer over it
//! that the client's driver and the built-in server share. No rule about phases or requests stands here.

pub mod ring;
#[expect(unsafe_code, reason = "the one place that talks to the kernel's shared memory")]
pub mod sys;

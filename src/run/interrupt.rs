//! Signals. Ctrl-C: the first ends the run and writes everything, the second leaves at once. A file that may
//! grow no further is an error of that file, not the end of the process.

use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::consts::SIGXFSZ;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Exit code of a process that a second interrupt ended at once: what a shell shows for SIGKILL, which is
/// how AIPerf ends then.
const EXIT_AT_ONCE: i32 = 137;

/// Arms both signals: after the first, `interrupted` is set; the second ends the process. The signal that a
/// limit of file sizes (`ulimit -f`) sends is taken without a deed, so that the write fails instead.
pub fn arm(interrupted: &Arc<AtomicBool>) -> Result<(), std::io::Error> {
    for signal in [SIGINT, SIGTERM] {
        // Order matters: the exit looks at the flag before this very signal sets it.
        signal_hook::flag::register_conditional_shutdown(signal, EXIT_AT_ONCE, Arc::clone(interrupted))?;
        signal_hook::flag::register(signal, Arc::clone(interrupted))?;
    }
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    Ok(())
}

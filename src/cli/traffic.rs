//! What a run sends, made with a word about how far it is.

use crate::cli::say;
use crate::config::Config;
use crate::run::traffic::{Traffic, TrafficError};
use crate::time::{Clock, Nanos, Stamp};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Nothing is said about work that is done sooner, nor again before as long has passed.
const QUIET: Nanos = Nanos::from_millis(1_000);

/// Makes what `config` sends and says how far it is whenever that takes long.
pub(super) fn prepare(config: &Config, clock: Clock) -> Result<Traffic, TrafficError> {
    let said = AtomicU64::new(clock.now().since(Stamp::ORIGIN).0);
    let progress = |share: f64| {
        let now = clock.now().since(Stamp::ORIGIN).0;
        let last = said.load(Relaxed);
        let due = now.saturating_sub(last) >= QUIET.0;
        if due && share < 1.0 && said.compare_exchange(last, now, Relaxed, Relaxed).is_ok() {
            say(&format!("Preparing the dataset: {:.0} %", share * 100.0));
        }
    };
    let traffic = Traffic::prepare(config, |name| std::env::var(name).ok(), &progress)?;
    for warning in &traffic.warnings {
        say(&format!("warning: {warning}"));
    }
    Ok(traffic)
}

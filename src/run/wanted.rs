//! What a config wants of the files and of good requests.

use crate::artifact::Switches;
use crate::config::Config;
use crate::measure::Judgement;
use crate::measure::judgement::JudgementError;
use std::sync::Arc;

/// What the files and the measuring need to know beside the phases.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) switches: Switches,
    pub(super) judgement: Arc<Judgement>,
}

impl Wanted {
    /// Reads a config, and the thresholds of the environment.
    ///
    /// The config does not name switches and objectives yet (its reader refuses those keys): this is the one
    /// place where they enter.
    pub(super) fn of(_config: &Config) -> Result<Self, JudgementError> {
        let judgement = Judgement::default().with_environment(|name| std::env::var(name).ok())?;
        Ok(Self { switches: Switches::default(), judgement: Arc::new(judgement) })
    }
}

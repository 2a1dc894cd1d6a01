//! The table of all flags: names, what each takes, what it changes, and a few words of help.

mod dataset;
mod foreign;
mod load;
mod run;
mod search;

use crate::config::flags::{Flag, Sets, Takes};

/// Flags that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What they are about.
    pub title: &'static str,
    /// The flags.
    pub flags: &'static [Flag],
}

/// All groups, in parts.
pub const GROUPS: &[&[Group]] =
    &[load::GROUPS, dataset::GROUPS, run::GROUPS, search::GROUPS, foreign::GROUPS];

const fn flag(names: &'static [&'static str], takes: Takes, sets: Sets, help: &'static str) -> Flag {
    Flag { names, short: None, takes, sets, with_file: true, of_trials: false, help }
}

impl Flag {
    /// With a one-letter name.
    const fn short(self, short: char) -> Self {
        Self { short: Some(short), ..self }
    }

    /// Only without a file.
    const fn alone(self) -> Self {
        Self { with_file: false, ..self }
    }

    /// Only in runs of several trials.
    const fn of_trials(self) -> Self {
        Self { of_trials: true, ..self }
    }
}

/// All flags.
pub fn all() -> impl Iterator<Item = &'static Flag> {
    GROUPS.iter().flat_map(|part| part.iter()).flat_map(|group| group.flags.iter())
}

//! Flags of the command line as edits of the tree.
//!
//! A flag changes the same tree that the file became, before it is read, so that a flag and a key share one
//! validation and one kind of message; its place is its own text in the command line. It parses no command
//! line: the caller hands over which flags were given.

mod alone;
mod edit;
mod load;
pub mod search;
mod table;
mod value;
mod warmup;

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::keys::{Bound, Spanned};
use crate::config::scalar::Scalar;
use crate::config::source::{Node, Value};

pub use alone::{complete, document, promote};
pub use table::{GROUPS, Group, all};

/// What a flag takes.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// `"metric:number metric:number"`.
    Limits,
    /// A number.
    Number(Bound),
    /// A number, or several parted by commas.
    Numbers(Bound),
    /// `path=value`, several times.
    Assignments,
    /// `k:v,k:v` or a JSON object, several times.
    Pairs,
    /// Nothing: it switches something on.
    Switch,
    /// Nothing: it switches something on, and its form with `no-` off.
    TwoWaySwitch,
    /// A text.
    Text,
    /// Texts, parted by commas or several after one flag.
    Texts,
    /// A whole number of at least this.
    Whole(u64),
    /// A whole number of at least this, or several parted by commas.
    Wholes(u64),
}

/// What a flag changes.
#[derive(Clone, Copy, Debug)]
pub enum Sets {
    /// A field of the first dataset.
    Dataset(&'static str),
    /// Mean or deviation of a distribution of the first dataset.
    Distribution(&'static str, Part),
    /// A field below `benchmark`.
    Field(&'static str),
    /// Something of the one profiling phase.
    Load(LoadFlag),
    /// Nothing: phasor does not have that part, and what it does not touch the load; a warning says so.
    Nothing(&'static str),
    /// Refused, because without that part another load would be sent.
    Refused(&'static str),
    /// A field of the envelope.
    Root(&'static str),
    /// Something that is no single field.
    Special(SpecialFlag),
    /// Something of the first warmup phase.
    Warmup(WarmupFlag),
}

/// A part of a normal distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its mean.
    Mean,
    /// Its standard deviation.
    Deviation,
}

/// What a flag of the load changes in the profiling phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is named after its flag")]
pub enum LoadFlag {
    ArrivalPattern,
    ArrivalSmoothness,
    CancellationDelay,
    CancellationRate,
    Concurrency,
    ConcurrencyRamp,
    Duration,
    FixedSchedule,
    FixedScheduleAutoOffset,
    FixedScheduleEndOffset,
    FixedScheduleStartOffset,
    GracePeriod,
    /// A field of the phase, written as it is.
    Other(&'static str),
    PrefillConcurrency,
    PrefillRamp,
    RateRamp,
    RequestRate,
    RequestRateSeries,
    Requests,
    Sessions,
    UserCentricRate,
    Users,
}

/// What a flag changes in the warmup phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is named after its flag")]
pub enum WarmupFlag {
    ArrivalPattern,
    Concurrency,
    ConcurrencyRamp,
    Duration,
    GracePeriod,
    PrefillConcurrency,
    PrefillRamp,
    RateRamp,
    RequestRate,
    Requests,
    Sessions,
}

/// What is no single field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is named after its flag")]
pub enum SpecialFlag {
    CustomDatasetType,
    Entries,
    ExportLevel,
    ExtraVerbose,
    GpuTelemetry,
    Headers,
    InputFile,
    ExtraInputs,
    Goodput,
    Models,
    NoFixedSchedule,
    NoGpuTelemetry,
    NoServerMetrics,
    ProfileRuns,
    PublicDataset,
    RandomRange,
    RandomSeed,
    ResetCache,
    Search(search::SearchFlag),
    SequenceDistribution,
    ServerMetrics,
    ServerProfiler,
    Set,
    SweepType,
    Urls,
    Verbose,
}

/// A flag of `profile`.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its long names without the dashes, the main one first.
    pub names: &'static [&'static str],
    /// Its one-letter name.
    pub short: Option<char>,
    /// What it takes.
    pub takes: Takes,
    /// What it changes.
    pub sets: Sets,
    /// Whether it may be given beside a file.
    pub with_file: bool,
    /// Whether it works only in runs of several trials: `--num-profile-runs` beside it.
    pub of_trials: bool,
    /// What it is for, in a few words.
    pub help: &'static str,
}

impl Flag {
    /// Its main name.
    pub fn name(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }
}

/// A flag that was given.
#[derive(Clone, Debug)]
pub struct Given {
    /// Which one.
    pub flag: &'static Flag,
    /// As typed: `--concurrency`.
    pub typed: String,
    /// Its values with their places; a switch has `true` or `false`.
    pub values: Vec<Spanned<String>>,
}

impl Given {
    /// Where it stands.
    pub fn place(&self) -> Span {
        self.values.first().map_or(0..0, |value| value.key.clone())
    }

    /// The same with all places `by` bytes further on.
    pub fn shifted(&self, by: usize) -> Self {
        let moved = |span: &Span| span.start + by..span.end + by;
        let values = self.values.iter().map(|value| Spanned {
            key: moved(&value.key),
            span: moved(&value.span),
            value: value.value.clone(),
        });
        Self { values: values.collect(), ..self.clone() }
    }

    fn fault(&self, message: impl Into<String>, label: &str, help: &str) -> Diagnostic {
        Diagnostic::error(message).at(self.place(), label).with_help(help)
    }

    /// The values as nodes: one, or several for a flag that takes a list.
    fn nodes(&self) -> Result<Vec<Node>, Box<Diagnostic>> {
        value::nodes(self)
    }
}

/// The trees that flags change: both forms of one document.
pub struct Edited<'t> {
    /// With templates rendered.
    pub rendered: &'t mut Node,
    /// As written, which sweeps start from.
    pub raw: &'t mut Node,
}

/// Refuses what cannot be given beside a file, and warns of what does nothing.
pub fn check(given: &[Given], has_file: bool, faults: &mut Vec<Diagnostic>) {
    let unrouted: Vec<&Given> = given.iter().filter(|given| has_file && !given.flag.with_file).collect();
    if let Some(first) = unrouted.first() {
        let names: Vec<String> = unrouted.iter().map(|given| format!("`{}`", given.typed)).collect();
        faults.push(first.fault(
            format!("{} cannot be given beside `--config`", names.join(", ")),
            "only without a file",
            "write it into the file",
        ));
    }
    let several_trials = given.iter().any(|given| {
        matches!(given.flag.sets, Sets::Special(SpecialFlag::ProfileRuns))
            && given.values.first().is_some_and(|value| value.value.trim() != "1")
    });
    for given in given {
        match given.flag.sets {
            Sets::Nothing(why) => faults.push(
                Diagnostic::warning(format!("`{}` is not used: {why}", given.typed))
                    .at(given.place(), "not used"),
            ),
            Sets::Refused(why) => faults.push(
                Diagnostic::error(format!("`{}` cannot be used: {why}", given.typed))
                    .at(given.place(), "cannot be used"),
            ),
            Sets::Dataset(_)
            | Sets::Distribution(..)
            | Sets::Field(_)
            | Sets::Load(_)
            | Sets::Root(_)
            | Sets::Special(_)
            | Sets::Warmup(_) => {}
        }
        if given.flag.of_trials && !several_trials {
            faults.push(given.fault(
                format!("`{}` needs `--num-profile-runs` of 2 or more beside it", given.typed),
                "there is one run",
                "add `--num-profile-runs 3`",
            ));
        }
        if let Err(fault) = given.nodes() {
            faults.push(*fault);
        }
    }
    let find = |special: SpecialFlag| {
        given.iter().find(|given| matches!(given.flag.sets, Sets::Special(found) if found == special))
    };
    for (on, off) in [
        (SpecialFlag::GpuTelemetry, SpecialFlag::NoGpuTelemetry),
        (SpecialFlag::ServerMetrics, SpecialFlag::NoServerMetrics),
    ] {
        if let (Some(on), Some(off)) = (find(on), find(off)) {
            faults.push(off.fault(
                format!("`{}` and `{}` exclude each other", on.typed, off.typed),
                "one of the two",
                "leave one of them out",
            ));
        }
    }
}

/// Whether a flag is applied before the file is first judged by itself.
fn is_early(flag: &Flag) -> bool {
    match flag.sets {
        Sets::Field(path) => path.starts_with("endpoint.") || path.starts_with("models."),
        Sets::Special(special) => matches!(
            special,
            SpecialFlag::ExtraInputs
                | SpecialFlag::Headers
                | SpecialFlag::Models
                | SpecialFlag::ResetCache
                | SpecialFlag::ServerProfiler
                | SpecialFlag::Urls
        ),
        Sets::Dataset(_)
        | Sets::Distribution(..)
        | Sets::Load(_)
        | Sets::Nothing(_)
        | Sets::Refused(_)
        | Sets::Root(_)
        | Sets::Warmup(_) => false,
    }
}

/// Applies those of `given` that touch endpoint and models.
pub fn apply_early(trees: &mut Edited<'_>, given: &[Given], faults: &mut Vec<Diagnostic>) {
    for given in given.iter().filter(|given| is_early(given.flag)) {
        apply_one(trees, given, faults);
    }
}

/// Applies all others of `given`.
pub fn apply_late(trees: &mut Edited<'_>, given: &[Given], has_file: bool, faults: &mut Vec<Diagnostic>) {
    let is_sweep_type = |given: &Given| matches!(given.flag.sets, Sets::Special(SpecialFlag::SweepType));
    for given in given.iter().filter(|given| !is_early(given.flag) && !is_sweep_type(given)) {
        apply_one(trees, given, faults);
    }
    // A warmup that is added takes over what the load flags alone say, not what they make of the phase.
    warmup::apply(trees, given, has_file, faults);
    load::apply(trees, given, faults);
    // Which lists there are is known only now.
    let Some(kind) = given.iter().find(|given| is_sweep_type(given)) else { return };
    if trees.raw.entry("sweep").is_some() {
        apply_one(trees, kind, faults);
    } else {
        faults.push(
            Diagnostic::warning(format!("`{}` is not used: no flag has several values", kind.typed))
                .at(kind.place(), "not used"),
        );
    }
}

fn apply_one(trees: &mut Edited<'_>, given: &Given, faults: &mut Vec<Diagnostic>) {
    for (index, tree) in [&mut *trees.rendered, &mut *trees.raw].into_iter().enumerate() {
        if let Err(fault) = edit::apply(tree, given)
            && index == 0
        {
            faults.push(*fault);
        }
    }
}

/// A text at `place`.
fn text_node(text: &str, place: &Span) -> Node {
    Node { span: place.clone(), value: Value::Scalar(Scalar::Text(text.to_owned())) }
}

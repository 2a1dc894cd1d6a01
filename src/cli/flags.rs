//! The flags that edit a config, as arguments of `profile`, and which of them were given.

use crate::config::CommandLine;
use crate::config::flags::Flag;
use crate::config::flags::GROUPS;
use crate::config::flags::Given;
use crate::config::flags::Takes;
use crate::config::flags::all;
use crate::config::keys::Spanned;
use crate::config::url::HIDDEN;
use crate::config::url::without_user_info;
use clap::Arg;
use clap::ArgAction;
use clap::ArgMatches;
use clap::Command;
use clap::parser::ValueSource;
use std::ffi::OsString;
use std::ops::Range;

/// The group whose flags are known and of no use here.
const FOREIGN: &str = "Of AIPerf alone";

/// `-vv` is `--extra-verbose`: one letter twice is no flag of its own for the parser.
pub(super) fn spelled_out(argument: OsString) -> OsString {
    if argument == "-vv" { OsString::from("--extra-verbose") } else { argument }
}

/// `command` with all flags of the table.
pub(super) fn with_flags(command: Command) -> Command {
    let mut command = command;
    for group in GROUPS.iter().flat_map(|part| part.iter()) {
        for flag in group.flags {
            let hidden = group.title == FOREIGN;
            command = command.arg(
                argument(flag, flag.name().to_owned(), flag.names).help_heading(group.title).hide(hidden),
            );
            if matches!(flag.takes, Takes::TwoWaySwitch) {
                let off = Arg::new(off_name(flag)).long(off_name(flag)).action(ArgAction::SetTrue);
                command = command.arg(off.help_heading(group.title).hide(true).conflicts_with(flag.name()));
            }
        }
    }
    command
}

fn off_name(flag: &Flag) -> String {
    format!("no-{}", flag.name())
}

fn argument(flag: &'static Flag, id: String, names: &'static [&'static str]) -> Arg {
    // The shortest name reads best; the others are understood too.
    let shown = names.iter().min_by_key(|name| name.len()).copied().unwrap_or_default();
    let others = names.iter().copied().filter(|name| *name != shown);
    let mut argument = Arg::new(id).long(shown).visible_aliases(others.collect::<Vec<_>>()).help(flag.help);
    if let Some(short) = flag.short {
        argument = argument.short(short);
    }
    let value = match flag.takes {
        Takes::Assignments => "PATH=VALUE",
        Takes::Limits => "METRIC:NUMBER",
        Takes::Number(_) => "NUMBER",
        Takes::Numbers(_) | Takes::Wholes(_) => "N[,N...]",
        Takes::Pairs => "NAME:VALUE",
        Takes::Switch | Takes::TwoWaySwitch => "BOOL",
        Takes::Text | Takes::Texts => "TEXT",
        Takes::Whole(_) => "N",
    };
    let argument = argument.value_name(value);
    match flag.takes {
        Takes::Switch | Takes::TwoWaySwitch => argument
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .hide_default_value(true),
        Takes::Assignments | Takes::Pairs | Takes::Texts | Takes::Limits => {
            argument.action(ArgAction::Append).num_args(1..)
        }
        Takes::Number(_) | Takes::Numbers(_) | Takes::Text | Takes::Whole(_) | Takes::Wholes(_) => {
            argument.action(ArgAction::Set).allow_negative_numbers(true)
        }
    }
}

/// The flags in `matches`, with their places in the command line `typed`.
pub(super) fn collect(matches: &ArgMatches, typed: &[OsString]) -> CommandLine {
    let line = Line::of(typed);
    let mut given = Vec::new();
    for flag in all() {
        if matches.value_source(flag.name()) == Some(ValueSource::CommandLine) {
            let values: Vec<String> =
                matches.get_many::<String>(flag.name()).into_iter().flatten().cloned().collect();
            given.push(line.given(flag, values));
        }
        let is_off = matches!(flag.takes, Takes::TwoWaySwitch) && matches.get_flag(&off_name(flag));
        if is_off {
            given.push(line.off(flag));
        }
    }
    CommandLine { text: line.text, given }
}

/// A command line as one text, with the place of each argument.
struct Line {
    text: String,
    /// As typed, and where it stands.
    tokens: Vec<(String, Range<usize>)>,
}

impl Line {
    fn of(typed: &[OsString]) -> Self {
        let mut line = Self { text: "phasor".to_owned(), tokens: Vec::new() };
        let mut of = Of::Other;
        for argument in typed.iter().skip(1) {
            let argument = argument.to_string_lossy().into_owned();
            line.text.push(' ');
            let start = line.text.len();
            line.text.push_str(&shown(&argument, of));
            of = Of::behind(&argument);
            line.tokens.push((argument, start..line.text.len()));
        }
        line
    }

    /// The first argument that is `flag` in one of its names, with its position.
    fn find(&self, flag: &Flag, is_off: bool) -> Option<(usize, String, Range<usize>)> {
        self.tokens.iter().enumerate().find_map(|(at, (token, place))| {
            let name = token.split('=').next().unwrap_or(token);
            let long = name.strip_prefix("--");
            let bare = if is_off { long.and_then(|name| name.strip_prefix("no-")) } else { long };
            let short = flag.short.filter(|_| !token.starts_with("--"));
            let is_short = short
                .is_some_and(|short| token.strip_prefix('-').is_some_and(|rest| rest.starts_with(short)));
            let is_long = bare.is_some_and(|bare| flag.names.contains(&bare));
            let name = if is_short { token.chars().take(2).collect() } else { name.to_owned() };
            (is_long || is_short).then(|| (at, name, place.clone()))
        })
    }

    fn given(&self, flag: &'static Flag, values: Vec<String>) -> Given {
        let (at, typed, place) =
            self.find(flag, false).unwrap_or_else(|| (0, format!("--{}", flag.name()), 0..0));
        let mut next = at;
        let values = values.into_iter().map(|value| {
            // A value stands in an argument of its own or behind the flag and `=`.
            let found = self.tokens.iter().enumerate().skip(next).find(|(_, (token, _))| {
                *token == value
                    || token
                        .strip_suffix(&value)
                        .is_some_and(|before| before.ends_with('=') || before.len() == 2)
            });
            let span = match found {
                Some((at, (token, place))) if !value.is_empty() => {
                    next = at + usize::from(*token == value);
                    // Behind the `=`, where nothing had to be quoted.
                    let start = place.end.saturating_sub(value.len()).max(place.start);
                    if *token == value { place.clone() } else { start..place.end }
                }
                Some(_) | None => place.clone(),
            };
            Spanned { key: place.clone(), span, value }
        });
        Given { flag, typed, values: values.collect() }
    }

    fn off(&self, flag: &'static Flag) -> Given {
        let (_, typed, place) =
            self.find(flag, true).unwrap_or_else(|| (0, format!("--no-{}", flag.name()), 0..0));
        let value = Spanned { key: place.clone(), span: place, value: "false".to_owned() };
        Given { flag, typed, values: vec![value] }
    }
}

/// What an argument is the value of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// A flag that takes addresses.
    Addresses,
    /// A flag that takes a secret.
    Secret,
    /// Anything else.
    Other,
}

impl Of {
    /// What stands behind `flag`.
    fn behind(flag: &str) -> Self {
        match flag {
            "--api-key" => Self::Secret,
            "--url" | "-u" | "--server-metrics" | "--gpu-telemetry" => Self::Addresses,
            _ => Self::Other,
        }
    }
}

/// Addresses, with commas between them, without user names and passwords.
fn without_user_infos(addresses: &str) -> String {
    let hidden = addresses.split(',').map(|address| {
        let shown = without_user_info(address);
        shown.replacen(HIDDEN, MASK, usize::from(shown != address))
    });
    hidden.collect::<Vec<_>>().join(",")
}

/// What stands in the place of a secret.
const MASK: &str = "***";

/// An argument as a shell would take it, secrets masked.
fn shown(argument: &str, of: Of) -> String {
    let folded = argument.to_ascii_lowercase();
    let argument = match argument.split_once('=') {
        _ if of == Of::Addresses || argument.contains("://") => &without_user_infos(argument),
        Some((flag, value)) if Of::behind(flag) == Of::Addresses => {
            &format!("{flag}={}", without_user_infos(value))
        }
        Some(_) | None => argument,
    };
    if of == Of::Secret || folded.starts_with("authorization:") {
        return MASK.to_owned();
    }
    if let Some((name, _)) = argument.split_once('=').filter(|(name, _)| *name == "--api-key") {
        return format!("{name}={MASK}");
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+*".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        return argument.to_owned();
    }
    let one_line: String = argument.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("'{}'", one_line.replace('\'', "'\\''"))
}

//! `phasor config`: a config to start from, what a config may say, and what one becomes.

use crate::cli::exit;
use crate::cli::say;
use crate::cli::say_all;
use crate::cli::show;
use crate::cli::validate;
use crate::config;
use crate::config::Loaded;
use crate::config::meant::SweepKind;
use crate::config::schema;
use anyhow::Context;
use clap::Args;
use clap::Subcommand;
use clap::ValueEnum;
use serde_json::Value as Json;
use serde_json::json;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// Arguments of `phasor config`.
#[derive(Debug, Args)]
pub(super) struct ConfigArguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Show the runs that a config's sweep becomes
    Expand(ExpandArguments),
    /// Print a config to start from, or write it to a file
    Init(InitArguments),
    /// Print the JSON schema of configs, for editors
    Schema,
    /// Check configs, as `phasor validate` does
    Validate(validate::ValidateArguments),
}

#[derive(Debug, Args)]
struct ExpandArguments {
    /// The YAML file; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// With the whole `benchmark` of each run
    #[arg(long, short = 'F')]
    full: bool,

    /// Only the run of this number, whole
    #[arg(long, short, value_name = "N")]
    index: Option<usize>,

    /// How to print; JSON is YAML too
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
enum Format {
    /// One JSON object
    Json,
    /// A line for each run
    Text,
}

#[derive(Debug, Args)]
struct InitArguments {
    /// The template; `--list` names them
    #[arg(long, short, value_name = "NAME", required_unless_present = "list")]
    template: Option<String>,

    /// List the templates
    #[arg(long, short)]
    list: bool,

    /// The model's name as the server knows it
    #[arg(long, short, value_name = "NAME")]
    model: Option<String>,

    /// Where the server is
    #[arg(long, short, value_name = "URL")]
    url: Option<String>,

    /// Write to this file, which must not exist yet
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Name and text of each template: the examples, which the tests run.
const TEMPLATES: &[(&str, &str)] = &[
    ("adaptive", include_str!("../../examples/adaptive.yaml")),
    ("multi-phase", include_str!("../../examples/multi-phase.yaml")),
    ("multi-turn", include_str!("../../examples/multi-turn.yaml")),
    ("poisson", include_str!("../../examples/poisson.yaml")),
    ("seamless", include_str!("../../examples/seamless.yaml")),
    ("search", include_str!("../../examples/search.yaml")),
    ("several-warmups", include_str!("../../examples/several-warmups.yaml")),
    ("sweep", include_str!("../../examples/sweep.yaml")),
    ("trace", include_str!("../../examples/trace.yaml")),
    ("trials", include_str!("../../examples/trials.yaml")),
];

/// Does what was asked and tells the exit code.
pub(super) fn config(arguments: &ConfigArguments) -> anyhow::Result<u8> {
    match &arguments.task {
        Task::Expand(arguments) => Ok(expand(arguments)),
        Task::Init(arguments) => init(arguments),
        Task::Schema => {
            show(&format!("{:#}\n", schema::schema()));
            Ok(0)
        }
        Task::Validate(arguments) => Ok(validate::validate(arguments)),
    }
}

fn expand(arguments: &ExpandArguments) -> u8 {
    let loaded = match config::load(&arguments.file) {
        Ok(loaded) => loaded,
        Err(faults) => {
            say_all(&faults);
            return exit::FAILED;
        }
    };
    if matches!(loaded.config.sweep.as_ref().map(|sweep| &sweep.kind), Some(SweepKind::AdaptiveSearch(_))) {
        say(
            "error: the runs of an `adaptive_search` are chosen while it runs; `phasor explain` tells its bounds",
        );
        return exit::FAILED;
    }
    let full = arguments.full || arguments.index.is_some();
    let mut runs = runs(&loaded, full);
    let count = runs.len();
    if let Some(index) = arguments.index {
        let Some(run) = runs.get(index).cloned() else {
            say(&format!("error: --index {index}: the runs are numbered 0 to {}", count.saturating_sub(1)));
            return exit::FAILED;
        };
        runs = vec![run];
    }
    let kind = loaded.config.sweep.as_ref().map_or("none", |sweep| sweep.kind.name());
    show(&match arguments.format {
        Format::Json => format!("{:#}\n", json!({"sweep_type": kind, "variations": runs})),
        Format::Text => {
            let noun = if count == 1 { "variation" } else { "variations" };
            let mut text = format!("Sweep type: {kind} ({count} {noun})\n\n");
            for run in &runs {
                let word = |name: &str| run[name].as_str().unwrap_or_default().to_owned();
                // Writing to a String cannot fail.
                let _ =
                    writeln!(text, "[{}] dir={}  label={}", run["index"], word("dir_name"), word("label"));
                if full {
                    let _ = writeln!(text, "{:#}", run["benchmark"]);
                }
            }
            text
        }
    });
    0
}

/// The runs of a config; one without a sweep has one, `base`.
fn runs(loaded: &Loaded, full: bool) -> Vec<Json> {
    let run = |variation: &config::Variation| {
        let values: serde_json::Map<_, _> = variation.values.iter().cloned().collect();
        let mut run = json!({
            "index": variation.index,
            "dir_name": variation.dir_name,
            "label": variation.label,
            "values": values,
        });
        if let (true, Json::Object(run)) = (full, &mut run) {
            run.insert("benchmark".to_owned(), variation.config.input_config.clone());
        }
        run
    };
    loaded.variations.iter().map(run).collect()
}

fn init(arguments: &InitArguments) -> anyhow::Result<u8> {
    if arguments.list {
        for (name, text) in TEMPLATES {
            show(&format!("{name:18} {}\n", summary(text)));
        }
        return Ok(0);
    }
    let wanted = arguments.template.as_deref().unwrap_or_default();
    let Some((_, text)) = TEMPLATES.iter().find(|(name, _)| *name == wanted) else {
        let names: Vec<&str> = TEMPLATES.iter().map(|(name, _)| *name).collect();
        say(&format!("error: --template: there is no `{wanted}`; known are {}", names.join(", ")));
        return Ok(exit::FAILED);
    };
    let text = filled_in(text, arguments.model.as_deref(), arguments.url.as_deref());
    let Some(path) = &arguments.output else {
        show(&text);
        return Ok(0);
    };
    fs::File::create_new(path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
        .with_context(|| format!("cannot write {}; name a file that does not exist yet", path.display()))?;
    Ok(0)
}

/// The first sentence of a template's comment.
fn summary(text: &str) -> String {
    let comment: Vec<&str> = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
    let comment = comment.join(" ");
    comment.split_once(". ").map_or(comment.as_str(), |(first, _)| first).trim_end_matches('.').to_owned()
}

/// The template with model and address replaced, which every template has on a line of its own.
fn filled_in(text: &str, model: Option<&str>, url: Option<&str>) -> String {
    let mut filled = String::with_capacity(text.len());
    for line in text.lines() {
        let indented = line.len() - line.trim_start().len();
        let (margin, key) = line.split_at(indented);
        // A text in double quotes is YAML too, whatever is in it.
        match (model, url) {
            (Some(model), _) if key.starts_with("model: ") => {
                // Writing to a String cannot fail.
                let _ = write!(filled, "{margin}model: {}", Json::from(model));
            }
            (_, Some(url)) if key.starts_with("url: ") => {
                let _ = write!(filled, "{margin}url: {}", Json::from(url));
            }
            _ => filled += line,
        }
        filled.push('\n');
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_a_template_and_takes_a_model_and_an_address() {
        let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
        let yaml = fs::read_dir(examples).into_iter().flatten().flatten();
        let yaml = yaml.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "yaml"));
        assert_eq!(yaml.count(), TEMPLATES.len());
        for (name, text) in TEMPLATES {
            let filled = filled_in(text, Some("a \"model\""), Some("http://[::1]:9/x"));
            let loaded = config::parse(name, &filled).unwrap_or_else(|faults| panic!("{name}: {faults}"));
            assert_eq!(loaded.config.models.items[0].name, "a \"model\"", "{name}");
            assert_eq!(loaded.config.endpoint.urls[0].text, "http://[::1]:9/x", "{name}");
            assert!(!summary(text).is_empty(), "{name}");
        }
    }
}

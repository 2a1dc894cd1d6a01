//! A sweep into the runs that it means: one config per variation, with label, directory name and seed.
//!
//! Each variation is written into the tree as it was before templates were rendered, and read from there as
//! the file itself is, so that every variation is checked. The first bad one is reported alone.

mod path;
mod shown;

use std::path::PathBuf;

use serde_json::Value as Json;

use crate::config::diagnostic::{Diagnostic, Texts};
use crate::config::keys::{Reading, json_of};
use crate::config::meant::{Config, ScenarioRun, Sweep, SweepKind};
use crate::config::scalar::Scalar;
use crate::config::sections;
use crate::config::shape;
use crate::config::source::{Entry, Node, Value};
use crate::config::templates;

pub use path::write;
pub use shown::{python, python_float};

/// Most variations of one sweep.
pub const VARIATIONS_MAX: usize = 10_000;

/// One run of a sweep, or the only one there is.
#[derive(Clone, Debug)]
pub struct Variation {
    /// Position, from 0.
    pub index: usize,
    /// What is varied, for people: `phases.load.concurrency=4`; `base` without a sweep.
    pub label: String,
    /// Name of its directory below that of the sweep; `base` without a sweep.
    pub dir_name: String,
    /// Each path and its value.
    pub values: Vec<(String, Json)>,
    /// What is run.
    pub config: Config,
}

/// Makes variations of values that are chosen while runs go on.
#[derive(Clone, Debug)]
pub struct Expander {
    config: Config,
    raw: Node,
    texts: Texts,
    directory: PathBuf,
    sweep: Sweep,
}

impl Expander {
    /// What `config`, whose tree before rendering of templates is `raw`, is made into; `None` unless it has a sweep
    /// that chooses as it goes.
    pub(super) fn of(config: &Config, raw: &Node, texts: &Texts, reading: &Reading) -> Option<Self> {
        let sweep = config.sweep.clone().filter(|sweep| sweep.search.is_some())?;
        Some(Self {
            config: config.clone(),
            raw: raw.clone(),
            texts: texts.clone(),
            directory: reading.directory.clone(),
            sweep,
        })
    }

    /// The config that the variations are made of.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Variation `index`, from 0, with `values`: paths, values, and whether they are written as whole numbers. Its
    /// directory is named `dir_name`.
    ///
    /// # Errors
    /// The faults of the variation.
    pub fn at(
        &self,
        index: usize,
        dir_name: &str,
        values: &[(String, f64, bool)],
    ) -> Result<Variation, Vec<Diagnostic>> {
        let reading = Reading::within(self.directory.clone());
        let shared = Shared {
            config: &self.config,
            raw: &self.raw,
            texts: &self.texts,
            reading: &reading,
            sweep: &self.sweep,
        };
        let row: Row =
            values.iter().map(|(path, value, whole)| (path.clone(), number_node(*value, *whole))).collect();
        let variation = shared.parameters(std::slice::from_ref(&row))?.into_iter().next();
        let Some(variation) = variation else { return Err(Vec::new()) };
        // Every point has the same seed, so that points differ by what is searched alone.
        let mut config = variation.config;
        config.random_seed = self.config.random_seed;
        Ok(Variation { index, dir_name: dir_name.to_owned(), config, ..variation })
    }
}

/// The only run of a config without a sweep.
pub fn single(config: &Config) -> Variation {
    Variation {
        index: 0,
        label: "base".to_owned(),
        dir_name: "base".to_owned(),
        values: Vec::new(),
        config: config.clone(),
    }
}

/// The runs of `config`, whose tree before rendering of templates is `raw`.
///
/// # Errors
/// The faults of the first variation that cannot be run.
pub fn expand(
    config: &Config,
    raw: &Node,
    texts: &Texts,
    reading: &Reading,
) -> Result<Vec<Variation>, Vec<Diagnostic>> {
    let Some(sweep) = &config.sweep else { return Ok(vec![single(config)]) };
    let shared = Shared { config, raw, texts, reading, sweep };
    match &sweep.kind {
        SweepKind::Grid(parameters) => shared.parameters(&combinations(&sorted(parameters))?),
        SweepKind::Zip(parameters) => {
            let parameters = sorted(parameters);
            let length = parameters.first().map_or(0, |(_, values)| values.len());
            check_count(length)?;
            let rows: Vec<Row> = (0..length)
                .map(|at| {
                    let row = parameters.iter();
                    row.filter_map(|(path, values)| Some((path.clone(), values.get(at)?.clone()))).collect()
                })
                .collect();
            shared.parameters(&rows)
        }
        SweepKind::Scenarios(runs) => {
            check_count(runs.len())?;
            runs.iter().enumerate().map(|(index, run)| shared.scenario(index, run)).collect()
        }
        SweepKind::AdaptiveSearch(dimensions)
        | SweepKind::LatinHypercube(dimensions)
        | SweepKind::Sobol(dimensions) => {
            // Which values will be drawn is not known; that the paths can be written is.
            shared.parameters(std::slice::from_ref(dimensions))?;
            // The other ends of the ranges, where a search says them.
            let search = sweep.search.iter().flat_map(|search| &search.space);
            let ends: Row = search.map(|at| (at.path.clone(), number_node(at.high, at.whole))).collect();
            if !ends.is_empty() {
                shared.parameters(std::slice::from_ref(&ends))?;
            }
            Ok(vec![single(config)])
        }
    }
}

/// A number that no file says.
fn number_node(value: f64, whole: bool) -> Node {
    #[expect(clippy::cast_possible_truncation, reason = "float to integer casts saturate")]
    let scalar = if whole { Scalar::Integer(value as i128) } else { Scalar::Float(value) };
    Node { span: 0..0, value: Value::Scalar(scalar) }
}

/// Paths with their values in one variation.
type Row = Vec<(String, Node)>;

fn sorted(parameters: &[(String, Vec<Node>)]) -> Vec<(String, Vec<Node>)> {
    let mut parameters = parameters.to_vec();
    parameters.sort_by(|(left, _), (right, _)| left.cmp(right));
    parameters
}

/// All combinations, the last path changing fastest.
fn combinations(parameters: &[(String, Vec<Node>)]) -> Result<Vec<Row>, Vec<Diagnostic>> {
    let count = parameters.iter().fold(1_usize, |count, (_, values)| count.saturating_mul(values.len()));
    check_count(count)?;
    let mut rows: Vec<Row> = vec![Vec::new()];
    for (path, values) in parameters {
        rows = rows
            .iter()
            .flat_map(|row| {
                values.iter().map(move |value| {
                    let mut row = row.clone();
                    row.push((path.clone(), value.clone()));
                    row
                })
            })
            .collect();
    }
    Ok(rows)
}

fn check_count(count: usize) -> Result<(), Vec<Diagnostic>> {
    if count <= VARIATIONS_MAX {
        return Ok(());
    }
    Err(vec![
        Diagnostic::error(format!(
            "the sweep has {count} variations, more than the {VARIATIONS_MAX} there may be"
        ))
        .with_help("vary fewer values"),
    ])
}

/// What all variations have in common.
struct Shared<'c> {
    config: &'c Config,
    raw: &'c Node,
    texts: &'c Texts,
    reading: &'c Reading,
    sweep: &'c Sweep,
}

impl Shared<'_> {
    fn parameters(&self, rows: &[Row]) -> Result<Vec<Variation>, Vec<Diagnostic>> {
        let mut variations = Vec::with_capacity(rows.len());
        for (index, row) in rows.iter().enumerate() {
            let mut tree = self.raw.clone();
            for (path, value) in row {
                path::write(&mut tree, path, value).map_err(|fault| vec![*fault])?;
            }
            let label: Vec<String> =
                row.iter().map(|(path, value)| format!("{path}={}", shown::python(value))).collect();
            let label = label.join(", ");
            let dir_name = shown::dir_name(row, &label, index);
            variations.push(self.variation(index, label, dir_name, row, tree)?);
        }
        Ok(variations)
    }

    fn scenario(&self, index: usize, run: &ScenarioRun) -> Result<Variation, Vec<Diagnostic>> {
        let mut tree = self.raw.clone();
        if let Some(variables) = &run.variables {
            merge(member(&mut tree, "variables"), variables.clone(), "variables");
        }
        if let Some(benchmark) = &run.benchmark {
            let mut change = benchmark.clone();
            let mut dataset = None;
            if let Value::Mapping(sections) = &mut change.value {
                let at = sections.iter().position(|entry| entry.key == "dataset");
                dataset = at.map(|at| sections.remove(at).node);
            }
            let mut faults = Vec::new();
            shape::expand_sections(&mut change, &mut faults);
            if !faults.is_empty() {
                return Err(faults);
            }
            let target = member(&mut tree, "benchmark");
            merge(target, change, "benchmark");
            if let Some(mut dataset) = dataset {
                shape::expand_lengths(&mut dataset);
                if let Some(Value::Sequence(datasets)) =
                    target.entry_mut("datasets").map(|entry| &mut entry.node.value)
                    && let Some(only) = datasets.first_mut()
                {
                    merge(only, dataset, "dataset");
                }
            }
        }
        let label = run.name.clone().unwrap_or_else(|| format!("scenario_{index}"));
        let dir_name = if run.values.is_empty() {
            shown::sanitized(&label, index)
        } else {
            shown::dir_name(&run.values, &label, index)
        };
        self.variation(index, label, dir_name, &run.values, tree)
    }

    fn variation(
        &self,
        index: usize,
        label: String,
        dir_name: String,
        row: &[(String, Node)],
        mut tree: Node,
    ) -> Result<Variation, Vec<Diagnostic>> {
        let mut reading = Reading::within(self.reading.directory.clone());
        if let Value::Mapping(entries) = &mut tree.value {
            entries
                .retain(|entry| !matches!(entry.key.as_str(), "sweep" | "multiRun" | "multi_run" | "plot"));
            for entry in entries.iter_mut().filter(|entry| entry.key == "benchmark") {
                shape::expand_sections(&mut entry.node, &mut reading.faults);
            }
        }
        templates::render(&mut tree, &mut reading.faults);
        let config =
            if reading.faults.is_empty() { sections::read(&tree, self.texts, &mut reading) } else { None };
        let errors: Vec<Diagnostic> = reading
            .faults
            .into_iter()
            .filter(|fault| fault.severity == crate::config::diagnostic::Severity::Error)
            .collect();
        let (Some(mut config), true) = (config, errors.is_empty()) else {
            let named = |fault: Diagnostic| Diagnostic {
                message: format!(
                    "variation {index} ({}): {}",
                    crate::config::source::shown(&label),
                    fault.message
                ),
                ..fault
            };
            return Err(errors.into_iter().map(named).collect());
        };
        // Values of a sweep are labels, and stand in files.
        let has_user = |value: &Node| {
            let text = json_of(value).to_string();
            let mut users = config.endpoint.urls.iter().filter_map(|url| url.user_info.as_deref());
            users.any(|user| text.contains(user))
        };
        if let Some((path, value)) = row.iter().find(|(_, value)| has_user(value)) {
            let message = format!("`{path}` has a user name, and the values of a sweep are shown");
            let fault = Diagnostic::error(message).at(value.span.clone(), "would be shown");
            return Err(vec![
                fault.with_help("take the name out, or make a run of its own for each address"),
            ]);
        }
        let offset = if self.sweep.same_seed { 0 } else { index as u64 };
        config.random_seed = self.config.random_seed.map(|seed| seed.wrapping_add(offset));
        config.sweep.clone_from(&self.config.sweep);
        config.multi_run = self.config.multi_run.clone();
        let values = row.iter().map(|(path, value)| (path.clone(), json_of(value))).collect();
        Ok(Variation { index, label, dir_name, values, config })
    }
}

/// The member `key` of a mapping, made if it is not there.
fn member<'n>(node: &'n mut Node, key: &str) -> &'n mut Node {
    if node.entry(key).is_none() {
        let span = node.span.start..node.span.start;
        if !matches!(node.value, Value::Mapping(_)) {
            node.value = Value::Mapping(Vec::new());
        }
        if let Value::Mapping(entries) = &mut node.value {
            let value = Node { span: span.clone(), value: Value::Mapping(Vec::new()) };
            entries.push(Entry { key: key.to_owned(), key_span: span, node: value });
        }
    }
    let at = match &node.value {
        Value::Mapping(entries) => entries.iter().position(|entry| entry.key == key),
        Value::Scalar(_) | Value::Sequence(_) => None,
    };
    match (&mut node.value, at) {
        (Value::Mapping(entries), Some(at)) => &mut entries[at].node,
        // It was put there above.
        _ => unreachable!("the member was made"),
    }
}

/// Puts `change` over `target`: mappings key by key, lists of named mappings by name, all else instead.
fn merge(target: &mut Node, change: Node, key: &str) {
    match (&mut target.value, change.value) {
        (Value::Mapping(old), Value::Mapping(new)) if !is_other_law(key, old, &new) => {
            for entry in new {
                match old.iter_mut().find(|known| known.key == entry.key) {
                    Some(known) => merge(&mut known.node, entry.node, &entry.key),
                    None => old.push(entry),
                }
            }
        }
        (Value::Sequence(old), Value::Sequence(new))
            if !new.is_empty() && new.iter().all(|item| name_of(item).is_some()) =>
        {
            for item in new {
                match old.iter_mut().find(|known| name_of(known) == name_of(&item)) {
                    Some(known) => merge(known, item, key),
                    None => old.push(item),
                }
            }
        }
        (_, value) => *target = Node { span: change.span, value },
    }
}

fn name_of(node: &Node) -> Option<&str> {
    match node.entry("name").map(|entry| &entry.node.value) {
        Some(Value::Scalar(Scalar::Text(name))) => Some(name),
        Some(_) | None => None,
    }
}

/// Whether both are distributions, of different laws.
fn is_other_law(key: &str, old: &[Entry], new: &[Entry]) -> bool {
    const DISTRIBUTIONS: &[&str] = &["isl", "osl", "turns", "turn_delay", "turnDelay"];
    const TELLING: &[&str] = &["type", "peaks", "points", "median", "value"];
    let telling = |entries: &[Entry]| -> Vec<String> {
        let keys = entries.iter().filter(|entry| TELLING.contains(&entry.key.as_str()));
        keys.map(|entry| {
            format!("{}={}", entry.key, if entry.key == "type" { json_of(&entry.node) } else { Json::Null })
        })
        .collect()
    };
    DISTRIBUTIONS.contains(&key) && telling(old) != telling(new)
}

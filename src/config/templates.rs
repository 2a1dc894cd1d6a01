//! Templates in text values: `{{ expression }}` and `{% block %}`.
//!
//! This is the only module that knows the template engine. Undefined names are faults, one template may do a
//! bounded amount of work, and the result of a rendered text is converted as a whole environment reference
//! is. Templates see the variables, the document and the sections of `benchmark`, all as they are written.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value as Engine};

use crate::config::diagnostic::Diagnostic;
use crate::config::environment::converted;
use crate::config::keys::{join, nearest};
use crate::config::scalar::Scalar;
use crate::config::source::{Node, Value};

/// Steps that one template may take.
const STEPS_MAX: u64 = 100_000;
/// Longest text that a template may give, in bytes.
const RENDERED_BYTES_MAX: usize = 1 << 20;

/// Keys whose text is a template for later: it is part of what is sent.
const LATER: &[&str] = &["template", "body", "payload_template", "payloadTemplate"];

/// Renders all templates of the document `root`, whose variables are below `variables`.
pub fn render(root: &mut Node, faults: &mut Vec<Diagnostic>) {
    if !has_templates(root) {
        return;
    }
    let before = faults.len();
    let mut names = BTreeMap::new();
    if let Value::Mapping(entries) = &root.value {
        if let Some(Value::Mapping(sections)) = root.entry("benchmark").map(|entry| &entry.node.value) {
            names.extend(sections.iter().map(|entry| (entry.key.clone(), by_name(&entry.key, &entry.node))));
        }
        // Phases can be had by name at the top, but below `benchmark` they are a list.
        names.extend(entries.iter().map(|entry| (entry.key.clone(), engine(&entry.node))));
    }
    let engine_of = environment();
    if let Value::Mapping(entries) = &mut root.value
        && let Some(variables) = entries.iter_mut().find(|entry| entry.key == "variables")
    {
        render_variables(&engine_of, &mut variables.node, &mut names, faults);
    }
    if faults.len() > before {
        return;
    }
    let Value::Mapping(entries) = &mut root.value else { return };
    for entry in entries.iter_mut().filter(|entry| entry.key != "variables") {
        walk(&engine_of, &mut entry.node, &entry.key, &names, faults);
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_syntax(SyntaxConfig::builder().keep_trailing_newline(true).build().unwrap_or_default());
    environment.set_fuel(Some(STEPS_MAX));
    environment
}

fn has_templates(node: &Node) -> bool {
    match &node.value {
        Value::Scalar(Scalar::Text(text)) => text.contains("{{") || text.contains("{%"),
        Value::Scalar(_) => false,
        Value::Sequence(items) => items.iter().any(has_templates),
        Value::Mapping(entries) => entries.iter().any(|entry| has_templates(&entry.node)),
    }
}

fn engine(node: &Node) -> Engine {
    match &node.value {
        Value::Scalar(Scalar::Null) => Engine::from(()),
        Value::Scalar(Scalar::Bool(value)) => Engine::from(*value),
        Value::Scalar(Scalar::Integer(value)) => match i64::try_from(*value) {
            Ok(value) => Engine::from(value),
            Err(_) => Engine::from(*value),
        },
        Value::Scalar(Scalar::Float(value)) => Engine::from(*value),
        Value::Scalar(Scalar::Date(text) | Scalar::Text(text)) => Engine::from(text.as_str()),
        Value::Sequence(items) => items.iter().map(engine).collect::<Vec<Engine>>().into(),
        Value::Mapping(entries) => {
            let members = entries.iter().map(|entry| (entry.key.clone(), engine(&entry.node)));
            members.collect::<BTreeMap<String, Engine>>().into()
        }
    }
}

/// A list of named mappings as a mapping by name too.
fn by_name(key: &str, node: &Node) -> Engine {
    let Value::Sequence(items) = &node.value else { return engine(node) };
    if key != "phases" {
        return engine(node);
    }
    let named = items.iter().filter_map(|item| match item.entry("name").map(|entry| &entry.node.value) {
        Some(Value::Scalar(Scalar::Text(name))) => Some((name.clone(), engine(item))),
        Some(_) | None => None,
    });
    named.collect::<BTreeMap<String, Engine>>().into()
}

/// Renders the variables in the order in which they need each other.
fn render_variables(
    environment: &Environment<'_>,
    variables: &mut Node,
    names: &mut BTreeMap<String, Engine>,
    faults: &mut Vec<Diagnostic>,
) {
    let Value::Mapping(entries) = &mut variables.value else { return };
    let all: BTreeSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
    let mut waiting: Vec<usize> = (0..entries.len()).collect();
    let mut done: BTreeMap<String, Engine> = BTreeMap::new();
    while !waiting.is_empty() {
        let ready = |at: &usize| {
            entries.get(*at).is_some_and(|entry| {
                needs(environment, &entry.node, &all).iter().all(|need| done.contains_key(need))
            })
        };
        let (now, later): (Vec<usize>, Vec<usize>) = waiting.iter().copied().partition(ready);
        if now.is_empty() {
            let circle: Vec<String> = later
                .iter()
                .filter_map(|at| entries.get(*at))
                .map(|entry| format!("`{}`", entry.key))
                .collect();
            let fault = Diagnostic::error(format!("the variables {} need each other", circle.join(", ")))
                .with_help("give one of them a value of its own");
            faults.push(match later.first().and_then(|at| entries.get(*at)) {
                Some(entry) => fault.at(entry.key_span.clone(), "part of a circle"),
                None => fault,
            });
            return;
        }
        for at in now {
            let Some(entry) = entries.get_mut(at) else { continue };
            names.insert("variables".to_owned(), done.clone().into());
            let path = join("variables", &entry.key);
            walk(environment, &mut entry.node, &path, names, faults);
            let value = engine(&entry.node);
            // A variable named like a section wins.
            names.insert(entry.key.clone(), value.clone());
            done.insert(entry.key.clone(), value);
        }
        waiting = later;
    }
    names.insert("variables".to_owned(), done.into());
}

/// The variables among `all` that the texts below `node` need.
fn needs(environment: &Environment<'_>, node: &Node, all: &BTreeSet<String>) -> BTreeSet<String> {
    match &node.value {
        Value::Scalar(Scalar::Text(text)) if text.contains("{{") || text.contains("{%") => {
            let Ok(template) = environment.template_from_str(text) else { return BTreeSet::new() };
            let mut needed: BTreeSet<String> =
                template.undeclared_variables(false).into_iter().filter(|name| all.contains(name)).collect();
            let nested = template.undeclared_variables(true);
            needed.extend(
                nested
                    .iter()
                    .filter_map(|name| name.strip_prefix("variables."))
                    .map(|name| name.split('.').next().unwrap_or(name).to_owned())
                    .filter(|name| all.contains(name)),
            );
            needed
        }
        Value::Scalar(_) => BTreeSet::new(),
        Value::Sequence(items) => items.iter().flat_map(|item| needs(environment, item, all)).collect(),
        Value::Mapping(entries) => {
            entries.iter().flat_map(|entry| needs(environment, &entry.node, all)).collect()
        }
    }
}

fn walk(
    environment: &Environment<'_>,
    node: &mut Node,
    path: &str,
    names: &BTreeMap<String, Engine>,
    faults: &mut Vec<Diagnostic>,
) {
    match &mut node.value {
        Value::Scalar(Scalar::Text(text)) => {
            let open = |start: &str, end: &str| {
                text.rfind(start).is_some_and(|at| !text.get(at..).unwrap_or_default().contains(end))
            };
            if open("{{", "}}") || open("{%", "%}") {
                faults.push(fault(path, "a bracket is not closed", node));
            } else if text.contains("{{") || text.contains("{%") {
                match environment.render_str(text, names) {
                    Ok(rendered) if rendered.len() <= RENDERED_BYTES_MAX => {
                        node.value = Value::Scalar(converted(&rendered));
                    }
                    Ok(_) => faults.push(fault(path, "the result is too long", node)),
                    Err(error) => {
                        let why = undefined(environment, text, names).unwrap_or_else(|| described(&error));
                        faults.push(fault(path, &why, node));
                    }
                }
            }
        }
        Value::Scalar(_) => {}
        Value::Sequence(items) => {
            for (position, item) in items.iter_mut().enumerate() {
                walk(environment, item, &format!("{path}.{position}"), names, faults);
            }
        }
        Value::Mapping(entries) => {
            for entry in entries {
                let later = LATER.contains(&entry.key.as_str());
                let of_user = matches!(entry.key.as_str(), "user_files" | "userFiles");
                if !(later || of_user) {
                    walk(environment, &mut entry.node, &join(path, &entry.key), names, faults);
                }
            }
        }
    }
}

/// The first name in `text` that there is not, with the one that may have been meant.
fn undefined(environment: &Environment<'_>, text: &str, names: &BTreeMap<String, Engine>) -> Option<String> {
    let used = environment.template_from_str(text).ok()?.undeclared_variables(false);
    let globals: BTreeSet<&str> = environment.globals().map(|(name, _)| name).collect();
    let mut unknown: Vec<&String> =
        used.iter().filter(|name| !names.contains_key(*name) && !globals.contains(name.as_str())).collect();
    unknown.sort();
    let name = unknown.first()?;
    Some(match nearest(name, names.keys().map(String::as_str)) {
        Some(meant) => format!("`{name}` is not defined, did you mean `{meant}`?"),
        None => format!("`{name}` is not defined"),
    })
}

fn described(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

fn fault(path: &str, why: &str, node: &Node) -> Diagnostic {
    Diagnostic::error(format!("the template of `{path}` cannot be rendered: {why}"))
        .at(node.span.clone(), "template")
        .with_help("names in templates are the keys of `variables:` and of this file")
}

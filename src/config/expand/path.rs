//! Sweep paths: which place of the tree a dotted path means.

use crate::config::diagnostic::Diagnostic;
use crate::config::scalar::Scalar;
use crate::config::source::{Entry, Node, Value, shown};

/// Writes `value` at `path` in the document `root`: below `variables` for `variables.x`, else below
/// `benchmark`. Missing mappings on the way are made.
///
/// # Errors
/// Why the path means no place.
pub fn write(root: &mut Node, path: &str, value: &Node) -> Result<(), Box<Diagnostic>> {
    let (top, rest) = match path.strip_prefix("variables.") {
        Some(rest) => ("variables", rest),
        None => ("benchmark", path),
    };
    let place = value.span.clone();
    let refuse = |why: String, help: String| {
        Diagnostic::error(format!("the path `{}` cannot be written: {why}", shown(path)))
            .at(place.clone(), format!("value for `{}`", shown(path)))
            .with_help(help)
            .into()
    };
    let mut node =
        child(root, top, value).ok_or_else(|| refuse(format!("`{top}` is no mapping"), String::new()))?;
    let parts: Vec<&str> = rest.split('.').collect();
    for (depth, part) in parts.iter().enumerate() {
        let above = parts.get(..depth).unwrap_or_default().join(".");
        if node.is_null() {
            node.value = Value::Mapping(Vec::new());
        }
        if let Value::Scalar(_) = node.value {
            let why =
                format!("`{above}` holds {}, in which there is nothing to descend to", node.described());
            return Err(refuse(why, "shorten the path".to_owned()));
        }
        if matches!(node.value, Value::Sequence(_)) {
            node =
                item(node, part, &above).map_err(|why| refuse(why, "name one of the entries".to_owned()))?;
            continue;
        }
        node = child(node, part, value)
            .ok_or_else(|| refuse(format!("`{above}` is no mapping"), String::new()))?;
    }
    // A path that ends at an entry of a list writes a key of that name into it, as AIPerf does.
    let ends_at_item = matches!(node.value, Value::Mapping(_))
        && node.entry("name").is_some_and(|entry| {
            matches!(&entry.node.value, Value::Scalar(Scalar::Text(name)) if parts.last() == Some(&name.as_str()))
        });
    if ends_at_item && let Some(last) = parts.last() {
        if let Some(member) = child(node, last, value) {
            *member = value.clone();
        }
        return Ok(());
    }
    *node = value.clone();
    Ok(())
}

/// The member `key`, in the spelling the tree has; made if it is not there.
fn child<'n>(node: &'n mut Node, key: &str, value: &Node) -> Option<&'n mut Node> {
    let Value::Mapping(entries) = &mut node.value else { return None };
    let at = entries.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
        entries.push(Entry {
            key: key.to_owned(),
            key_span: value.span.clone(),
            node: Node { span: value.span.clone(), value: Value::Mapping(Vec::new()) },
        });
        entries.len() - 1
    });
    entries.get_mut(at).map(|entry| &mut entry.node)
}

/// The entry of the list `node` that `part` means.
fn item<'n>(node: &'n mut Node, part: &str, above: &str) -> Result<&'n mut Node, String> {
    let Value::Sequence(items) = &mut node.value else { return Err(format!("`{above}` is no list")) };
    let at = position(items, part, above == "phases")?;
    let count = items.len();
    items.get_mut(at).ok_or_else(|| format!("`{above}` has {count} entries, counted from 0"))
}

/// The position in a list that `part` means: a position, a name, or the one profiling phase.
fn position(items: &[Node], part: &str, phases: bool) -> Result<usize, String> {
    if part.bytes().all(|byte| byte.is_ascii_digit()) {
        return part.parse().map_err(|_| format!("`{part}` is no position"));
    }
    let text = |item: &Node, key: &str| match item.entry(key).map(|entry| &entry.node.value) {
        Some(Value::Scalar(Scalar::Text(text))) => Some(text.clone()),
        Some(_) | None => None,
    };
    if let Some(at) = items.iter().position(|item| text(item, "name").as_deref() == Some(part)) {
        return Ok(at);
    }
    let names = |items: &[&Node]| -> String {
        let names = items.iter().filter_map(|item| text(item, "name"));
        names.map(|name| format!("`{}`", shown(&name))).collect::<Vec<_>>().join(", ")
    };
    if phases && part == "profiling" {
        let profiling: Vec<usize> = (0..items.len())
            .filter(|at| items.get(*at).and_then(|item| text(item, "kind")).as_deref() == Some("profiling"))
            .collect();
        match profiling.as_slice() {
            [only] => return Ok(*only),
            [] => {}
            several => {
                let all: Vec<&Node> = several.iter().filter_map(|at| items.get(*at)).collect();
                return Err(format!("there are {} profiling phases: {}", several.len(), names(&all)));
            }
        }
    }
    Err(format!("nothing is named `{}` there, but {}", shown(part), names(&items.iter().collect::<Vec<_>>())))
}

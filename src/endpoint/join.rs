//! The address of an endpoint: the server's address and the path of the endpoint type, not doubled.

use crate::endpoint::Dialect;

/// Joins `base` and the path: the one given (empty: none), else the type's.
///
/// The answer keeps the query and fragment of `base` and has a scheme.
pub fn join(base: &str, path: Option<&str>, dialect: &Dialect, streaming: bool) -> String {
    let base = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
    let end = base.find(['?', '#']).unwrap_or(base.len());
    let (address, tail) = base.split_at_checked(end).unwrap_or((&base, ""));
    let address = address.trim_end_matches('/');
    let path = path.unwrap_or_else(|| dialect.path(streaming)).trim_start_matches('/');
    let joined = if path.is_empty() || ends_with_path(address, path) {
        address.to_owned()
    } else {
        match path.strip_prefix("v1/") {
            Some(rest) if address.ends_with("/v1") => format!("{address}/{rest}"),
            Some(_) | None => format!("{address}/{path}"),
        }
    };
    joined + tail
}

/// Whether the path of `address` is `path` or ends with it.
fn ends_with_path(address: &str, path: &str) -> bool {
    let own = address.split_once("://").map_or(address, |(_, rest)| rest);
    own.split_once('/').is_some_and(|(_, own)| own == path || own.ends_with(&format!("/{path}")))
}

//! Where metrics are: addresses made of what the user wrote.

/// The address of a page of metrics: `http://` in front where there is no scheme, no `/` at the end, then
/// `/metrics` unless it is there. Absent when nothing is written.
pub fn metrics_url(written: &str) -> Option<String> {
    let written = written.trim();
    if written.is_empty() {
        return None;
    }
    let with_scheme =
        if scheme_end(written).is_some() { written.to_owned() } else { format!("http://{written}") };
    let trimmed = with_scheme.trim_end_matches('/');
    Some(if trimmed.ends_with("/metrics") { trimmed.to_owned() } else { format!("{trimmed}/metrics") })
}

/// Where the metrics of an inference server may be, the likeliest place first: at the server's origin, then
/// below the path of the endpoint, where AIPerf looks.
pub fn candidates(origin: &str, written: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for address in [metrics_url(origin), metrics_url(written)].into_iter().flatten() {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

/// Scheme and authority of an address, without its path.
pub fn origin(written: &str) -> &str {
    let start = scheme_end(written).unwrap_or(0);
    let rest = written.get(start..).unwrap_or_default();
    let end = rest.find(['/', '?', '#']).map_or(written.len(), |end| start + end);
    written.get(..end).unwrap_or(written)
}

/// The other place where some servers have their metrics: `<base>/prometheus/metrics`.
pub fn fallback(metrics_url: &str) -> Option<String> {
    let base = metrics_url.strip_suffix("/metrics")?;
    (!base.ends_with("/prometheus")).then(|| format!("{base}/prometheus/metrics"))
}

/// The address for people: no scheme, no query, no `/metrics`.
pub fn display(metrics_url: &str) -> String {
    let rest = scheme_end(metrics_url).and_then(|end| metrics_url.get(end..)).unwrap_or(metrics_url);
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, behind)| behind);
    rest.strip_suffix("/metrics").unwrap_or(rest).trim_end_matches('/').to_owned()
}

/// The address without a password or name in it.
pub fn redacted(metrics_url: &str) -> String {
    let Some(end) = scheme_end(metrics_url) else { return metrics_url.to_owned() };
    let (scheme, rest) = metrics_url.split_at(end);
    let authority = rest.find('/').unwrap_or(rest.len());
    match rest.get(..authority).and_then(|authority| authority.rfind('@')) {
        Some(at) => format!("{scheme}<redacted>{}", rest.get(at..).unwrap_or_default()),
        None => metrics_url.to_owned(),
    }
}

/// Where the host begins, behind `http://` or `https://` in any case.
fn scheme_end(address: &str) -> Option<usize> {
    ["http://", "https://"].iter().find_map(|scheme| {
        let start = address.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(scheme.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_comes_before_the_path_of_the_endpoint() {
        let found = candidates("http://h:8000", "http://h:8000/v1/chat/completions");
        assert_eq!(found, ["http://h:8000/metrics", "http://h:8000/v1/chat/completions/metrics"]);
        assert_eq!(candidates("http://h:8000", "http://h:8000"), ["http://h:8000/metrics"]);
        assert_eq!(origin("http://h:8000/v1?x=/"), "http://h:8000");
        assert_eq!(origin("h:8000/v1"), "h:8000");
    }

    #[test]
    fn the_other_place_is_tried_once() {
        assert_eq!(fallback("http://h/metrics").as_deref(), Some("http://h/prometheus/metrics"));
        assert_eq!(fallback("http://h/prometheus/metrics"), None);
    }

    #[test]
    fn no_password_is_shown() {
        assert_eq!(redacted("http://me:secret@h:1/metrics"), "http://<redacted>@h:1/metrics");
        assert_eq!(display("http://me:secret@h:1/metrics"), "h:1");
        assert_eq!(redacted("http://h:1/a@b/metrics"), "http://h:1/a@b/metrics");
    }
}

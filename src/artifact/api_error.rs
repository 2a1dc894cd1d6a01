//! What a server's refusal means and what to write instead (spec/artifacts 15): a panel for the errors that a
//! change of the config cures. Every other error stands in the table of errors alone.

use crate::artifact::panel::panel;
use crate::config::{Config, Endpoint, Models};
use crate::measure::Failure;
use crate::measure::tally::ErrorGroup;

/// How servers say that they do not take a parameter; compared in lower case.
const REFUSALS: [&str; 9] = [
    "unsupported",
    "not supported",
    "does not support",
    "unrecognized",
    "unknown",
    "unexpected",
    "extra_forbidden",
    "not permitted",
    "not allowed",
];

/// How servers say that they do not have a model; compared in lower case.
const NO_MODEL: [&str; 4] = ["does not exist", "not found", "model_not_found", "not exist"];

/// Statuses with which a request is refused for what it says.
const REFUSING: [u16; 3] = [400, 404, 422];

/// The longest part of a server's answer that is shown, in characters.
const ANSWER_CHARS_MAX: usize = 400;

/// The panel of the first error whose cure is known; absent when there is none.
pub(super) fn panel_of(errors: &[ErrorGroup], config: &Config, width: usize) -> Option<String> {
    let (group, [why, cure]) = errors.iter().find_map(|group| {
        insight(&group.failure, &config.endpoint, &config.models).map(|insight| (group, insight))
    })?;
    let answer: String = group.failure.message.chars().take(ANSWER_CHARS_MAX).collect();
    let code = group.failure.code.map_or_else(String::new, |code| format!("{code} "));
    let lines = [
        format!("{} requests were refused: {code}{}", group.count, group.failure.kind),
        answer.split_whitespace().collect::<Vec<_>>().join(" "),
        String::new(),
        format!("Why: {why}"),
        format!("What helps: {cure}"),
    ];
    Some(panel("API Error", &lines, width))
}

/// Why the server refused, and what helps.
fn insight(failure: &Failure, endpoint: &Endpoint, models: &Models) -> Option<[String; 2]> {
    if !failure.code.is_some_and(|code| REFUSING.contains(&code)) {
        return None;
    }
    let text = failure.message.to_lowercase();
    let refused = REFUSALS.iter().any(|words| text.contains(words));
    // A server that wants the one names the other, too: the parameter that was sent is the one it refuses.
    let sent = if endpoint.use_legacy_max_tokens { "max_tokens" } else { "max_completion_tokens" };
    if refused && text.contains(sent) {
        let cure = if endpoint.use_legacy_max_tokens {
            "take `use_legacy_max_tokens` out of `endpoint` (or `--use-legacy-max-tokens` off the command line)."
        } else {
            "set `endpoint.use_legacy_max_tokens: true` (`--use-legacy-max-tokens`): `max_tokens` is sent then."
        };
        return Some([format!("the server does not know `{sent}`."), cure.to_owned()]);
    }
    let extra = endpoint.extra.iter().map(|(name, _)| name.as_str());
    if let Some(name) = extra.filter(|_| refused).find(|name| text.contains(&name.to_lowercase())) {
        return Some([
            format!("the server does not take `{name}`, which is added to every request."),
            format!("take `{name}` out of `endpoint.extra` (`--extra-inputs`)."),
        ]);
    }
    let named =
        models.items.iter().map(|model| model.name.as_str()).find(|name| failure.message.contains(*name));
    if let Some(name) = named.filter(|_| NO_MODEL.iter().any(|words| text.contains(words))) {
        return Some([
            format!("the server has no model `{name}`."),
            "write the name under which the server serves it in `model` (`/v1/models` of the server lists them)."
                .to_owned(),
        ]);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refusal(code: u16, message: &str) -> Failure {
        Failure {
            code: Some(code),
            kind: "Bad Request".to_owned(),
            message: message.to_owned(),
            cause: None,
            cause_chain: Vec::new(),
        }
    }

    fn cure(failure: &Failure, endpoint: &Endpoint) -> Option<String> {
        insight(failure, endpoint, &Models::of("served")).map(|[_, cure]| cure)
    }

    #[test]
    fn a_parameter_that_a_server_refuses_has_its_cure() {
        let mut endpoint = Endpoint::new(Vec::new());
        for message in [
            r#"{"error":{"message":"Unsupported parameter: 'max_completion_tokens'","param":"max_completion_tokens"}}"#,
            r#"{"detail":[{"type":"extra_forbidden","loc":["body","max_completion_tokens"]}]}"#,
        ] {
            let found = cure(&refusal(400, message), &endpoint);
            assert!(found.is_some_and(|cure| cure.contains("use_legacy_max_tokens: true")), "{message}");
        }
        let other = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.";
        endpoint.use_legacy_max_tokens = true;
        let found = cure(&refusal(400, other), &endpoint);
        assert!(found.is_some_and(|cure| cure.starts_with("take `use_legacy_max_tokens` out")));
        if let Some(extra) = json!({"min_tokens": 4}).as_object() {
            endpoint.extra.clone_from(extra);
        }
        let found = cure(&refusal(422, "Unrecognized request argument: min_tokens"), &endpoint);
        assert!(found.is_some_and(|cure| cure.contains("`min_tokens` out of `endpoint.extra`")));
    }

    #[test]
    fn a_model_that_is_not_served_is_named() {
        let endpoint = Endpoint::new(Vec::new());
        let found = cure(&refusal(404, "The model `served` does not exist."), &endpoint);
        assert!(found.is_some_and(|cure| cure.contains("/v1/models")));
    }

    #[test]
    fn errors_that_no_config_cures_have_no_panel() {
        let endpoint = Endpoint::new(Vec::new());
        for failure in [
            refusal(429, "unsupported max_completion_tokens"),
            refusal(500, "plain internal error"),
            refusal(400, "the prompt is too long"),
            refusal(404, "Not Found"),
            Failure { code: None, ..refusal(400, "unsupported max_completion_tokens") },
        ] {
            assert_eq!(cure(&failure, &endpoint), None, "{}", failure.message);
        }
    }
}

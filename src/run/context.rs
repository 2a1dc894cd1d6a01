//! Whether the prompts fit into the context that the server says its models have.
//!
//! The server is asked once before the first run that needs it, `GET /v1/models` at its origin, and only when
//! some prompt is so long that it might not fit. What it does not tell is not known, and the requests will show it. Histories are not
//! looked at: how long the replies in them get nobody knows. It asks over plain HTTP alone.

use crate::config::Config;
use crate::dataset::Row;
use crate::run::telemetry::http::Client;
use crate::run::traffic::Traffic;
use crate::telemetry::address;
use crate::time::{Clock, Nanos};
use crate::tokenizer::Tokenizer;
use serde_json::Value;

/// Prompt and reply of so many tokens fit into any model.
const FITS_ALWAYS: u64 = 2_048;

/// Longest wait for the list of models.
const PATIENCE: Nanos = Nanos::from_millis(1_000);

/// Where servers tell how long a context is, in tokens: `vLLM` and `SGLang`, `llama.cpp` and gateways.
const LENGTHS: [&str; 4] = ["/max_model_len", "/context_length", "/context_window", "/meta/n_ctx_train"];

/// No prompt fits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the context of `{model}` has {context} tokens, as {url} says, and no prompt of the dataset fits into it with \
     its reply: the shortest needs {shortest}. Lower `dataset.prompts.isl` or `osl`, or give the server a longer \
     context"
)]
pub struct ContextError {
    /// The model.
    pub model: String,
    /// Where the list of models is.
    pub url: String,
    /// What the model takes.
    pub context: u64,
    /// What the shortest prompt and its reply need.
    pub shortest: u64,
}

/// What servers answered, so that each run of a sweep does not ask them anew.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Where the list of models is, and what came; absent when nothing did.
    pages: Vec<(String, Option<Vec<u8>>)>,
}

impl Asked {
    /// What stands at `url`.
    fn page(&mut self, url: &str, clock: Clock) -> Option<&[u8]> {
        let known = self.pages.iter().position(|(asked, _)| asked == url);
        let at = known.unwrap_or_else(|| {
            let page = Client::new(url, clock).and_then(|mut client| client.fetch(PATIENCE));
            self.pages.push((url.to_owned(), page.ok().map(|page| page.body)));
            self.pages.len() - 1
        });
        self.pages.get(at).and_then(|(_, page)| page.as_deref())
    }
}

/// Asks the first server of `config` and holds the prompts against what it says. The sentence tells of prompts that
/// do not fit while others do.
///
/// # Errors
/// None fits.
pub(super) fn check(
    config: &Config,
    traffic: &Traffic,
    clock: Clock,
    asked: &mut Asked,
) -> Result<Option<String>, ContextError> {
    let needs = needs(traffic);
    let (Some(shortest), Some(longest)) = (needs.iter().min().copied(), needs.iter().max().copied()) else {
        return Ok(None);
    };
    let server = config.endpoint.urls.first().filter(|url| url.socket.is_none() && !url.tls);
    let Some(server) = server.filter(|_| longest > FITS_ALWAYS) else { return Ok(None) };
    let url = format!("{}/v1/models", address::origin(&server.text));
    let context = asked.page(&url, clock).and_then(|page| told(page, &config.model));
    let Some(context) = context.filter(|context| longest > *context) else { return Ok(None) };
    let model = config.model.clone();
    if shortest > context {
        return Err(ContextError { model, url, context, shortest });
    }
    let beyond = needs.iter().filter(|need| **need > context).count();
    Ok(Some(format!(
        "the context of `{model}` has {context} tokens, as {url} says, and {beyond} of {} prompts do not fit into it \
         with their replies (the longest needs {longest}): requests with them will fail",
        needs.len()
    )))
}

/// Tokens of each prompt and its reply, where they are known by a tokenizer.
fn needs(traffic: &Traffic) -> Vec<u64> {
    if matches!(traffic.tokenizers.first(), Tokenizer::Words) {
        return Vec::new();
    }
    let need = |row: &Row| Some(u64::from(row.isl_tokens?) + u64::from(row.osl_tokens.unwrap_or(0)));
    traffic.dataset.rows().iter().filter_map(need).collect()
}

/// The context of `model` by a list of models.
fn told(list: &[u8], model: &str) -> Option<u64> {
    let list: Value = serde_json::from_slice(list).ok()?;
    let models = list.get("data")?.as_array()?;
    let named = models.iter().find(|known| known.get("id").and_then(Value::as_str) == Some(model))?;
    LENGTHS.iter().find_map(|length| named.pointer(length)?.as_u64()).filter(|context| *context > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_models_tells_the_context_of_the_one_that_is_asked_for() {
        let list =
            br#"{"object":"list","data":[{"id":"a","max_model_len":4096},{"id":"b","context_length":8192},
            {"id":"c"},{"id":"d","meta":{"n_ctx_train":2048}},{"id":"e","max_model_len":0}]}"#;
        let contexts = ["a", "b", "c", "d", "e", "f"].map(|model| told(list, model));
        assert_eq!(contexts, [Some(4_096), Some(8_192), None, Some(2_048), None, None]);
        assert_eq!(told(b"<html>", "a"), None);
    }
}

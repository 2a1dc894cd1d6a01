//! `endpoint`: where the load goes and in which dialect.

use serde_json::json;

use crate::config::diagnostic::Diagnostic;
use crate::config::keys::{Bound, Key, Keys, Spanned, Spelling, Words, Written, json_of};
use crate::config::lax;
use crate::config::meant::{
    ContentType, Endpoint, EndpointKind, Probe, ProbeMode, ReplyTemplate, ResetCache, Reuse, ServerProfiler,
    Url,
};
use crate::config::scalar::Scalar;
use crate::config::sections::{NOT_NEGATIVE, require};
use crate::config::source::{Value, shown};
use crate::config::url;
use crate::time::Nanos;

/// Seconds between two looks at a server that is not ready unless written.
const PROBE_INTERVAL_S: f64 = 5.0;

const KINDS: Words<EndpointKind> = Words { known: EndpointKind::NAMES, spelling: Spelling::Lenient };
const REUSES: Words<Reuse> = Words {
    known: &[("pooled", Reuse::Pooled), ("never", Reuse::Never), ("sticky-user-sessions", Reuse::Sticky)],
    spelling: Spelling::Lenient,
};
const ROUND_ROBIN: Words<()> = Words { known: &[("round_robin", ())], spelling: Spelling::Lenient };
const TRANSPORTS: Words<()> = Words { known: &[("http", ())], spelling: Spelling::Lenient };
const CONTENT_TYPES: Words<ContentType> = Words {
    known: &[("application/json", ContentType::Json), ("multipart/form-data", ContentType::Form)],
    spelling: Spelling::Lenient,
};
const PROBE_MODES: Words<ProbeMode> = Words {
    known: &[("models", ProbeMode::Models), ("inference", ProbeMode::Inference), ("both", ProbeMode::Both)],
    spelling: Spelling::Exact,
};

pub(super) fn endpoint(mut keys: Keys<'_>) -> Endpoint {
    let urls = keys.texts("urls");
    require(&mut keys, &urls, "url");
    keys.key("url_strategy").word(ROUND_ROBIN);
    let kind = keys.key("type").word(KINDS);
    let path = keys.key("path").or_null().text_or_empty();
    let api_key = keys.key("api_key").or_null().text_or_empty().optional();
    let timeout_s = keys.key("timeout").seconds(NOT_NEGATIVE).or(Endpoint::TIMEOUT_S);
    let streaming = keys.key("streaming").switch();
    keys.key("transport").or_null().word(TRANSPORTS);
    let reuse = keys.key("connection_reuse").word(REUSES).or(Reuse::Pooled);
    let use_legacy_max_tokens = keys.key("use_legacy_max_tokens").switch().or(false);
    let use_server_token_count = keys.key("use_server_token_count").switch().or(false);
    let per_chunk_usage = keys.key("per_chunk_usage").switch();
    let download_video_content = keys.key("download_video_content").switch().or(false);
    let uuid_and_strip = keys.key("uuid_and_strip").switch();
    let template = keys.key("template").or_null().section(template).optional();
    let headers = keys.key("headers").free("text", |node| match &node.value {
        Value::Scalar(Scalar::Text(text)) => Some((text.clone(), json!(text))),
        Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => None,
    });
    let extra = keys.key("extra").free("any value", |node| Some((json_of(node), json_of(node))));
    let content_type = keys.key("request_content_type").or_null().word(CONTENT_TYPES);
    let session_header = keys.key("session_header").or_null().text_or_empty().optional();
    let wait = probe(&mut keys);
    let reset_kv_cache = hook(keys.key("reset_kv_cache"), reset_cache);
    let server_profiler = hook(keys.key("server_profiler"), profiler);

    let implied =
        if template.is_some() && kind.is_absent() { EndpointKind::Template } else { EndpointKind::Chat };
    let mut meant = Endpoint {
        kind: kind.clone().or(implied),
        path: path.value().cloned(),
        api_key,
        timeout: (timeout_s > 0.0 && timeout_s.is_finite()).then(|| Nanos::from_secs_f64(timeout_s)),
        streaming: streaming.value().copied().unwrap_or(false),
        headers: headers.or(Vec::new()),
        extra: extra.or(Vec::new()).into_iter().collect(),
        reuse,
        use_legacy_max_tokens,
        use_server_token_count,
        per_chunk_usage: per_chunk_usage.value().copied().unwrap_or(false),
        download_video_content,
        uuid_and_strip: uuid_and_strip.value().copied().unwrap_or(false),
        content_type: content_type.value().copied(),
        session_header,
        template,
        wait_for_model: wait,
        reset_kv_cache,
        server_profiler,
        ..Endpoint::new(Vec::new())
    };
    if kind.is_absent() && meant.kind == EndpointKind::Template {
        keys.set_form("type", json!("template"));
    }
    rules(&mut keys, &mut meant, &Given { path, streaming, per_chunk_usage, uuid_and_strip, content_type });
    if let Some(texts) = urls.value() {
        meant.urls = addresses(texts, &meant, &mut keys);
    }
    keys.finish();
    meant
}

/// What the rules between fields point at.
struct Given {
    path: Written<String>,
    streaming: Written<bool>,
    per_chunk_usage: Written<bool>,
    uuid_and_strip: Written<bool>,
    content_type: Written<ContentType>,
}

fn rules(keys: &mut Keys<'_>, meant: &mut Endpoint, given: &Given) {
    let at = keys.path().to_owned();
    if let Some(path) = given.path.value().filter(|path| !path.starts_with('/')) {
        let message = format!("`{at}.path` must start with `/`, found `{}`", shown(path));
        keys.fault_at(&given.path, message, "no `/` in front", "write for example `/v1/custom`");
    }
    if meant.kind == EndpointKind::Template && meant.template.is_none() {
        let message = format!("`{at}.template` is missing: an endpoint of type `template` needs it");
        keys.fault_at(&Written::<()>::Absent, message, "no `template` here", "add `template: {body: ...}`");
    }
    if meant.streaming && !meant.kind.can_stream() {
        meant.streaming = false;
        let place = given.streaming.present().map_or_else(|| keys.place(), |present| present.span.clone());
        keys.fault(
            Diagnostic::warning(format!(
                "`{at}.streaming` is taken as false: an endpoint of type `{}` has no streams",
                meant.kind.name()
            ))
            .at(place, "switched off"),
        );
    }
    if meant.per_chunk_usage {
        let missing = if !meant.use_server_token_count {
            Some("`use_server_token_count: true`")
        } else if meant.kind != EndpointKind::Chat {
            Some("`type: chat`")
        } else if meant.streaming {
            None
        } else {
            Some("`streaming: true`")
        };
        if let Some(missing) = missing {
            let message = format!("`{at}.per_chunk_usage` needs {missing}");
            keys.fault_at(&given.per_chunk_usage, message, "not alone", &format!("add {missing}"));
        }
    }
    if meant.uuid_and_strip && meant.kind != EndpointKind::Chat {
        let message = format!("`{at}.uuid_and_strip` needs `type: chat`");
        keys.fault_at(&given.uuid_and_strip, message, "not with this type", "take it out");
    }
    let stores = match meant.extra.get("store") {
        Some(serde_json::Value::Bool(store)) => *store,
        Some(serde_json::Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(serde_json::Value::String(text)) => !text.is_empty(),
        Some(serde_json::Value::Array(_) | serde_json::Value::Object(_)) => true,
        Some(serde_json::Value::Null) | None => false,
    };
    if meant.kind == EndpointKind::Responses && stores && !meant.use_server_token_count {
        let message = format!("`{at}.extra.store` of type `responses` needs `use_server_token_count: true`");
        keys.fault_at(&Written::<()>::Absent, message, "not alone", "add it, or take `store` out");
    }
    match (meant.content_type, meant.kind.is_form()) {
        (Some(ContentType::Json), true) => {
            let message =
                format!("`{at}.request_content_type`: type `{}` sends forms, not JSON", meant.kind.name());
            keys.fault_at(&given.content_type, message, "not with this type", "take it out");
        }
        (Some(ContentType::Form), false) => {
            let message =
                format!("`{at}.request_content_type`: type `{}` sends JSON, not forms", meant.kind.name());
            keys.fault_at(&given.content_type, message, "not with this type", "take it out");
        }
        (None, true) => meant.content_type = Some(ContentType::Form),
        (Some(ContentType::Json) | None, false) | (Some(ContentType::Form), true) => {}
    }
}

fn addresses(texts: &[Spanned<String>], meant: &Endpoint, keys: &mut Keys<'_>) -> Vec<Url> {
    let own = meant.path.as_deref().unwrap_or_else(|| url::path_of(meant.kind, meant.streaming));
    let mut urls = Vec::with_capacity(texts.len());
    for text in texts {
        match url::parse(&text.value, own) {
            Ok(url) if url.user_info.is_some() && authorizes(meant) => keys.fault(
                Diagnostic::error(format!(
                    "the address `{}` has a user name, and the `Authorization` header is set elsewhere, too",
                    shown(&url.text)
                ))
                .at(text.span.clone(), "which one shall be sent?")
                .with_help("take the name out, or `api_key` or the header"),
            ),
            Ok(url) => urls.push(url),
            Err(error) => keys.fault(
                Diagnostic::error(format!(
                    "the address `{}` cannot be used: {error}",
                    shown(&url::without_user_info(&text.value))
                ))
                .at(text.span.clone(), "not an address phasor can use")
                .with_help("for example `http://127.0.0.1:8000`"),
            ),
        }
    }
    urls
}

/// Whether the config itself says what the `Authorization` header is.
fn authorizes(meant: &Endpoint) -> bool {
    // Its key goes into a header of its own there.
    let by_key = meant.api_key.is_some() && meant.kind != EndpointKind::Messages;
    by_key || meant.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
}

fn template(mut keys: Keys<'_>) -> ReplyTemplate {
    let body = keys.key("body").or_null().text_or_empty().optional();
    let response_field = keys.key("response_field").or_null().text_or_empty().optional();
    keys.finish();
    ReplyTemplate { body, response_field }
}

fn probe(keys: &mut Keys<'_>) -> Option<Probe> {
    let timeout_s = keys.key("wait_for_model_timeout").seconds(NOT_NEGATIVE).or(0.0);
    let interval_s = keys.key("wait_for_model_interval").seconds(Bound::Above(0.0));
    let mode = keys.key("wait_for_model_mode").word(PROBE_MODES);
    if timeout_s > 0.0 {
        return Some(Probe {
            timeout: Nanos::from_secs_f64(timeout_s),
            interval: Nanos::from_secs_f64(interval_s.or(PROBE_INTERVAL_S)),
            mode: mode.or(ProbeMode::Inference),
        });
    }
    let at = keys.path().to_owned();
    let help = "add `wait_for_model_timeout`, or take it out";
    if interval_s.value().is_some_and(|interval| *interval != PROBE_INTERVAL_S) {
        let message = format!("`{at}.wait_for_model_interval` needs `wait_for_model_timeout`");
        keys.fault_at(&interval_s, message, "nothing is awaited", help);
    } else if mode.value().is_some_and(|mode| *mode != ProbeMode::Inference) {
        let message = format!("`{at}.wait_for_model_mode` needs `wait_for_model_timeout`");
        keys.fault_at(&mode, message, "nothing is awaited", help);
    }
    None
}

/// False or null for none, true for the defaults, or a mapping.
fn hook<T: Default>(key: Key<'_, '_>, section: impl FnOnce(Keys<'_>) -> T) -> Option<T> {
    let key = key.or_null();
    let entry = key.entry()?;
    match &entry.node.value {
        Value::Mapping(_) => key.section(section).optional(),
        Value::Scalar(scalar) if lax::switch(scalar).is_some() => key.switch().or(false).then(T::default),
        Value::Scalar(_) | Value::Sequence(_) => {
            key.refuse("true, false or a mapping");
            None
        }
    }
}

fn reset_cache(mut keys: Keys<'_>) -> ResetCache {
    let timeout_s = keys.key("timeout_seconds").or_null().seconds(Bound::Above(0.0)).optional();
    let max_retry_s = keys.key("max_retry_seconds").or_null().seconds(NOT_NEGATIVE).optional();
    let path = hook_path(&mut keys, "path");
    keys.finish();
    ResetCache { timeout_s, max_retry_s, path }
}

fn profiler(mut keys: Keys<'_>) -> ServerProfiler {
    let timeout_s = keys.key("timeout_seconds").or_null().seconds(Bound::Above(0.0)).optional();
    let start_path = hook_path(&mut keys, "start_path");
    let stop_path = hook_path(&mut keys, "stop_path");
    keys.finish();
    ServerProfiler { timeout_s, start_path, stop_path }
}

fn hook_path(keys: &mut Keys<'_>, name: &'static str) -> Option<String> {
    let path = keys.key(name).or_null().text_or_empty();
    let good = |path: &&String| !path.starts_with('/') || path.contains("://");
    if let Some(bad) = path.value().filter(good) {
        let message =
            format!("`{}.{name}` must be a path that starts with `/`, found `{}`", keys.path(), shown(bad));
        keys.fault_at(&path, message, "not a path of the server", "write for example `/reset`");
    }
    path.optional()
}

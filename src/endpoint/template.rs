//! `template`: payloads from a Jinja template of the user's.

use std::collections::BTreeMap;

use minijinja::{AutoEscape, Environment, Value as Jinja, context};
use serde_json::Value;

use crate::endpoint::body::put_extras;
use crate::endpoint::content::start;
use crate::endpoint::detect;
use crate::endpoint::{Can, Dialect, EndpointError, EndpointSettings, Media, Payload, Request, Turn};

/// Templates that have a name.
const NAMED: [(&str, &str); 1] = [("nv-embedqa", r#"{"text": {{ texts|tojson }}}"#)];

pub(in crate::endpoint) static TEMPLATE: Dialect = Dialect {
    name: "template",
    path: "",
    streaming_path: None,
    can: Can {
        stream: true,
        tokenize_input: true,
        produce_tokens: true,
        take_system: false,
        take_history: false,
        report_usage: false,
    },
    render,
    read: detect::read,
};

fn render(settings: &EndpointSettings, request: &Request<'_>) -> Result<Payload, EndpointError> {
    let missing = |what| EndpointError::Missing { dialect: TEMPLATE.name, what };
    let template = settings.template.as_ref().ok_or_else(|| missing("`endpoint.template.body`"))?;
    let turn = request.turns.last().ok_or_else(|| missing("a turn"))?;
    let body = NAMED.iter().find(|(name, _)| *name == template.body).map_or(&*template.body, |named| named.1);
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_formatter(|out, _, value| {
        let text = if value.is_undefined() {
            String::new()
        } else if value.is_none() {
            "None".to_owned()
        } else if let Ok(truth) = bool::try_from(value.clone())
            && value.kind() == minijinja::value::ValueKind::Bool
        {
            if truth { "True" } else { "False" }.to_owned()
        } else if value.is_safe() {
            value.to_string()
        } else {
            escaped(&value.to_string())
        };
        Ok(out.write_str(&text)?)
    });
    let text = environment
        .render_str(body, variables(settings, request, turn))
        .map_err(|error| EndpointError::Template { reason: error.to_string() })?;
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| EndpointError::TemplateNotJson { reason: error.to_string(), start: start(&text) })?;
    Ok(match value {
        Value::Object(mut members) => {
            put_extras(&mut members, settings, Some(turn));
            Payload::new(members)
        }
        value => Payload::verbatim(value),
    })
}

/// As Jinja escapes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            other => out.push(other),
        }
    }
    out
}

fn variables(settings: &EndpointSettings, request: &Request<'_>, turn: &Turn) -> Jinja {
    let all = |media: &[Media]| -> Vec<String> {
        media.iter().flat_map(|media| media.contents.iter().cloned()).collect()
    };
    let named = |name: &str| -> Vec<String> {
        let named = turn.texts.iter().filter(|text| text.name == name);
        named.flat_map(|text| text.contents.iter().cloned()).collect()
    };
    let by_name = |media: &[Media]| -> BTreeMap<String, Vec<String>> {
        let mut names = BTreeMap::<String, Vec<String>>::new();
        for media in media {
            names.entry(media.name.clone()).or_default().extend(media.contents.iter().cloned());
        }
        names
    };
    let one = |turn: &Turn| {
        context! {
            texts => all(&turn.texts), images => all(&turn.images), audios => all(&turn.audios),
            videos => all(&turn.videos), role => turn.role.as_deref(), model => turn.model.as_deref(), max_tokens => turn.max_tokens,
        }
    };
    let (texts, images) = (all(&turn.texts), all(&turn.images));
    let (audios, videos) = (all(&turn.audios), all(&turn.videos));
    let (queries, passages) = (named("query"), named("passages"));
    let turns: Vec<Jinja> = request.turns.iter().map(one).collect();
    let model = turn.model.as_deref().unwrap_or(&settings.model);
    context! {
        text => texts.first(), texts => texts, image => images.first(), images => images,
        audio => audios.first(), audios => audios, video => videos.first(), videos => videos,
        query => queries.first(), queries => queries, passage => passages.first(), passages => passages,
        texts_by_name => by_name(&turn.texts), images_by_name => by_name(&turn.images),
        audios_by_name => by_name(&turn.audios), videos_by_name => by_name(&turn.videos),
        model => model, max_tokens => turn.max_tokens, role => turn.role.as_deref(), stream => settings.streaming,
        turn => one(turn), turns => turns.clone(), request_info => context! { turns => turns, model => model },
    }
}

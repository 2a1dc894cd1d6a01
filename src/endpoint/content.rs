//! A turn as the content of a message: a text, or parts.

use serde_json::{Value, json};

use crate::endpoint::{EndpointError, EndpointSettings, Media, Turn};

/// How an endpoint type writes the parts of a message.
pub(in crate::endpoint) struct Parts {
    pub(in crate::endpoint) text: fn(&str) -> Value,
    pub(in crate::endpoint) image: fn(&str) -> Value,
    pub(in crate::endpoint) audio: fn(&str) -> Result<Value, EndpointError>,
    pub(in crate::endpoint) video: fn(&str) -> Result<Value, EndpointError>,
}

/// The content of a turn: one text alone is a text, everything else a list of parts without the empty ones,
/// and nothing at all is the empty text.
pub(in crate::endpoint) fn content(
    settings: &EndpointSettings,
    turn: &Turn,
    parts: &Parts,
) -> Result<Value, EndpointError> {
    let media = [&turn.images, &turn.audios, &turn.videos];
    if let [Media { contents, .. }] = turn.texts.as_slice()
        && let [text] = contents.as_slice()
        && media.iter().all(|media| media.is_empty())
        && !settings.force_content_parts
    {
        return Ok(Value::from(text.as_str()));
    }
    let mut list = Vec::new();
    let items = |media: &'_ [Media]| -> Vec<String> {
        media
            .iter()
            .flat_map(|media| media.contents.iter())
            .filter(|item| !item.is_empty())
            .cloned()
            .collect()
    };
    list.extend(items(&turn.texts).iter().map(|text| (parts.text)(text)));
    for media in &turn.images {
        if !media.uuids.is_empty() && media.uuids.len() != media.contents.len() {
            return Err(EndpointError::Uuids { images: media.contents.len(), uuids: media.uuids.len() });
        }
        for (index, image) in media.contents.iter().enumerate().filter(|(_, image)| !image.is_empty()) {
            let mut part = (parts.image)(image);
            if let (Some(uuid), Value::Object(members)) = (media.uuids.get(index), &mut part) {
                members.insert("uuid".to_owned(), Value::from(uuid.as_str()));
            }
            list.push(part);
        }
    }
    for audio in items(&turn.audios) {
        list.push((parts.audio)(&audio)?);
    }
    for video in items(&turn.videos) {
        list.push((parts.video)(&video)?);
    }
    Ok(if list.is_empty() { Value::from("") } else { Value::Array(list) })
}

/// Format and data of an audio: `wav,<base64>` or `data:audio/wav;base64,<base64>`.
pub(in crate::endpoint) fn audio(text: &str) -> Result<Value, EndpointError> {
    let (format, data) = text.split_once(',').ok_or_else(|| EndpointError::Audio { start: start(text) })?;
    let format = match format.strip_prefix("data:audio/") {
        Some(kind) => kind.split(';').next().unwrap_or(kind),
        None => format,
    };
    Ok(json!({"type": "input_audio", "input_audio": {"data": data, "format": format}}))
}

/// The first characters of a text, for a message.
pub(in crate::endpoint) fn start(text: &str) -> String {
    const SHOWN_CHARS: usize = 60;
    let mut start: String = text.chars().take(SHOWN_CHARS).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    start
}

//! `single_turn`, `multi_turn` and `random_pool`: rows that say what is said.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::dataset::draw::Draws;
use crate::dataset::file::Reading;
use crate::dataset::file::media::{self, Kind};
use crate::dataset::file::row::{self, Rows, kind};
use crate::endpoint::{ContextMode, Conversation, Media, Turn};

/// Members that say something.
pub(in crate::dataset) const KEYS: [&str; 8] =
    ["text", "texts", "image", "images", "audio", "audios", "video", "videos"];
/// The stream that draws from pools.
const RANDOM_POOL: &str = "dataset.loader.random_pool";
/// Conversations drawn unless the dataset says otherwise.
const POOL_ENTRIES_DEFAULT: u32 = 100;

/// Conversations in the order of their first rows.
pub(in crate::dataset) struct Sessions {
    pub(in crate::dataset) conversations: Vec<Conversation>,
    places: HashMap<String, usize>,
}

impl Sessions {
    pub(in crate::dataset) fn new() -> Self {
        Self { conversations: Vec::new(), places: HashMap::new() }
    }

    /// The conversation `name`, or a new one for a row without a name.
    pub(in crate::dataset) fn of(
        &mut self,
        name: Option<String>,
        reading: &mut Reading<'_>,
    ) -> &mut Conversation {
        let conversation = |session_id| Conversation { session_id, ..Conversation::default() };
        let place = match name {
            None => {
                self.conversations.push(conversation(reading.next_name()));
                self.conversations.len() - 1
            }
            Some(name) => *self.places.entry(name.clone()).or_insert_with(|| {
                self.conversations.push(conversation(name));
                self.conversations.len() - 1
            }),
        };
        &mut self.conversations[place]
    }
}

/// Rows of one turn; rows of the same session are sent one after another, each alone.
pub(in crate::dataset) fn single_turn(reading: &mut Reading<'_>, sources: &[Rows]) -> Vec<Conversation> {
    let mut sessions = Sessions::new();
    for source in sources {
        for (line, row) in &source.lines {
            match turn(row).and_then(|turn| Ok((turn, row::text(row, "session_id")?))) {
                Ok((turn, name)) => sessions.of(name, reading).turns.push(turn),
                Err(reason) => reading.fault(&source.label, *line, reason),
            }
        }
    }
    for conversation in &mut sessions.conversations {
        if conversation.turns.len() > 1 {
            conversation.context_mode = Some(ContextMode::MessageArrayWithResponses);
        }
    }
    sessions.conversations
}

/// Rows of several turns; rows of the same session are joined.
pub(in crate::dataset) fn multi_turn(reading: &mut Reading<'_>, sources: &[Rows]) -> Vec<Conversation> {
    let mut sessions = Sessions::new();
    for source in sources {
        for (line, row) in &source.lines {
            let read = || -> Result<(Vec<Turn>, Option<String>), String> {
                let items =
                    row::list(row, "turns")?.ok_or("`turns` is missing: it is the list of what is said")?;
                if items.is_empty() {
                    return Err("`turns` is empty: write at least one".to_owned());
                }
                let turns = items.iter().enumerate().map(|(index, item)| match item {
                    Value::Object(item) => {
                        turn(item).map_err(|reason| format!("turn {}: {reason}", index + 1))
                    }
                    other => Err(format!("turn {} is {}, it must be an object", index + 1, kind(other))),
                });
                Ok((turns.collect::<Result<_, _>>()?, row::text(row, "session_id")?))
            };
            match read() {
                Ok((turns, name)) => sessions.of(name, reading).turns.extend(turns),
                Err(reason) => reading.fault(&source.label, *line, reason),
            }
        }
    }
    if reading.spec.takes_system {
        sessions.conversations.iter_mut().for_each(hoist_system);
    }
    sessions.conversations
}

/// Makes a leading turn that is but a system prompt the conversation's system message.
fn hoist_system(conversation: &mut Conversation) {
    let is_system = |turn: &Turn| turn.role.as_deref() == Some("system");
    let Some((first, rest)) = conversation.turns.split_first() else { return };
    let only_says = first.images.is_empty() && first.audios.is_empty() && first.videos.is_empty();
    let plain = first.timestamp_ms.is_none()
        && first.delay_ms.is_none()
        && first.max_tokens.is_none()
        && first.extra_body.is_empty();
    if is_system(first) && only_says && plain && !rest.is_empty() && !rest.iter().any(is_system) {
        let texts: Vec<&str> =
            first.texts.iter().flat_map(|media| media.contents.iter().map(String::as_str)).collect();
        conversation.system_message = Some(texts.join("\n"));
        conversation.turns.remove(0);
    }
}

/// Turns drawn from pools, one item of each (or several of the same kind).
pub(in crate::dataset) fn random_pool(reading: &mut Reading<'_>, sources: &[Rows]) -> Vec<Conversation> {
    let mut draws = Draws::new(reading.root, RANDOM_POOL);
    let entries = reading.spec.entries.unwrap_or(POOL_ENTRIES_DEFAULT) as usize;
    let sizes = reading.spec.batch_sizes;
    let sizes = [sizes.prompts, sizes.images, sizes.audios, sizes.videos].map(|size| size as usize);
    let batch = sizes.into_iter().max().unwrap_or(1).max(1);
    let mut turns: Vec<Turn> = vec![Turn::default(); entries];
    for source in sources {
        let mut pool = Vec::with_capacity(source.lines.len());
        for (line, row) in &source.lines {
            match turn(row) {
                Ok(turn) if batch > 1 && has_names(&turn) => {
                    let reason = "named or identified items cannot be drawn several at a time".to_owned();
                    reading.fault(&source.label, *line, reason);
                }
                Ok(turn) => pool.push(turn),
                Err(reason) => reading.fault(&source.label, *line, reason),
            }
        }
        if pool.is_empty() {
            continue;
        }
        let drawn: Vec<usize> = (0..entries * batch).map(|_| draws.choices_index(pool.len())).collect();
        for (turn, drawn) in turns.iter_mut().zip(drawn.chunks(batch)) {
            let items: Vec<&Turn> = drawn.iter().filter_map(|place| pool.get(*place)).collect();
            let lists: [fn(&Turn) -> &Vec<Media>; 4] =
                [|turn| &turn.texts, |turn| &turn.images, |turn| &turn.audios, |turn| &turn.videos];
            let into = [&mut turn.texts, &mut turn.images, &mut turn.audios, &mut turn.videos];
            for ((list, into), size) in lists.into_iter().zip(into).zip(sizes) {
                into.extend(merged(
                    items.iter().take(size.max(1)).map(|item| list(item)),
                    batch,
                    &source.stem,
                ));
            }
        }
    }
    if turns.iter().all(|turn| turn.texts.is_empty() && turn.images.is_empty() && turn.audios.is_empty()) {
        let videos = turns.iter().any(|turn| !turn.videos.is_empty());
        if !videos {
            return Vec::new();
        }
    }
    let conversations = turns.into_iter().map(|turn| Conversation {
        session_id: reading.next_name(),
        turns: vec![turn],
        ..Conversation::default()
    });
    conversations.collect()
}

fn has_names(turn: &Turn) -> bool {
    let all = turn.texts.iter().chain(&turn.images).chain(&turn.audios).chain(&turn.videos);
    all.into_iter().any(|media| !media.name.is_empty() || !media.uuids.is_empty())
}

/// The drawn items under the pool's name, or as one nameless list.
fn merged<'a>(drawn: impl Iterator<Item = &'a Vec<Media>>, batch: usize, pool: &str) -> Vec<Media> {
    let all: Vec<Media> = drawn.flatten().cloned().collect();
    if batch == 1 {
        let named = |media: Media| match media.name.as_str() {
            "" => Media { name: pool.to_owned(), ..media },
            _ => media,
        };
        return all.into_iter().map(named).collect();
    }
    let contents: Vec<String> = all.into_iter().flat_map(|media| media.contents).collect();
    if contents.is_empty() { Vec::new() } else { vec![Media::new(contents)] }
}

/// A row as a turn.
pub(in crate::dataset) fn turn(row: &Map<String, Value>) -> Result<Turn, String> {
    let texts = media_list(row, "text", "texts", None)?;
    let mut images = media_list(row, "image", "images", Some(Kind::Image))?;
    let audios = media_list(row, "audio", "audios", Some(Kind::Audio))?;
    let videos = media_list(row, "video", "videos", Some(Kind::Video))?;
    let says = |list: &[Media]| list.iter().any(|media| media.contents.iter().any(|item| !item.is_empty()));
    if ![&texts, &images, &audios, &videos].into_iter().any(|list| says(list)) {
        return Err("the row says nothing: give it a `text`, `image`, `audio` or `video`".to_owned());
    }
    if let Some(uuids) = row::list(row, "image_uuids")? {
        let uuids: Option<Vec<String>> = uuids.iter().map(|uuid| uuid.as_str().map(str::to_owned)).collect();
        let uuids = uuids.ok_or("`image_uuids` must be a list of texts")?;
        let count: usize = images.iter().map(|media| media.contents.len()).sum();
        if uuids.len() != count {
            return Err(format!(
                "there are {count} images and {} `image_uuids`: give one for each",
                uuids.len()
            ));
        }
        let mut rest = uuids.into_iter();
        for media in &mut images {
            media.uuids = rest.by_ref().take(media.contents.len()).collect();
        }
    }
    let (timestamp_ms, delay_ms) = (row::number(row, "timestamp")?, row::number(row, "delay")?);
    if timestamp_ms.is_some_and(|stamp| stamp > 0.0) && delay_ms.is_some_and(|delay| delay > 0.0) {
        return Err(
            "`timestamp` and `delay` cannot stand together: a turn is sent at a time or after one".to_owned()
        );
    }
    Ok(Turn {
        role: row::text(row, "role")?,
        texts,
        images,
        audios,
        videos,
        max_tokens: row::count(row, "output_length", 1)?,
        timestamp_ms,
        delay_ms,
        extra_body: row::object(row, "extra")?.cloned().unwrap_or_default(),
        ..Turn::default()
    })
}

/// One item, or a list of items, or a list of named lists.
fn media_list(
    row: &Map<String, Value>,
    one: &str,
    many: &str,
    kind: Option<Kind>,
) -> Result<Vec<Media>, String> {
    let item = |text: &str| match kind {
        Some(kind) => media::item(text, kind),
        None => Ok(text.to_owned()),
    };
    let single = row::text(row, one)?;
    let list = row::list(row, many)?;
    match (single, list) {
        (Some(_), Some(_)) => Err(format!("`{one}` and `{many}` cannot stand together: write one of them")),
        (Some(single), None) => Ok(vec![Media::new(vec![item(&single)?])]),
        (None, None) => Ok(Vec::new()),
        (None, Some(list)) if list.iter().all(Value::is_string) => {
            let contents = list.iter().filter_map(Value::as_str).map(item).collect::<Result<Vec<_>, _>>()?;
            Ok(if contents.is_empty() { Vec::new() } else { vec![Media::new(contents)] })
        }
        (None, Some(list)) => {
            let named = |entry: &Value| -> Result<Media, String> {
                let wrong =
                    || format!("`{many}` must be a list of texts, or of objects with `name` and `contents`");
                let entry = entry.as_object().ok_or_else(wrong)?;
                let contents = entry.get("contents").and_then(Value::as_array).ok_or_else(wrong)?;
                let contents = contents.iter().map(|text| item(text.as_str().ok_or_else(wrong)?));
                Ok(Media {
                    name: row::text(entry, "name")?.unwrap_or_default(),
                    ..Media::new(contents.collect::<Result<_, _>>()?)
                })
            };
            list.iter().map(named).collect()
        }
    }
}

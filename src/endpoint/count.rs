//! The texts of a payload that are counted as its input.

use serde_json::{Map, Value};

/// Media of a payload; they are not counted as tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaCounts {
    /// Images.
    pub images: u32,
    /// Audios.
    pub audios: u32,
    /// Videos.
    pub videos: u32,
}

/// What there is to count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputTexts {
    /// Texts of messages, prompts, inputs and tools, in order.
    pub texts: Vec<String>,
    /// Tokens that stand in the payload as numbers.
    pub pretokenised: u64,
    /// Media beside the texts.
    pub media: MediaCounts,
}

impl InputTexts {
    /// The text that is encoded once, absent when there is nothing to count. Tokens that stand in the payload
    /// as numbers come on top.
    pub fn joined(&self) -> Option<String> {
        if self.texts.is_empty() && self.pretokenised == 0 {
            return None;
        }
        Some(self.texts.join(" "))
    }

    fn push(&mut self, text: Option<&str>) {
        self.texts.extend(text.map(str::to_owned));
    }
}

/// Walks a payload as AIPerf does.
pub fn input_texts(payload: &Value) -> InputTexts {
    let mut found = InputTexts::default();
    let Value::Object(payload) = payload else { return found };
    let arrays: Vec<&Vec<Value>> = ["messages", "input"]
        .iter()
        .filter_map(|key| payload.get(*key).and_then(Value::as_array))
        .filter(|items| items.iter().any(|item| item.get("role").is_some() || item.get("type").is_some()))
        .collect();
    if !arrays.is_empty() {
        found.push(payload.get("instructions").and_then(Value::as_str));
        match payload.get("system") {
            Some(Value::String(system)) => found.push(Some(system)),
            Some(Value::Array(blocks)) => {
                for block in blocks {
                    found.push(block.get("text").and_then(Value::as_str));
                }
            }
            Some(_) | None => {}
        }
    }
    for item in arrays.iter().flat_map(|items| items.iter()) {
        walk_item(item, &mut found);
    }
    for tool in payload.get("tools").and_then(Value::as_array).into_iter().flatten() {
        for holder in [tool.get("function"), Some(tool)].into_iter().flatten() {
            walk_tool(holder, &mut found);
        }
    }
    for item in arrays.iter().flat_map(|items| items.iter()) {
        walk_tool_use(item, &mut found);
    }
    if arrays.is_empty() {
        walk_prompt(payload, &mut found);
    }
    found
}

fn walk_item(item: &Value, found: &mut InputTexts) {
    let text = |key: &str| item.get(key).and_then(Value::as_str);
    match text("type") {
        Some("function_call") => {
            found.push(text("name"));
            found.push(text("arguments"));
        }
        Some("function_call_output") => found.push(text("output")),
        Some(_) | None => {}
    }
    match item.get("content") {
        Some(Value::String(content)) => found.push(Some(content)),
        Some(Value::Array(parts)) => parts.iter().for_each(|part| walk_part(part, found)),
        Some(_) | None => {}
    }
    for function in item.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let function = function.get("function");
        for key in ["name", "arguments"] {
            found.push(function.and_then(|function| function.get(key)).and_then(Value::as_str));
        }
    }
}

fn walk_part(part: &Value, found: &mut InputTexts) {
    let text = |key: &str| part.get(key).and_then(Value::as_str);
    match text("type") {
        Some("text" | "input_text" | "output_text") => found.push(text("text")),
        Some("image" | "image_url" | "input_image") => found.media.images += 1,
        Some("input_audio") => found.media.audios += 1,
        Some("video_url") => found.media.videos += 1,
        Some(_) | None => {}
    }
}

/// What an assistant called and what came of it, which AIPerf takes last.
fn walk_tool_use(item: &Value, found: &mut InputTexts) {
    for part in item.get("content").and_then(Value::as_array).into_iter().flatten() {
        match part.get("type").and_then(Value::as_str) {
            Some("tool_use") => {
                found.push(part.get("name").and_then(Value::as_str));
                found.texts.extend(part.get("input").map(Value::to_string));
            }
            Some("tool_result") => match part.get("content") {
                Some(Value::String(content)) => found.push(Some(content)),
                Some(Value::Array(blocks)) => {
                    for block in blocks {
                        found.push(block.get("text").and_then(Value::as_str));
                    }
                }
                Some(_) | None => {}
            },
            Some(_) | None => {}
        }
    }
}

fn walk_tool(tool: &Value, found: &mut InputTexts) {
    for key in ["name", "description"] {
        found.texts.extend(tool.get(key).and_then(Value::as_str).map(str::to_owned));
    }
    for key in ["parameters", "input_schema"] {
        found.texts.extend(tool.get(key).filter(|value| !value.is_null()).map(Value::to_string));
    }
}

fn walk_prompt(payload: &Map<String, Value>, found: &mut InputTexts) {
    if let Some(prompt) = payload.get("prompt") {
        walk_input(prompt, found);
    } else if let Some(input) = payload.get("input") {
        walk_input(input, found);
    } else if let (Some(Value::String(query)), Some(passages)) =
        (payload.get("query"), payload.get("passages"))
    {
        found.push(Some(query));
        walk_input(passages, found);
    } else {
        found.push(payload.get("inputs").and_then(Value::as_str));
    }
}

/// A text, texts, tokens, or lists of tokens.
fn walk_input(value: &Value, found: &mut InputTexts) {
    match value {
        Value::String(text) => found.push(Some(text)),
        Value::Array(items) if items.iter().all(Value::is_number) => {
            found.pretokenised += items.len() as u64;
        }
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::String(text) => found.push(Some(text)),
                    Value::Array(tokens) => found.pretokenised += tokens.len() as u64,
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
    }
}

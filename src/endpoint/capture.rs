//! What a later turn of a session has to send back of a reply.

use serde_json::{Map, Value, json};

use crate::endpoint::body::truthy;
use crate::endpoint::{Content, Dialect, Reader, Turn};

/// Items of a responses output that are not sent back.
const NOT_REPLAYED: [&str; 6] = [
    "code_interpreter_call",
    "computer_call",
    "file_search_call",
    "image_generation_call",
    "reasoning",
    "web_search_call",
];

/// Room for text beyond this is given back when the reply is over.
const RETAINED_BYTES_MAX: usize = 64 * 1024;

/// Puts a reply together, message by message.
#[derive(Debug)]
pub struct Capture {
    reader: Reader,
    text: String,
    /// Calls by their place in the reply.
    calls: Vec<(u64, Map<String, Value>)>,
    output: Vec<Value>,
    response_id: Option<String>,
}

/// What was kept of a reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Captured {
    /// The answer as a turn of the history; absent when there was no content.
    pub turn: Option<Turn>,
    /// The name under which the server stored it.
    pub response_id: Option<String>,
}

impl Capture {
    /// A capture of one reply of this endpoint type.
    pub fn new(reader: Reader) -> Self {
        Self { reader, text: String::new(), calls: Vec::new(), output: Vec::new(), response_id: None }
    }

    /// Takes the data of one message or a whole body.
    pub fn message(&mut self, data: &[u8]) {
        let Ok(value) = serde_json::from_slice::<Value>(data) else { return };
        match self.dialect().name {
            "chat" => self.chat(&value),
            "responses" => self.responses(&value),
            _ => self.text_of(&value),
        }
    }

    fn dialect(&self) -> &'static Dialect {
        self.reader.dialect()
    }

    /// As AIPerf, thoughts of a message without calls become part of the answer.
    fn text_of(&mut self, value: &Value) {
        let Ok(reading) = self.reader.read_value(value) else { return };
        match reading.content {
            Some(Content::Text(text) | Content::ToolCall { content: Some(text), .. }) => {
                self.text.push_str(&text);
            }
            Some(Content::Reasoning { reasoning, content }) if self.dialect().is_chat() => {
                self.text.push_str(content.as_deref().unwrap_or(&reasoning));
            }
            Some(Content::Reasoning { content: Some(text), .. }) => self.text.push_str(&text),
            Some(_) | None => {}
        }
    }

    fn chat(&mut self, value: &Value) {
        let first = value.get("choices").and_then(|choices| choices.get(0));
        let part = first.and_then(|first| first.get("delta").or_else(|| first.get("message")));
        let calls = part.and_then(|part| part.get("tool_calls")).and_then(Value::as_array);
        for (position, call) in calls.into_iter().flatten().enumerate() {
            self.chat_call(call, position as u64);
        }
        self.text_of(value);
    }

    /// Adds a piece of a call: identifiers replace, arguments are appended.
    fn chat_call(&mut self, call: &Value, position: u64) {
        let place = call.get("index").and_then(Value::as_u64).unwrap_or(position);
        let index = self.calls.iter().position(|(known, _)| *known == place).unwrap_or_else(|| {
            let empty = json!({"id": "", "type": "function", "function": {"name": "", "arguments": ""}});
            self.calls.push((place, empty.as_object().cloned().unwrap_or_default()));
            self.calls.len() - 1
        });
        let Some((_, known)) = self.calls.get_mut(index) else { return };
        for key in ["id", "type"] {
            if let Some(text) = call.get(key).filter(|text| truthy(Some(text))) {
                known.insert(key.to_owned(), text.clone());
            }
        }
        let (Some(Value::Object(function)), Some(piece)) = (known.get_mut("function"), call.get("function"))
        else {
            return;
        };
        for key in ["name", "arguments"] {
            if let (Some(Value::String(text)), Some(more)) =
                (function.get_mut(key), piece.get(key).and_then(Value::as_str))
            {
                text.push_str(more);
            }
        }
    }

    fn responses(&mut self, value: &Value) {
        let response = value.get("response").unwrap_or(value);
        if let Some(id) = response.get("id").and_then(Value::as_str) {
            self.response_id = Some(id.to_owned());
        }
        let completed = value.get("type").and_then(Value::as_str) == Some("response.completed")
            || value.get("object").and_then(Value::as_str) == Some("response");
        if completed && let Some(output) = response.get("output").and_then(Value::as_array) {
            let replayed = output.iter().filter(|item| {
                let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
                !NOT_REPLAYED.contains(&kind)
            });
            self.output = replayed.cloned().collect();
        }
        self.text_of(value);
    }

    /// Takes a piece of text that is all that a chat message says.
    pub fn piece(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Forgets the reply; keeps room for a text of ordinary length.
    pub fn reset(&mut self) {
        self.reader.reset();
        self.text.clear();
        self.text.shrink_to(RETAINED_BYTES_MAX);
        self.calls.clear();
        self.output.clear();
        self.response_id = None;
    }

    /// Appends the answer as items of a conversation, each with a comma behind it, as a history has them.
    /// Nothing is appended when the reply had no content.
    pub fn write_items(&self, out: &mut Vec<u8>) {
        let has_parts = !self.calls.is_empty() || !self.output.is_empty();
        let (before, behind): (&[u8], &[u8]) = match self.dialect().name {
            "responses" => {
                (br#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"#, b"}]},")
            }
            _ => (br#"{"role":"assistant","content":"#, b"},"),
        };
        // A tree has text keys only and a vector takes every byte: nothing can fail.
        if has_parts {
            for item in self.items() {
                let written = serde_json::to_writer(&mut *out, &item);
                debug_assert!(written.is_ok(), "{written:?}");
                out.push(b',');
            }
        } else if !self.text.is_empty() {
            out.extend_from_slice(before);
            let written = serde_json::to_writer(&mut *out, &self.text);
            debug_assert!(written.is_ok(), "{written:?}");
            out.extend_from_slice(behind);
        }
    }

    /// What there is of the reply.
    pub fn finish(self) -> Captured {
        let messages = self.items();
        let turn = (!messages.is_empty()).then(|| Turn {
            role: Some("assistant".to_owned()),
            raw_messages: Some(messages),
            ..Turn::default()
        });
        Captured { turn, response_id: self.response_id }
    }

    fn items(&self) -> Vec<Value> {
        match self.dialect().name {
            "responses" if !self.output.is_empty() => self.output.clone(),
            "responses" if !self.text.is_empty() => vec![json!({
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": self.text}],
            })],
            _ if !self.calls.is_empty() => {
                let content =
                    if self.text.is_empty() { Value::Null } else { Value::from(self.text.as_str()) };
                let calls: Vec<Value> =
                    self.calls.iter().map(|(_, call)| Value::Object(call.clone())).collect();
                vec![json!({"role": "assistant", "content": content, "tool_calls": calls})]
            }
            _ if !self.text.is_empty() => vec![json!({"role": "assistant", "content": self.text})],
            _ => Vec::new(),
        }
    }
}

//! What the server needs to know of a chat completion request: a scan of a few members, and a real parse
//! when the scan meets something it does not expect.

use memchr::memchr2;

/// Most tokens that one reply may have.
const TOKENS_MAX: u64 = 1_000_000;

/// A chat completion request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chat {
    /// The reply is to come as a stream.
    pub(super) stream: bool,
    /// The stream is to end with a usage message.
    pub(super) include_usage: bool,
    /// Reply length asked for.
    pub(super) tokens: Option<u32>,
    /// Words of the message contents.
    pub(super) prompt_words: u64,
}

/// Reads a request body; puts the model's name, as escaped in JSON, into `model`.
///
/// # Errors
/// Why it is no such request.
pub(super) fn read(body: &[u8], model: &mut Vec<u8>) -> Result<Chat, &'static str> {
    model.clear();
    let facts = match scan(body, model) {
        Some(facts) => facts,
        None => parse(body, model)?,
    };
    let tokens = facts.max_completion_tokens.or(facts.max_tokens);
    let tokens = match tokens {
        None => None,
        Some(0) => return Err("max_tokens must be at least 1"),
        Some(tokens) if tokens > TOKENS_MAX => return Err("max_tokens must be at most 1000000"),
        Some(tokens) => u32::try_from(tokens).ok(),
    };
    let Some(prompt_words) = facts.prompt_words else { return Err("messages must be a list") };
    Ok(Chat { stream: facts.stream, include_usage: facts.include_usage, tokens, prompt_words })
}

#[derive(Default)]
struct Facts {
    stream: bool,
    include_usage: bool,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    prompt_words: Option<u64>,
}

/// A position in JSON text. Methods answer nothing when the text is not as expected.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

fn scan(body: &[u8], model: &mut Vec<u8>) -> Option<Facts> {
    let mut facts = Facts::default();
    let mut scan = Scan { bytes: body, at: 0 };
    scan.object(|scan, key| match key {
        b"max_completion_tokens" => scan.count().map(|count| facts.max_completion_tokens = count),
        b"max_tokens" => scan.count().map(|count| facts.max_tokens = count),
        b"messages" => scan.messages().map(|words| facts.prompt_words = Some(words)),
        b"model" => scan.string().map(|name| {
            model.clear();
            model.extend_from_slice(name);
        }),
        b"stream" => scan.flag().map(|flag| facts.stream = flag),
        b"stream_options" => {
            if scan.peek()? == b'n' {
                return scan.skip();
            }
            scan.object(|scan, key| match key {
                b"include_usage" => scan.flag().map(|flag| facts.include_usage = flag),
                _ => scan.skip(),
            })
        }
        _ => scan.skip(),
    })?;
    scan.peek().is_none().then_some(facts)
}

impl<'a> Scan<'a> {
    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while let b' ' | b'\n' | b'\r' | b'\t' = *self.bytes.get(self.at)? {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// A string, as escaped.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.eat(b'"')?;
        let start = self.at;
        loop {
            let rest = self.bytes.get(self.at..)?;
            let found = memchr2(b'"', b'\\', rest)?;
            self.at += found;
            if self.bytes[self.at] == b'"' {
                self.at += 1;
                return Some(&self.bytes[start..self.at - 1]);
            }
            self.at += 2;
        }
    }

    /// A bare word or number.
    fn bare(&mut self) -> Option<&'a [u8]> {
        self.peek()?;
        let rest = &self.bytes[self.at..];
        let length = rest
            .iter()
            .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')))
            .unwrap_or(rest.len());
        self.at += length;
        (length > 0).then(|| &rest[..length])
    }

    fn flag(&mut self) -> Option<bool> {
        match self.bare()? {
            b"true" => Some(true),
            b"false" | b"null" => Some(false),
            _ => None,
        }
    }

    /// A whole number, or null.
    #[expect(clippy::option_option, reason = "not understood, absent and a number are three things")]
    fn count(&mut self) -> Option<Option<u64>> {
        match self.bare()? {
            b"null" => Some(None),
            digits => std::str::from_utf8(digits).ok()?.parse().ok().map(Some),
        }
    }

    /// Any value.
    fn skip(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'[' | b'{' => {
                let mut depth = 0_usize;
                loop {
                    match *self.bytes.get(self.at)? {
                        b'"' => {
                            self.string()?;
                            continue;
                        }
                        b'[' | b'{' => depth += 1,
                        b']' | b'}' => depth -= 1,
                        _ => {}
                    }
                    self.at += 1;
                    if depth == 0 {
                        return Some(());
                    }
                }
            }
            _ => self.bare().map(|_| ()),
        }
    }

    fn object(&mut self, mut member: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        self.eat(b'{')?;
        if self.peek()? == b'}' {
            return self.eat(b'}');
        }
        loop {
            let key = self.string()?;
            self.eat(b':')?;
            member(self, key)?;
            if self.peek()? == b'}' {
                return self.eat(b'}');
            }
            self.eat(b',')?;
        }
    }

    fn array(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.eat(b'[')?;
        if self.peek()? == b']' {
            return self.eat(b']');
        }
        loop {
            element(self)?;
            if self.peek()? == b']' {
                return self.eat(b']');
            }
            self.eat(b',')?;
        }
    }

    /// The words of all message contents.
    fn messages(&mut self) -> Option<u64> {
        let mut words = 0;
        self.array(|scan| {
            scan.object(|scan, key| {
                if key != b"content" {
                    return scan.skip();
                }
                match scan.peek()? {
                    b'"' => words += count_words(scan.string()?),
                    b'[' => scan.array(|scan| {
                        scan.object(|scan, key| {
                            if key == b"text" && scan.peek()? == b'"' {
                                words += count_words(scan.string()?);
                                return Some(());
                            }
                            scan.skip()
                        })
                    })?,
                    _ => scan.skip()?,
                }
                Some(())
            })
        })?;
        Some(words)
    }
}

/// Counts white-space separated words of a string as escaped in JSON.
fn count_words(escaped: &[u8]) -> u64 {
    let Some(&first) = escaped.first() else { return 0 };
    if memchr::memchr(b'\\', escaped).is_none() {
        // Without escapes the blank is the only white space that JSON allows here, and a word starts where
        // a blank ends. Blocks with a small sum each are what the compiler turns into vector code.
        let pairs = escaped.chunks(128).zip(escaped[1..].chunks(128));
        let starts = pairs.map(|(bytes, nexts)| {
            let starts = bytes.iter().zip(nexts).map(|(byte, next)| u8::from(*byte == b' ' && *next != b' '));
            u64::from(starts.sum::<u8>())
        });
        return u64::from(first != b' ') + starts.sum::<u64>();
    }
    let mut words = 0;
    let mut between = true;
    let mut bytes = escaped.iter();
    while let Some(&byte) = bytes.next() {
        // An escape is one character: white space when it is \n, \r, \t or \f.
        let space = match byte {
            b'\\' => bytes.next().is_some_and(|escape| matches!(escape, b'n' | b'r' | b't' | b'f')),
            byte => byte.is_ascii_whitespace(),
        };
        words += u64::from(between && !space);
        between = space;
    }
    words
}

/// The slow way, for what the scan did not understand.
fn parse(body: &[u8], model: &mut Vec<u8>) -> Result<Facts, &'static str> {
    use serde_json::Value;
    let value: Value = serde_json::from_slice(body).map_err(|_| "the body is not JSON")?;
    let count = |name: &str, why: &'static str| match &value[name] {
        Value::Null => Ok(None),
        number => number.as_u64().map(Some).ok_or(why),
    };
    let words = |text: &str| text.split_ascii_whitespace().count() as u64;
    model.clear();
    if let Some(name) = value["model"].as_str() {
        let escaped = Value::from(name).to_string();
        // Without the quotes around it.
        model.extend_from_slice(&escaped.as_bytes()[1..escaped.len() - 1]);
    }
    let prompt_words = value["messages"].as_array().map(|messages| {
        let contents = messages.iter().map(|message| match &message["content"] {
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).map(words).sum(),
            content => content.as_str().map_or(0, words),
        });
        contents.sum()
    });
    Ok(Facts {
        stream: value["stream"].as_bool().unwrap_or(false),
        include_usage: value["stream_options"]["include_usage"].as_bool().unwrap_or(false),
        max_tokens: count("max_tokens", "max_tokens must be a whole number")?,
        max_completion_tokens: count(
            "max_completion_tokens",
            "max_completion_tokens must be a whole number",
        )?,
        prompt_words,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(body: &str) -> Result<(Chat, String), &'static str> {
        let mut model = Vec::new();
        let chat = read(body.as_bytes(), &mut model)?;
        Ok((chat, String::from_utf8_lossy(&model).into_owned()))
    }

    #[test]
    fn the_members_that_matter_are_found_wherever_they_stand() {
        let body = r#" {"temperature": 0.5, "tools": [{"a": "]}"}], "model": "m/1", "messages": [
            {"role": "system", "content": "be  brief\nplease"}, {"content": [{"type": "text", "text": "one two"},
            {"type": "image_url", "image_url": {"url": "x y z"}}], "role": "user"}],
            "max_tokens": 9, "max_completion_tokens": 7, "stream": true, "stream_options": {"include_usage": true}} "#;
        let chat = Chat { stream: true, include_usage: true, tokens: Some(7), prompt_words: 5 };
        assert_eq!(asked(body), Ok((chat, "m/1".to_owned())));
        assert!(scan(body.as_bytes(), &mut Vec::new()).is_some(), "the fast way suffices");
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(asked("{"), Err("the body is not JSON"));
        assert_eq!(asked("{}"), Err("messages must be a list"));
        assert_eq!(asked(r#"{"messages": [], "max_tokens": 0}"#), Err("max_tokens must be at least 1"));
        assert_eq!(asked(r#"{"messages": [], "max_tokens": 1.5}"#), Err("max_tokens must be a whole number"));
        assert_eq!(
            asked(r#"{"messages": [], "max_tokens": 1000001}"#),
            Err("max_tokens must be at most 1000000")
        );
    }

    #[test]
    fn a_null_is_an_absence() {
        let body = r#"{"messages": [{"content": null}], "max_tokens": null, "stream_options": null, "stream": null}"#;
        assert_eq!(asked(body), Ok((Chat::default(), String::new())));
    }

    proptest! {
        #[test]
        fn the_scan_and_the_parse_agree(
            contents in prop::collection::vec("[ a-z\\n\\t\"\\\\é]{0,40}", 0..4),
            tokens in prop::option::of(1_u32..5_000),
            stream in any::<bool>(),
            model in "[a-z\"/\\\\]{0,9}",
        ) {
            let messages: Vec<_> =
                contents.iter().map(|text| serde_json::json!({"role": "user", "content": text})).collect();
            let body = serde_json::json!({
                "max_tokens": tokens, "messages": messages, "stream": stream, "model": model,
            }).to_string();
            let (mut fast_model, mut slow_model) = (Vec::new(), Vec::new());
            let fast = scan(body.as_bytes(), &mut fast_model);
            prop_assert!(fast.is_some());
            let slow = parse(body.as_bytes(), &mut slow_model);
            prop_assert!(slow.is_ok());
            if let (Some(fast), Ok(slow)) = (fast, slow) {
                prop_assert_eq!(fast.prompt_words, slow.prompt_words);
                prop_assert_eq!(fast.max_tokens, slow.max_tokens);
                prop_assert_eq!(fast.stream, slow.stream);
            }
            let model_json = format!("\"{}\"", String::from_utf8_lossy(&fast_model));
            prop_assert_eq!(serde_json::from_str::<String>(&model_json).ok(), Some(model));
        }

        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&body, &mut Vec::new());
        }
    }
}

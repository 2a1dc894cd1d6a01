//! Recorded replies: the bytes that a server of vLLM's kind sends for a chat completion stream, made in
//! memory and cut into the reads in which a client might see them.

/// What the tokens of a recording carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// Text with escapes: line breaks, quotes, characters beyond ASCII.
    Escapes,
    /// Words.
    Plain,
    /// Reasoning in the first half, words in the second.
    Reasoning,
}

/// How the bytes meet the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// One read for each message.
    PerMessage,
    /// Cut anywhere.
    Random,
    /// All in one read.
    Whole,
}

/// One reply and where its reads end.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// Longest read of a reply that is cut anywhere.
const RANDOM_READ_BYTES_MAX: usize = 600;

/// Replies of a recording: identifiers and texts differ between them, as they do between requests.
const REPLIES: u64 = 8;

const WORDS: [&str; 8] = [" the", " of", " inference", " a", " token", ",", " servers", "."];
const ESCAPED: [&str; 8] =
    [r"\n\n", r#" \"quoted\""#, " é", r" \u00e9t\u00e9", " 中文", r"\t", r"\ud83d\ude80", " \\\\"];

impl Reply {
    /// A recording of `tokens` tokens a reply; one seed gives one recording.
    pub(crate) fn recording(text: Text, tokens: u32, split: Split) -> Vec<Self> {
        (0..REPLIES).map(|number| Self::make(text, tokens, split, number)).collect()
    }

    fn make(text: Text, tokens: u32, split: Split, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let id = format!("chatcmpl-{:032x}", random.u128(..));
        let mut bytes = b"HTTP/1.1 200 OK\r\ndate: Tue, 14 Oct 2025 09:26:53 GMT\r\nserver: uvicorn\r\n\
            content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec();
        let mut ends = Vec::new();
        let mut message = |members: &str| {
            let data = format!(
                "data: {{\"id\":\"{id}\",\"object\":\"chat.completion.chunk\",\"created\":1760434013,\
                 \"model\":\"meta-llama/Llama-3.1-8B-Instruct\",{members}}}\n\n"
            );
            push_chunk(&mut bytes, &data);
            ends.push(bytes.len());
        };
        let choice = |delta: &str, finish: &str| {
            format!(
                "\"choices\":[{{\"index\":0,\"delta\":{{{delta}}},\"logprobs\":null,\"finish_reason\":{finish}}}]"
            )
        };
        message(&choice("\"role\":\"assistant\",\"content\":\"\"", "null"));
        for token in 0..tokens {
            let (member, words) = match text {
                Text::Escapes => ("content", ESCAPED),
                Text::Reasoning if token < tokens / 2 => ("reasoning_content", WORDS),
                Text::Plain | Text::Reasoning => ("content", WORDS),
            };
            let word = words[random.usize(..words.len())];
            message(&choice(&format!("\"{member}\":\"{word}\""), "null"));
        }
        message(&choice("\"content\":\"\"", "\"length\""));
        message(&format!(
            "\"choices\":[],\"usage\":{{\"prompt_tokens\":512,\"total_tokens\":{},\"completion_tokens\":{tokens}}}",
            512 + tokens
        ));
        push_chunk(&mut bytes, "data: [DONE]\n\n");
        bytes.extend_from_slice(b"0\r\n\r\n");
        ends.push(bytes.len());
        match split {
            Split::PerMessage => {}
            Split::Random => {
                ends.clear();
                let mut end = 0;
                while end < bytes.len() {
                    end = (end + random.usize(1..=RANDOM_READ_BYTES_MAX)).min(bytes.len());
                    ends.push(end);
                }
            }
            Split::Whole => ends = vec![bytes.len()],
        }
        Self { bytes, ends }
    }

    /// Number of reads, at least 1.
    pub(crate) fn reads(&self) -> usize {
        self.ends.len()
    }

    /// What read `index` brings.
    pub(crate) fn read(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }
}

/// Each message is a chunk of the transfer coding, as uvicorn writes them.
fn push_chunk(bytes: &mut Vec<u8>, data: &str) {
    bytes.extend_from_slice(format!("{:x}\r\n{data}\r\n", data.len()).as_bytes());
}

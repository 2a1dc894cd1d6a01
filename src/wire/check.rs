//! Properties that hold for any bytes at all, shared by the tests and the fuzz targets.
//!
//! Each function panics when its property is broken. They are no part of the program.

use crate::endpoint::Usage;
use crate::wire::delta::{self, Reading};
use crate::wire::known::Known;
use crate::wire::reply::{Fed, Progress, ReplyDecoder};

/// The sums of a reply, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// The status, once the head was whole.
    pub status: Option<u16>,
    /// Decoded body bytes.
    pub body_bytes: usize,
    /// Messages of any kind.
    pub messages: u32,
    /// Messages with content.
    pub contents: u32,
    /// Messages with output.
    pub outputs: u32,
    /// The usage at the end.
    pub usage: Option<Usage>,
    /// The tokens of the first message with content, from a decoder that looks for them.
    pub first_content_tokens: Option<u64>,
    /// How it ended, in words; whether the connection can be used again is the next member.
    pub end: String,
    /// The connection can be used again.
    pub reusable: bool,
}

impl Sums {
    /// Adds what one feed brought; whether the reply is over.
    fn add(&mut self, fed: &Fed) -> bool {
        assert!(self.status.is_none() || fed.status.is_none(), "two heads for one reply");
        assert!(fed.contents <= fed.messages, "content without a message");
        assert!(fed.outputs <= fed.contents, "output without content");
        self.status = self.status.or(fed.status);
        self.body_bytes += fed.body_bytes;
        self.messages += fed.messages;
        self.contents += fed.contents;
        self.outputs += fed.outputs;
        match &fed.progress {
            Progress::Complete { reusable } => {
                "complete".clone_into(&mut self.end);
                self.reusable = *reusable;
            }
            Progress::Failed { fault, reusable } => {
                self.end = format!("{fault:?}");
                self.reusable = *reusable;
            }
            Progress::Pending => return false,
        }
        true
    }
}

/// Feeds `bytes` cut at `cuts` (in any order, taken modulo the length), then closes.
pub fn decode(decoder: &mut ReplyDecoder, bytes: &[u8], cuts: &[usize]) -> Sums {
    decode_knowing(decoder, bytes, cuts, &mut Known::default())
}

/// As [`decode`], with what earlier replies left in `known`.
fn decode_knowing(decoder: &mut ReplyDecoder, bytes: &[u8], cuts: &[usize], known: &mut Known) -> Sums {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.push(bytes.len());
    cuts.sort_unstable();
    decoder.reset();
    let mut sums = Sums::default();
    let mut begin = 0;
    let mut over = false;
    for end in cuts {
        let fed = decoder.feed_knowing(bytes.get(begin..end).unwrap_or_default(), known);
        begin = end;
        if sums.add(&fed) {
            over = true;
            break;
        }
    }
    if !over {
        assert!(sums.add(&decoder.close()), "a closed reply is over");
    }
    sums.usage = decoder.usage();
    sums.first_content_tokens = decoder.first_content_tokens();
    sums
}

/// The sums of a reply are the same however it is cut and whatever was read before, but for the connection: it
/// is reusable only if the decoder saw no byte behind the reply, and bytes that come later are not seen.
pub fn reply(bytes: &[u8], cuts: &[usize]) {
    let mut decoder = ReplyDecoder::default();
    let whole = decode(&mut decoder, bytes, &[]);
    let each: Vec<usize> = (0..bytes.len()).collect();
    let mut known = Known::default();
    for cuts in [&[], cuts, &each] {
        let mut parts = decode_knowing(&mut decoder, bytes, cuts, &mut known);
        assert!(parts.reusable || !whole.reusable, "reusable as a whole, not in parts");
        parts.reusable = whole.reusable;
        assert_eq!(parts, whole, "cut at {cuts:?}");
    }
}

/// Each of several replies gives what it gives alone, whichever were read before it by a decoder of this kind.
pub fn replies(decoder: &mut ReplyDecoder, replies: &[Vec<u8>], cuts: &[usize]) {
    let mut known = Known::default();
    for reply in replies {
        let alone = decode(&mut decoder.fresh(), reply, cuts);
        assert_eq!(decode_knowing(decoder, reply, cuts, &mut known), alone);
    }
}

/// The scanner and the tree say the same about a message; whether the scanner knew the answer.
pub fn delta(data: &[u8]) -> bool {
    let scanned = delta::read_scanned(data);
    if let Some(scanned) = scanned {
        assert_eq!(Reading::Delta(scanned), delta::read_tree(data));
    }
    scanned.is_some()
}

/// Checks [`reply`] on one fuzz input: the number of cuts, the cuts as 16-bit little-endian numbers, the
/// bytes of the reply.
pub fn reply_input(input: &[u8]) {
    let Some((count, rest)) = input.split_first() else { return };
    let (cuts, bytes) = rest.split_at((usize::from(*count) % 9 * 2).min(rest.len()));
    let cuts: Vec<usize> = cuts
        .chunks_exact(2)
        .map(|cut| cut.iter().rev().fold(0, |cut, byte| cut << 8 | usize::from(*byte)))
        .collect();
    reply(bytes, &cuts);
}

//! A body as it comes, without framing, kept for the file of raw records. It is read elsewhere.

use crate::wire::head::media_type;

/// The longest body that is kept, in bytes; a longer one is not kept at all.
const BYTES_MAX: usize = 512 * 1024;

/// The body of one reply after another.
#[derive(Debug, Default)]
pub(in crate::wire) struct Raw {
    body: Vec<u8>,
    /// It is longer than what is kept.
    overflowed: bool,
    media_type: Vec<u8>,
}

impl Raw {
    /// A body follows this whole head.
    pub(in crate::wire) fn begin(&mut self, head: &[u8]) {
        self.media_type.clear();
        self.media_type.extend_from_slice(media_type(head));
    }

    /// The next part of the body.
    pub(in crate::wire) fn extend(&mut self, data: &[u8]) {
        self.overflowed |= self.body.len() + data.len() > BYTES_MAX;
        if !self.overflowed {
            self.body.extend_from_slice(data);
        }
    }

    /// The body so far; absent when it is longer than what is kept.
    pub(in crate::wire) fn body(&self) -> Option<&[u8]> {
        (!self.overflowed).then_some(self.body.as_slice())
    }

    /// Its media type without parameters; empty when the server names none.
    pub(in crate::wire) fn media_type(&self) -> &[u8] {
        &self.media_type
    }

    /// Gets ready for the next reply; keeps room for `retained_bytes` at most.
    pub(in crate::wire) fn reset(&mut self, retained_bytes: usize) {
        self.body.clear();
        self.body.shrink_to(retained_bytes);
        self.overflowed = false;
        self.media_type.clear();
    }
}

//! Where a body ends, and its bytes without the framing around them.

/// How the end of a body is known.
#[derive(Clone, Copy, Debug)]
pub(in crate::wire) enum Framing {
    /// Chunk after chunk, each with its size.
    Chunked(Chunked),
    /// So many bytes more.
    Counted {
        /// Bytes that are still to come.
        bytes_left: u64,
    },
    /// Until the peer closes.
    UntilClose,
}

/// Where in a chunked body the next byte stands.
#[derive(Clone, Copy, Debug)]
pub(in crate::wire) struct Chunked {
    place: Place,
    /// Size of the current chunk, or what is left of it.
    bytes_left: u64,
    /// Bytes of the current size line, or of all trailers.
    line_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Inside a chunk.
    Data,
    /// Behind a chunk: its line end.
    DataEnd,
    /// Behind a chunk's carriage return.
    DataEndLineFeed,
    /// Behind the last line.
    Done,
    /// Behind a size: extensions up to the line end.
    Extension,
    /// Before the first digit of a size.
    Size,
    /// Behind at least one digit of a size.
    SizeDigits,
    /// At the beginning of a trailer line.
    Trailer,
    /// Behind a carriage return at the beginning of a trailer line.
    TrailerEnd,
    /// Inside a trailer.
    TrailerText,
}

/// The next piece of a body.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::wire) enum Piece<'a> {
    /// Body bytes, at least one.
    Data(&'a [u8]),
    /// The body is whole.
    End,
    /// The body goes on, the bytes do not.
    Starved,
}

/// What is wrong with the framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::wire) enum FramingFault {
    /// A chunk's size is not hexadecimal, or its end is not where the size says.
    Malformed(&'static str),
    /// A size line or the trailers are longer than [`LINE_BYTES_MAX`].
    TooLong,
}

/// Longest size line with its extensions, and most bytes of all trailers.
pub(in crate::wire) const LINE_BYTES_MAX: usize = 16 * 1024;

/// Most digits of a size that is read in one go.
const ORDINARY_DIGITS_MAX: usize = 8;

/// What each byte is worth as a hexadecimal digit.
const VALUE_OF_DIGIT: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        let digit = b"0123456789abcdef"[value as usize];
        values[digit as usize] = value;
        values[digit.to_ascii_uppercase() as usize] = value;
        value += 1;
    }
    values
};
/// The worth of a byte that is none.
const NO_DIGIT: u8 = u8::MAX;

impl Framing {
    /// A chunked body at its start.
    pub(in crate::wire) const fn chunked() -> Self {
        Self::Chunked(Chunked { place: Place::Size, bytes_left: 0, line_bytes: 0 })
    }

    /// Takes the next piece off `bytes`; call until it says [`Piece::End`] or [`Piece::Starved`].
    #[inline]
    pub(in crate::wire) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Piece<'a>, FramingFault> {
        match self {
            Self::Chunked(chunked) => chunked.next(bytes),
            Self::Counted { bytes_left: 0 } => Ok(Piece::End),
            Self::Counted { bytes_left } => Ok(take(bytes, bytes_left)),
            Self::UntilClose => {
                let mut endless = u64::MAX;
                Ok(take(bytes, &mut endless))
            }
        }
    }

    /// Whether the length is known and nothing is left of it.
    pub(in crate::wire) const fn is_counted_out(&self) -> bool {
        matches!(self, Self::Counted { bytes_left: 0 })
    }
}

/// Takes at most `bytes_left` bytes.
fn take<'a>(bytes: &mut &'a [u8], bytes_left: &mut u64) -> Piece<'a> {
    if bytes.is_empty() {
        return Piece::Starved;
    }
    let count = usize::try_from(*bytes_left).map_or(bytes.len(), |left| left.min(bytes.len()));
    let (data, rest) = bytes.split_at(count);
    *bytes = rest;
    *bytes_left -= count as u64;
    Piece::Data(data)
}

impl Chunked {
    fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Piece<'a>, FramingFault> {
        self.pass_over_ordinary_line(bytes);
        loop {
            match self.place {
                Place::Done => return Ok(Piece::End),
                Place::Data => {
                    let piece = take(bytes, &mut self.bytes_left);
                    if self.bytes_left == 0 {
                        self.place = Place::DataEnd;
                    }
                    return Ok(piece);
                }
                Place::Extension | Place::TrailerText => {
                    let Some(end) = memchr::memchr(b'\n', bytes) else {
                        self.lengthen(bytes.len())?;
                        *bytes = &[];
                        return Ok(Piece::Starved);
                    };
                    self.lengthen(end)?;
                    *bytes = bytes.get(end + 1..).unwrap_or_default();
                    self.place = match self.place {
                        Place::Extension => self.size_read(),
                        _ => Place::Trailer,
                    };
                }
                Place::DataEnd
                | Place::DataEndLineFeed
                | Place::Size
                | Place::SizeDigits
                | Place::Trailer
                | Place::TrailerEnd => {
                    let Some((byte, rest)) = bytes.split_first() else { return Ok(Piece::Starved) };
                    self.place = self.step(*byte)?;
                    *bytes = rest;
                }
            }
        }
    }

    /// The data of the next chunk and what stands behind it, when its size line is an ordinary one and all of
    /// it is there. It is still to be taken, by [`Chunked::pass`].
    #[inline]
    pub(in crate::wire) fn whole<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let (size, rest) = self.ordinary_line(bytes)?;
        rest.split_at_checked(usize::try_from(size).ok()?)
    }

    /// A whole chunk was taken.
    #[inline]
    pub(in crate::wire) const fn pass(&mut self) {
        self.place = Place::DataEnd;
        self.bytes_left = 0;
    }

    /// Passes over what stands between two chunks of an ordinary stream, or behind the last one, when all of
    /// it is there. Anything else is left to [`Chunked::step`].
    #[inline]
    fn pass_over_ordinary_line(&mut self, bytes: &mut &[u8]) {
        if let Some((size, rest)) = self.ordinary_line(bytes) {
            *bytes = rest;
            self.bytes_left = size;
            self.place = Place::Data;
        } else if self.place == Place::DataEnd {
            if let Some(rest) = bytes.strip_prefix(b"\r\n0\r\n\r\n") {
                *bytes = rest;
                self.place = Place::Done;
            } else if *bytes == b"\r\n" {
                *bytes = &[];
                self.place = Place::Size;
            }
        }
    }

    /// The size of the next chunk and what stands behind its line: the end of the chunk before and a size
    /// without extensions that is not zero.
    #[expect(clippy::inline_always, reason = "it is most of what a chunk costs, and a call costs as much")]
    #[inline(always)]
    fn ordinary_line<'a>(&self, bytes: &'a [u8]) -> Option<(u64, &'a [u8])> {
        let line = match self.place {
            Place::DataEnd => bytes.strip_prefix(b"\r\n")?,
            Place::Size if self.bytes_left == 0 && self.line_bytes == 0 => bytes,
            _ => return None,
        };
        // Most chunks of a stream have a size of three digits.
        if let [high, middle, low, b'\r', b'\n', rest @ ..] = line {
            let [high, middle, low] = [high, middle, low].map(|digit| VALUE_OF_DIGIT[usize::from(*digit)]);
            let size = u64::from(high) << 8 | u64::from(middle) << 4 | u64::from(low);
            if high | middle | low < 16 && size > 0 {
                return Some((size, rest));
            }
        }
        let (mut size, mut digits) = (0, 0);
        loop {
            match VALUE_OF_DIGIT[usize::from(*line.get(digits)?)] {
                NO_DIGIT => break,
                value => size = size << 4 | u64::from(value),
            }
            digits += 1;
            if digits > ORDINARY_DIGITS_MAX {
                return None;
            }
        }
        if size == 0 {
            return None;
        }
        line.get(digits..)?.strip_prefix(b"\r\n").map(|rest| (size, rest))
    }

    /// Where the byte after `byte` stands.
    fn step(&mut self, byte: u8) -> Result<Place, FramingFault> {
        Ok(match (self.place, byte) {
            (Place::Size | Place::SizeDigits, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                if self.bytes_left >> 60 != 0 {
                    return Err(FramingFault::Malformed("a chunk's size is out of range"));
                }
                self.bytes_left = self.bytes_left << 4 | u64::from(digit);
                self.lengthen(1)?;
                Place::SizeDigits
            }
            (Place::SizeDigits, b'\n') => self.size_read(),
            (Place::SizeDigits, b'\r' | b';' | b' ' | b'\t') => Place::Extension,
            (Place::Size | Place::SizeDigits, _) => {
                return Err(FramingFault::Malformed("a chunk's size is not hexadecimal"));
            }
            (Place::DataEnd, b'\r') => Place::DataEndLineFeed,
            (Place::DataEnd | Place::DataEndLineFeed, b'\n') => Place::Size,
            (Place::DataEnd | Place::DataEndLineFeed, _) => {
                return Err(FramingFault::Malformed("a chunk is longer than its size"));
            }
            (Place::Trailer, b'\r') => Place::TrailerEnd,
            (Place::Trailer | Place::TrailerEnd, b'\n') => Place::Done,
            (place, _) => {
                self.lengthen(1)?;
                match place {
                    Place::Trailer | Place::TrailerEnd => Place::TrailerText,
                    place => place,
                }
            }
        })
    }

    fn lengthen(&mut self, bytes: usize) -> Result<(), FramingFault> {
        self.line_bytes += bytes;
        if self.line_bytes > LINE_BYTES_MAX { Err(FramingFault::TooLong) } else { Ok(()) }
    }

    /// What follows a size line.
    fn size_read(&mut self) -> Place {
        self.line_bytes = 0;
        if self.bytes_left == 0 { Place::Trailer } else { Place::Data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body, and what is left behind its end; absent when it has no end.
    fn decode(text: &str, cut: usize) -> Result<(String, Option<String>), FramingFault> {
        let mut framing = Framing::chunked();
        let mut body = Vec::new();
        let (left, right) = text.as_bytes().split_at(cut);
        for (mut bytes, behind) in [(left, right), (right, &[][..])] {
            loop {
                match framing.next(&mut bytes)? {
                    Piece::Data(data) => body.extend_from_slice(data),
                    Piece::Starved => break,
                    Piece::End => {
                        let rest = [bytes, behind].concat();
                        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                        return Ok((text(&body), Some(text(&rest))));
                    }
                }
            }
        }
        Ok((String::from_utf8_lossy(&body).into_owned(), None))
    }

    #[test]
    fn chunks_are_taken_apart_wherever_they_are_cut() {
        for (text, body, rest) in [
            ("5\r\nhello\r\n0\r\n\r\n", "hello", Some("")),
            ("5\r\nhello\r\n0\r\n\r\nmore", "hello", Some("more")),
            ("5;a=b;c=\"d\"\r\nhello\r\n1\r\n!\r\n0;z\r\n\r\n", "hello!", Some("")),
            ("00000005 \r\nhello\r\n000\r\n\r\n", "hello", Some("")),
            ("A\r\n0123456789\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\n", "0123456789", Some("")),
            ("5\nhello\n0\n\n", "hello", Some("")),
            ("5\r\nhel", "hel", None),
            ("5\r\nhello\r\n", "hello", None),
            ("0\r\n", "", None),
            ("0\r\n\r\n", "", Some("")),
        ] {
            for cut in 0..=text.len() {
                let expected = Ok((body.to_owned(), rest.map(str::to_owned)));
                assert_eq!(decode(text, cut), expected, "{text:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn wrong_sizes_are_faults_wherever_they_are_cut() {
        for text in
            ["x\r\n", "\r\n", "5\r\nhello!\r\n", "-5\r\nhello", "0x5\r\nhello", "11111111111111111\r\n"]
        {
            for cut in 0..=text.len() {
                assert!(
                    matches!(decode(text, cut), Err(FramingFault::Malformed(_))),
                    "{text:?} cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn endless_extensions_and_trailers_are_refused() {
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        for text in
            [format!("5;{long}"), format!("0\r\n{long}"), format!("0\r\n{}", "a: b\r\n".repeat(4_000))]
        {
            assert_eq!(decode(&text, text.len() / 2), Err(FramingFault::TooLong));
        }
        let zeros = "0".repeat(LINE_BYTES_MAX + 1);
        assert_eq!(decode(&zeros, 1), Err(FramingFault::TooLong));
    }
}

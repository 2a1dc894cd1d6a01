//! Request heads, rendered once and patched per request.

use crate::config::Url;
use crate::endpoint::{HeaderValue, Headers};

/// Hexadecimal digits as UUIDs write them.
const HEX: &[u8; 16] = b"0123456789abcdef";
/// Each byte as two of them.
const HEX_OF_BYTE: [[u8; 2]; 256] = {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < pairs.len() {
        pairs[byte] = [HEX[byte >> 4], HEX[byte & 0xf]];
        byte += 1;
    }
    pairs
};
/// Where the bytes of a UUID stand between its hyphens.
const BYTES_OF_UUID: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
/// The ports that are not written.
const PORT_OF_HTTP: u16 = 80;
const PORT_OF_HTTPS: u16 = 443;

/// The head of every request to one URL, with the places that vary.
#[derive(Clone, Debug)]
pub struct RequestTemplate {
    pieces: Box<[Piece]>,
}

/// A part of a head.
#[derive(Clone, Debug)]
enum Piece {
    /// The same in every request.
    Fixed(Box<[u8]>),
    /// The request's identifier.
    RequestId,
    /// The session's identifier.
    SessionId,
}

impl RequestTemplate {
    /// A head for `url` with these headers in their order, behind `Host` and before `Content-Length`, which
    /// are its own.
    ///
    /// Bytes of the URL that cannot stand in a head (controls, blanks, what is not ASCII) are
    /// percent-encoded; the headers have been checked by who made them.
    pub fn new(url: &Url, headers: &Headers) -> Self {
        let mut pieces = Vec::new();
        let mut fixed = b"POST ".to_vec();
        if !url.target.starts_with('/') {
            fixed.push(b'/');
        }
        write_encoded(&mut fixed, &url.target);
        fixed.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        let is_ipv6 = url.host.contains(':');
        if is_ipv6 {
            fixed.push(b'[');
        }
        write_encoded(&mut fixed, &url.host);
        if is_ipv6 {
            fixed.push(b']');
        }
        if url.port != if url.tls { PORT_OF_HTTPS } else { PORT_OF_HTTP } {
            fixed.push(b':');
            write_decimal(&mut fixed, url.port.into());
        }
        for (name, value) in headers {
            fixed.extend_from_slice(b"\r\n");
            fixed.extend_from_slice(name.as_bytes());
            fixed.extend_from_slice(b": ");
            let id = match value {
                HeaderValue::Fixed(value) => {
                    fixed.extend_from_slice(value.as_bytes());
                    continue;
                }
                HeaderValue::RequestId => Piece::RequestId,
                HeaderValue::SessionId => Piece::SessionId,
            };
            pieces.push(Piece::Fixed(std::mem::take(&mut fixed).into()));
            pieces.push(id);
        }
        fixed.extend_from_slice(b"\r\nContent-Length: ");
        pieces.push(Piece::Fixed(fixed.into()));
        Self { pieces: pieces.into() }
    }

    /// Appends the head of one request to `out`; ids are UUIDs as 128-bit numbers. Allocates nothing when
    /// `out` has room.
    pub fn render(&self, out: &mut Vec<u8>, request_id: u128, correlation_id: u128, body_bytes: usize) {
        for piece in &self.pieces {
            match piece {
                Piece::Fixed(bytes) => out.extend_from_slice(bytes),
                Piece::RequestId => write_uuid(out, request_id),
                Piece::SessionId => write_uuid(out, correlation_id),
            }
        }
        write_decimal(out, body_bytes as u64);
        out.extend_from_slice(b"\r\n\r\n");
    }
}

/// Fills `digits` with the last hexadecimal digits of `value`.
#[expect(clippy::cast_possible_truncation, reason = "digits are cut out on purpose")]
pub fn write_hex(digits: &mut [u8], value: u128) {
    for (place, digit) in digits.iter_mut().rev().enumerate() {
        let shift = u32::try_from(place * 4).unwrap_or(u32::MAX);
        *digit = HEX[usize::from(value.checked_shr(shift).unwrap_or(0) as u8 & 0xf)];
    }
}

/// Appends `id` as a UUID is written: 36 characters, lower-case, with hyphens.
pub fn write_uuid(out: &mut Vec<u8>, id: u128) {
    let mut text = [b'-'; 36];
    for (byte, place) in id.to_be_bytes().into_iter().zip(BYTES_OF_UUID) {
        [text[place], text[place + 1]] = HEX_OF_BYTE[usize::from(byte)];
    }
    out.extend_from_slice(&text);
}

/// A random (version 4) UUID from 128 random bits, six of which give way to version and variant.
pub const fn uuid_v4(random: u128) -> u128 {
    const VERSION: u128 = 0xf << 76;
    const VARIANT: u128 = 0b11 << 62;
    random & !(VERSION | VARIANT) | 4 << 76 | 0b10 << 62
}

fn write_decimal(out: &mut Vec<u8>, mut value: u64) {
    // The longest 64-bit number has 20 digits.
    let mut digits = [0; 20];
    let mut begin = digits.len();
    for place in digits.iter_mut().rev() {
        *place = HEX[(value % 10) as usize];
        begin -= 1;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(begin..).unwrap_or_default());
}

fn write_encoded(out: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_graphic() {
            out.push(byte);
        } else {
            let [high, low] =
                [byte >> 4, byte & 0xf].map(|digit| HEX[usize::from(digit)].to_ascii_uppercase());
            out.extend_from_slice(&[b'%', high, low]);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::endpoint::EndpointSettings;

    const REQUEST: u128 = 0x0123_4567_89ab_4cde_8f01_2345_6789_abcd;
    const CORRELATION: u128 = 0xffff_ffff_ffff_4fff_bfff_ffff_ffff_ffff;

    fn url(host: &str, port: u16, target: &str) -> Url {
        Url { host: host.to_owned(), port, target: target.to_owned(), ..Url::default() }
    }

    fn headers(streaming: bool) -> Headers {
        let settings =
            EndpointSettings { streaming, ..EndpointSettings::new(crate::endpoint::Dialect::chat(), "m") };
        settings.request_headers(&[]).unwrap()
    }

    fn head(url: &Url, streaming: bool, body_bytes: usize) -> String {
        let mut out = Vec::new();
        RequestTemplate::new(url, &headers(streaming)).render(&mut out, REQUEST, CORRELATION, body_bytes);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_streaming_head_is_aiperfs_byte_for_byte_but_for_the_agent() {
        let expected = concat!(
            "POST /v1/chat/completions HTTP/1.1\r\n",
            "Host: 127.0.0.1:8000\r\n",
            "User-Agent: phasor/",
            env!("CARGO_PKG_VERSION"),
            "\r\n",
            "X-Request-ID: 01234567-89ab-4cde-8f01-23456789abcd\r\n",
            "X-Correlation-ID: ffffffff-ffff-4fff-bfff-ffffffffffff\r\n",
            "Accept: text/event-stream\r\n",
            "Content-Type: application/json\r\n",
            "X-Session-Affinity: ffffffff-ffff-4fff-bfff-ffffffffffff\r\n",
            "Content-Length: 160\r\n\r\n",
        );
        assert_eq!(head(&url("127.0.0.1", 8000, "/v1/chat/completions"), true, 160), expected);
    }

    #[test]
    fn what_varies_stands_in_its_place() {
        let plain = head(&url("host", 80, "/a?b=c"), false, 0);
        assert!(plain.starts_with("POST /a?b=c HTTP/1.1\r\nHost: host\r\n"), "{plain}");
        assert!(plain.contains("\r\nAccept: application/json\r\n"), "{plain}");
        assert!(plain.ends_with("\r\nContent-Length: 0\r\n\r\n"), "{plain}");
        let ipv6 = head(&url("::1", 65_535, "/"), false, usize::MAX);
        assert!(ipv6.contains("\r\nHost: [::1]:65535\r\n"), "{ipv6}");
        assert!(ipv6.contains("\r\nContent-Length: 18446744073709551615\r\n"), "{ipv6}");
    }

    #[test]
    fn no_url_can_smuggle_a_header() {
        let head = head(&url("a\r\nX-Evil: 1", 80, "v1\r\n\r\nGET /x é"), false, 1);
        let lines: Vec<&str> = head.lines().collect();
        assert_eq!(lines[0], "POST /v1%0D%0A%0D%0AGET%20/x%20%C3%A9 HTTP/1.1");
        assert!(!lines.iter().any(|line| line.starts_with("X-Evil") || line.starts_with("GET")), "{head}");
    }

    #[test]
    fn a_random_uuid_has_its_version_and_variant_and_keeps_the_other_bits() {
        for random in [0, u128::MAX, REQUEST, 0x5a5a_5a5a_5a5a_5a5a_5a5a_5a5a_5a5a_5a5a] {
            let mut text = Vec::new();
            write_uuid(&mut text, uuid_v4(random));
            assert_eq!(text.len(), 36);
            assert_eq!(text[14], b'4');
            assert!(b"89ab".contains(&text[19]), "{text:?}");
            assert!((uuid_v4(random) ^ random).count_ones() <= 6);
        }
    }

    #[test]
    fn rendering_into_room_does_not_allocate() {
        let template = RequestTemplate::new(&url("host", 8000, "/v1"), &headers(true));
        let mut out = Vec::with_capacity(1_024);
        let before = out.as_ptr();
        for number in 0..100 {
            out.clear();
            template.render(&mut out, number, number, 5);
        }
        assert_eq!((before, out.capacity()), (out.as_ptr(), 1_024));
    }
}

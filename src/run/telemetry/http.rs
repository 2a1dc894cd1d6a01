//! One HTTP/1.1 GET at a time, for pages of metrics: bounded in time and size, over a plain blocking socket.
//!
//! It runs on threads that no request of the load waits for, so it may block. Redirects are not followed,
//! nothing is sent but GET, and TLS is not spoken. What the load sends goes through `wire` and the ring.

use crate::time::{Clock, Nanos, Stamp};
use flate2::read::MultiGzDecoder;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Largest page that is read, packed or not.
pub const PAGE_BYTES_MAX: usize = 16 << 20;

/// Longest head of an answer.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Most header fields of an answer.
const HEADERS_MAX: usize = 64;

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// Where a page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    host: String,
    port: u16,
    /// As in the `Host` header.
    authority: String,
    /// Path and query.
    path: String,
}

/// Why a page could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The address cannot be used.
    #[error("`{0}` is no address of an HTTP server: write http://host:port/path")]
    Address(String),
    /// The answer ended too early.
    #[error("the answer was cut off after {0} bytes")]
    Cut(usize),
    /// No connection.
    #[error("no connection: {0}")]
    Connect(io::Error),
    /// The body is packed in a way that is not known.
    #[error("the page is packed as `{0}`, which phasor did not ask for")]
    Encoding(String),
    /// The answer is not HTTP.
    #[error("the answer is not HTTP/1.1")]
    NotHttp,
    /// The page is not Prometheus text.
    #[error("the answer is not a page of metrics: {0}")]
    NotMetrics(String),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Read(io::Error),
    /// The host has no address.
    #[error("the host `{0}` has no address")]
    Resolve(String),
    /// Another status than 200.
    #[error("the answer has status {0}")]
    Status(u16),
    /// Too slow.
    #[error("no whole answer within {}s", .0.as_secs_f64())]
    Timeout(Nanos),
    /// TLS is not spoken here.
    #[error("https is not spoken for metrics: give an http address in `urls`")]
    Tls,
    /// Too large.
    #[error("the page is larger than {} MiB", PAGE_BYTES_MAX >> 20)]
    TooLarge,
}

/// A page with its times.
#[derive(Debug)]
pub struct Answer {
    /// The request was sent.
    pub sent: Stamp,
    /// The first byte of the answer was there.
    pub first_byte: Stamp,
    /// The last one was.
    pub ended: Stamp,
    /// The type of the content.
    pub content_type: Option<String>,
    /// The page, unpacked.
    pub body: Vec<u8>,
}

impl Target {
    /// Takes an address apart.
    ///
    /// # Errors
    /// It is not `http://host[:port][/path]`.
    pub fn parse(url: &str) -> Result<Self, FetchError> {
        let bad = || FetchError::Address(url.to_owned());
        let (scheme, rest) = url.split_once("://").ok_or_else(bad)?;
        if scheme.eq_ignore_ascii_case("https") {
            return Err(FetchError::Tls);
        }
        if !scheme.eq_ignore_ascii_case("http") || rest.contains(|c: char| c.is_control() || c == ' ') {
            return Err(bad());
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let bracketed = authority.strip_prefix('[').and_then(|inside| inside.split_once(']'));
        let (host, port) = match bracketed {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(80), |port| port.parse().map_err(|_| bad()))?;
        if host.is_empty() {
            return Err(bad());
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { host: host.to_owned(), port, authority: authority.to_owned(), path })
    }

    fn addresses(&self) -> Result<Vec<SocketAddr>, FetchError> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let mut found: Vec<SocketAddr> = found.map_err(|_| FetchError::Resolve(self.host.clone()))?.collect();
        // IPv4 first, as for the load.
        found.sort_by_key(SocketAddr::is_ipv6);
        if found.is_empty() { Err(FetchError::Resolve(self.host.clone())) } else { Ok(found) }
    }
}

/// Fetches one address again and again; keeps its connection where the server does.
#[derive(Debug)]
pub struct Client {
    target: Target,
    clock: Clock,
    addresses: Vec<SocketAddr>,
    connection: Option<TcpStream>,
}

impl Client {
    /// A client for `url`; nothing is opened yet.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn new(url: &str, clock: Clock) -> Result<Self, FetchError> {
        Ok(Self { target: Target::parse(url)?, clock, addresses: Vec::new(), connection: None })
    }

    /// Fetches the page within `limit`.
    ///
    /// # Errors
    /// There is no whole page with status 200 by then.
    pub fn fetch(&mut self, limit: Nanos) -> Result<Answer, FetchError> {
        let deadline = Deadline { at: self.clock.now().plus(limit), limit, clock: self.clock };
        if let Some(kept) = self.connection.take() {
            match self.exchange(kept, deadline) {
                // The server has closed the kept connection: nobody's fault.
                Err(FetchError::Cut(0) | FetchError::Read(_)) => {}
                other => return other,
            }
        }
        let connection = self.connect(deadline)?;
        self.exchange(connection, deadline)
    }

    fn connect(&mut self, deadline: Deadline) -> Result<TcpStream, FetchError> {
        if self.addresses.is_empty() {
            self.addresses = self.target.addresses()?;
        }
        let mut last = FetchError::Resolve(self.target.host.clone());
        for address in &self.addresses {
            match TcpStream::connect_timeout(address, deadline.left()?) {
                Ok(connection) => {
                    connection.set_nodelay(true).map_err(FetchError::Connect)?;
                    return Ok(connection);
                }
                Err(error) if is_timeout(&error) => last = FetchError::Timeout(deadline.limit),
                Err(error) => last = FetchError::Connect(error),
            }
        }
        Err(last)
    }

    fn exchange(&mut self, mut connection: TcpStream, deadline: Deadline) -> Result<Answer, FetchError> {
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: phasor/{}\r\nAccept: text/plain, \
             application/openmetrics-text\r\nAccept-Encoding: identity\r\n\r\n",
            self.target.path,
            self.target.authority,
            env!("CARGO_PKG_VERSION")
        );
        connection.set_write_timeout(Some(deadline.left()?)).map_err(FetchError::Read)?;
        let sent = self.clock.now();
        connection.write_all(request.as_bytes()).map_err(|error| deadline.fault(error))?;
        let mut reading = Reading::default();
        let mut first_byte = None;
        let mut piece = vec![0; READ_BYTES];
        loop {
            connection.set_read_timeout(Some(deadline.left()?)).map_err(FetchError::Read)?;
            let count = match connection.read(&mut piece) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(deadline.fault(error)),
            };
            if count > 0 {
                first_byte.get_or_insert_with(|| self.clock.now());
            }
            let bytes = piece.get(..count).unwrap_or_default();
            let done = if count == 0 { reading.end()? } else { reading.take(bytes)? };
            if let Some(page) = done {
                let ended = self.clock.now();
                if page.keep {
                    self.connection = Some(connection);
                }
                if page.status != 200 {
                    return Err(FetchError::Status(page.status));
                }
                let body = unpacked(page.body, page.encoding.as_deref())?;
                let first_byte = first_byte.unwrap_or(ended);
                return Ok(Answer { sent, first_byte, ended, content_type: page.content_type, body });
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Deadline {
    at: Stamp,
    limit: Nanos,
    clock: Clock,
}

impl Deadline {
    /// Time left, never zero (which a socket takes for "no limit").
    fn left(self) -> Result<Duration, FetchError> {
        match self.at.since(self.clock.now()) {
            Nanos::ZERO => Err(FetchError::Timeout(self.limit)),
            left => Ok(Duration::from(left).max(Duration::from_micros(1))),
        }
    }

    fn fault(self, error: io::Error) -> FetchError {
        if is_timeout(&error) { FetchError::Timeout(self.limit) } else { FetchError::Read(error) }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

/// An answer while it comes in.
#[derive(Debug, Default)]
struct Reading {
    bytes: Vec<u8>,
    head: Option<Head>,
    body: Vec<u8>,
    /// First byte that has not been taken into the body; of the chunked coding.
    at: usize,
}

#[derive(Clone, Debug)]
struct Head {
    status: u16,
    content_type: Option<String>,
    encoding: Option<String>,
    framing: Framing,
    keep: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Chunked,
    Length(usize),
    UntilClose,
}

/// A whole answer.
#[derive(Debug)]
struct Page {
    status: u16,
    content_type: Option<String>,
    encoding: Option<String>,
    keep: bool,
    body: Vec<u8>,
}

impl Reading {
    /// Takes bytes in; the page when it is whole.
    fn take(&mut self, bytes: &[u8]) -> Result<Option<Page>, FetchError> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > PAGE_BYTES_MAX + HEAD_BYTES_MAX {
            return Err(FetchError::TooLarge);
        }
        if self.head.is_none() {
            let Some((head, end)) = read_head(&self.bytes)? else { return Ok(None) };
            if let Framing::Length(length) = head.framing
                && length > PAGE_BYTES_MAX
            {
                return Err(FetchError::TooLarge);
            }
            self.head = Some(head);
            self.at = end;
        }
        let Some(framing) = self.head.as_ref().map(|head| head.framing) else { return Ok(None) };
        match framing {
            Framing::Length(length) => {
                let whole = self.bytes.get(self.at..self.at + length).map(<[u8]>::to_vec);
                Ok(whole.and_then(|body| self.page(body)))
            }
            Framing::Chunked if self.take_chunks()? => {
                let body = std::mem::take(&mut self.body);
                Ok(self.page(body))
            }
            Framing::Chunked | Framing::UntilClose => Ok(None),
        }
    }

    /// The connection has ended.
    fn end(&mut self) -> Result<Option<Page>, FetchError> {
        match &self.head {
            Some(Head { framing: Framing::UntilClose, .. }) => {
                let body = self.bytes.get(self.at..).unwrap_or_default().to_vec();
                Ok(self.page(body))
            }
            Some(_) | None => Err(FetchError::Cut(self.bytes.len())),
        }
    }

    fn page(&self, body: Vec<u8>) -> Option<Page> {
        let Head { status, content_type, encoding, framing, keep } = self.head.clone()?;
        let keep = keep && framing != Framing::UntilClose;
        Some(Page { status, content_type, encoding, keep, body })
    }

    /// Takes whole chunks into the body; tells whether the last one was there.
    fn take_chunks(&mut self) -> Result<bool, FetchError> {
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let Some(line) = memchr::memchr(b'\n', rest) else { return Ok(false) };
            let size = rest.get(..line).unwrap_or_default();
            let size = std::str::from_utf8(size).map_err(|_| FetchError::NotHttp)?;
            let size = size.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| FetchError::NotHttp)?;
            if size > PAGE_BYTES_MAX || self.body.len() + size > PAGE_BYTES_MAX {
                return Err(FetchError::TooLarge);
            }
            let start = line + 1;
            if size == 0 {
                // Trailers say nothing that is needed, but they must have come for the connection to be kept.
                let rest = rest.get(start..).unwrap_or_default();
                return Ok(rest.starts_with(b"\r\n") || memchr::memmem::find(rest, b"\r\n\r\n").is_some());
            }
            let Some(chunk) = rest.get(start..start + size + 2) else { return Ok(false) };
            self.body.extend_from_slice(chunk.get(..size).unwrap_or_default());
            self.at += start + size + 2;
        }
    }
}

/// The head and where it ends, when it is whole.
fn read_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, FetchError> {
    let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let end = match response.parse(bytes) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) if bytes.len() > HEAD_BYTES_MAX => return Err(FetchError::NotHttp),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(FetchError::NotHttp),
    };
    let text = |wanted: &str| {
        let field = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(wanted))?;
        Some(String::from_utf8_lossy(field.value).trim().to_owned())
    };
    let framing = match (text("transfer-encoding"), text("content-length")) {
        (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => Framing::Chunked,
        (Some(_), _) => return Err(FetchError::NotHttp),
        (None, Some(length)) => Framing::Length(length.parse().map_err(|_| FetchError::NotHttp)?),
        (None, None) => Framing::UntilClose,
    };
    let closes = text("connection").is_some_and(|value| value.to_ascii_lowercase().contains("close"));
    let head = Head {
        status: response.code.ok_or(FetchError::NotHttp)?,
        content_type: text("content-type"),
        encoding: text("content-encoding"),
        framing,
        keep: !closes && response.version == Some(1),
    };
    Ok(Some((head, end)))
}

/// Unpacks gzip, which some exporters send unasked.
fn unpacked(body: Vec<u8>, encoding: Option<&str>) -> Result<Vec<u8>, FetchError> {
    match encoding.map(str::to_ascii_lowercase).as_deref() {
        None | Some("" | "identity") => Ok(body),
        Some("gzip" | "x-gzip") => {
            let mut plain = Vec::new();
            let limit = u64::try_from(PAGE_BYTES_MAX).unwrap_or(u64::MAX) + 1;
            let read = MultiGzDecoder::new(body.as_slice()).take(limit).read_to_end(&mut plain);
            match read {
                Ok(_) if plain.len() > PAGE_BYTES_MAX => Err(FetchError::TooLarge),
                Ok(_) => Ok(plain),
                Err(_) => Err(FetchError::Cut(body.len())),
            }
        }
        Some(other) => Err(FetchError::Encoding(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(pieces: &[&[u8]]) -> Result<Option<Vec<u8>>, FetchError> {
        let mut reading = Reading::default();
        for piece in pieces {
            if let Some(page) = reading.take(piece)? {
                return Ok(Some(page.body));
            }
        }
        Ok(reading.end()?.map(|page| page.body))
    }

    #[test]
    fn an_address_is_taken_apart() {
        let target = Target::parse("http://me:pw@[::1]:9400/metrics?x=1").ok();
        let expected = Target {
            host: "::1".to_owned(),
            port: 9400,
            authority: "[::1]:9400".to_owned(),
            path: "/metrics?x=1".to_owned(),
        };
        assert_eq!(target, Some(expected));
        assert_eq!(
            Target::parse("http://h").ok().map(|target| (target.port, target.path)),
            Some((80, "/".to_owned()))
        );
        for wrong in ["h:1", "ftp://h", "http://", "http://h:port", "http://h /x"] {
            assert!(matches!(Target::parse(wrong), Err(FetchError::Address(_))), "{wrong}");
        }
        assert!(matches!(Target::parse("https://h"), Err(FetchError::Tls)));
    }

    #[test]
    fn a_body_is_read_by_length_in_chunks_or_to_the_end_however_it_is_cut() {
        let answers: [&[u8]; 3] = [
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na 1\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\na \r\n2\r\n1\n\r\n0\r\n\r\n",
            b"HTTP/1.0 200 OK\r\n\r\na 1\n",
        ];
        for answer in answers {
            for at in 0..answer.len() {
                let (left, right) = answer.split_at(at);
                let body = whole(&[left, right]).ok().flatten();
                assert_eq!(body.as_deref(), Some(b"a 1\n".as_slice()), "cut at {at}");
            }
        }
    }

    #[test]
    fn half_an_answer_is_no_answer() {
        let answers: [&[u8]; 3] = [
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na 1\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na \r\n2\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Le",
        ];
        for answer in answers {
            assert!(matches!(whole(&[answer]), Err(FetchError::Cut(_))));
        }
        assert!(matches!(whole(&[b"SSH-2.0\r\n\r\n"]), Err(FetchError::NotHttp)));
    }

    #[test]
    fn a_page_that_is_too_large_is_refused_before_it_is_read() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 52428800\r\n\r\n";
        assert!(matches!(whole(&[head]), Err(FetchError::TooLarge)));
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3200000\r\n";
        assert!(matches!(whole(&[head]), Err(FetchError::TooLarge)));
        let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let packed = io::copy(&mut io::repeat(b'a').take(50 << 20), &mut bomb).and_then(|_| bomb.finish());
        assert!(
            packed.is_ok_and(|packed| matches!(unpacked(packed, Some("gzip")), Err(FetchError::TooLarge)))
        );
    }
}

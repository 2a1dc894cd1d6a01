//! Endpoint addresses: what the user wrote into host, port and request target.
//!
//! It resolves no name and opens nothing.

use std::ffi::OsString;
use std::net::Ipv6Addr;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::config::meant::{EndpointKind, Url};

/// Longest address, in bytes: it becomes part of every request's head.
pub const URL_BYTES_MAX: usize = 2_048;

/// Longest path of a unix socket, in bytes: Linux has no room for more.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// What is shown in place of a user name and a password.
pub const HIDDEN: &str = "<redacted>";

/// The host that a server behind a unix socket is called by.
const SOCKET_HOST: &str = "localhost";

/// Schemes that may stand before a `:` without being taken for a host.
const OTHER_SCHEMES: &[&str] = &[
    "data",
    "file",
    "ftp",
    "ftps",
    "gopher",
    "javascript",
    "ldap",
    "ldaps",
    "mailto",
    "sftp",
    "ssh",
    "tel",
    "vbscript",
    "ws",
    "wss",
];

/// Why an address cannot be used; each message says what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// A blank or a control character.
    #[error("a blank or control character is in it: take it out, or write it as `%20`")]
    Blank,
    /// TLS over a unix socket.
    #[error("TLS is not spoken over a unix socket: write `unix:/path/to/server.sock`")]
    SecureSocket,
    /// What stands before `@` is not encoded as it must be.
    #[error(
        "user name and password: behind `%` two hexadecimal digits must stand; write `%25` for the sign itself"
    )]
    UserInfo,
    /// The path is none that a unix socket can have.
    #[error(
        "`{0}` is no path of a unix socket: write `unix:/path/to/server.sock`, absolute and of at most \
         {SOCKET_PATH_BYTES_MAX} bytes"
    )]
    Socket(String),
    /// A scheme that is not HTTP.
    #[error("the scheme `{0}` is not HTTP: write `http://host:port`")]
    Scheme(String),
    /// Nothing between `//` and the port or path.
    #[error("the host is missing: write `http://host:port`")]
    NoHost,
    /// The host is neither a name nor an address.
    #[error(
        "`{0}` is no host: write a name, an IPv4 address, or an IPv6 address in brackets, without a zone"
    )]
    Host(String),
    /// The port is no number in range.
    #[error("`{0}` is no port: write a number from 1 to 65535")]
    Port(String),
    /// Path or query has a character that HTTP does not allow there.
    #[error("`{0}` may not stand in a path or query: write it percent-encoded")]
    Target(char),
    /// Too long.
    #[error("it has {0} bytes, more than the {URL_BYTES_MAX} that an address may have")]
    TooLong(usize),
}

/// The path of an endpoint's dialect, for replies that are streams or whole.
pub const fn path_of(kind: EndpointKind, streaming: bool) -> &'static str {
    match kind {
        EndpointKind::HuggingfaceGenerate if streaming => "/generate_stream",
        EndpointKind::AudioTranscription => "/v1/audio/transcriptions",
        EndpointKind::Chat => "/v1/chat/completions",
        EndpointKind::ChatEmbeddings | EndpointKind::Embeddings | EndpointKind::NimEmbeddings => {
            "/v1/embeddings"
        }
        EndpointKind::CohereRankings => "/v2/rerank",
        EndpointKind::Completions => "/v1/completions",
        EndpointKind::HfTeiRankings => "/rerank",
        EndpointKind::HuggingfaceGenerate => "/generate",
        EndpointKind::ImageEdit => "/v1/images/edits",
        EndpointKind::ImageGeneration => "/v1/images/generations",
        EndpointKind::ImageRetrieval => "/v1/infer",
        EndpointKind::Messages => "/v1/messages",
        EndpointKind::NimRankings => "/v1/ranking",
        EndpointKind::Responses => "/v1/responses",
        EndpointKind::SolidoRag => "/rag/api/prompt",
        EndpointKind::VideoGeneration => "/v1/videos",
        // The address is the whole of it.
        EndpointKind::Raw | EndpointKind::Template => "",
    }
}

/// Takes `text` apart and appends `own_path`, the dialect's or the one in its place.
///
/// # Errors
/// The first rule of [`UrlError`] that it breaks.
pub fn parse(text: &str, own_path: &str) -> Result<Url, UrlError> {
    if text.len() > URL_BYTES_MAX {
        return Err(UrlError::TooLong(text.len()));
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(UrlError::Blank);
    }
    if let Some((socket, tail)) = on_socket(text)? {
        let target = target(http_tail(tail)?, own_path);
        let (text, host) = (text.to_owned(), SOCKET_HOST.to_owned());
        return Ok(Url { text, host, port: 80, target, socket: Some(socket), ..Url::default() });
    }
    let text = if text.contains("://") { text.to_owned() } else { with_scheme(text)? };
    let (scheme, rest) = text.split_once("://").unwrap_or(("", &text));
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "http" => false,
        "https" => true,
        other => return Err(UrlError::Scheme(other.to_owned())),
    };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at_checked(authority_end).unwrap_or((rest, ""));
    let (user_info, authority) = match authority.rsplit_once('@') {
        // As with AIPerf, nothing before and behind the colon is nobody.
        Some(("" | ":", authority)) => (None, authority),
        Some((user_info, authority)) => {
            percent_decoded(user_info).ok_or(UrlError::UserInfo)?;
            (Some(user_info.to_owned()), authority)
        }
        None => (None, authority),
    };
    let text = without_user_info(&text);
    let (host, port) = host_and_port(authority)?;
    let port = port.unwrap_or(if tls { 443 } else { 80 });
    let target = target(http_tail(tail)?, own_path);
    Ok(Url { text, host, port, target, tls, user_info, socket: None })
}

/// The address with [`HIDDEN`] in place of a user name and a password.
pub fn without_user_info(text: &str) -> String {
    let begin = text.find("://").map_or(0, |scheme_end| scheme_end + 3);
    let (scheme, rest) = text.split_at_checked(begin).unwrap_or(("", text));
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest.get(..authority_end).and_then(|authority| authority.rfind('@')) {
        Some(at) => format!("{scheme}{HIDDEN}{}", rest.get(at..).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Path and query without what never leaves the client: `#` and all behind it.
fn http_tail(tail: &str) -> Result<&str, UrlError> {
    let tail = tail.split('#').next().unwrap_or_default();
    match tail.chars().find(|c| !c.is_ascii_graphic()) {
        Some(bad) => Err(UrlError::Target(bad)),
        None => Ok(tail),
    }
}

/// The path of the unix socket that `text` names, and what stands behind it; absent when it names a host.
///
/// Two spellings: `unix:/path`, with `:/base/path` behind it if there is one, and `http+unix://%2Fpath/base`.
/// Both are percent-decoded.
fn on_socket(text: &str) -> Result<Option<(PathBuf, &str)>, UrlError> {
    let behind = |scheme: &str| {
        let begin = text.get(..scheme.len())?;
        begin.eq_ignore_ascii_case(scheme).then(|| text.get(scheme.len()..).unwrap_or_default())
    };
    if behind("https+unix://").is_some() {
        return Err(UrlError::SecureSocket);
    }
    let (path, tail) = if let Some(rest) = behind("http+unix://") {
        rest.split_at_checked(rest.find(['/', '?', '#']).unwrap_or(rest.len())).unwrap_or((rest, ""))
    } else if let Some(rest) = behind("unix:").filter(|rest| rest.starts_with('/')) {
        // An empty host may stand in front of the path.
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        rest.find(":/").and_then(|end| Some((rest.get(..end)?, rest.get(end + 1..)?))).unwrap_or((rest, ""))
    } else {
        return Ok(None);
    };
    let decoded = percent_decoded(path).filter(|bytes| {
        bytes.starts_with(b"/")
            && !bytes.ends_with(b"/")
            && !bytes.contains(&0)
            && bytes.len() <= SOCKET_PATH_BYTES_MAX
    });
    match decoded {
        Some(bytes) => Ok(Some((PathBuf::from(OsString::from_vec(bytes)), tail))),
        None => Err(UrlError::Socket(path.to_owned())),
    }
}

/// The bytes that `text` stands for; absent where a `%` has no two digits behind it.
pub fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    Some(bytes)
}

fn with_scheme(text: &str) -> Result<String, UrlError> {
    match text.split_once(':') {
        Some((scheme, _)) if OTHER_SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()) => {
            Err(UrlError::Scheme(scheme.to_owned()))
        }
        Some(_) | None => Ok(format!("http://{text}")),
    }
}

fn host_and_port(authority: &str) -> Result<(String, Option<u16>), UrlError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) =
                bracketed.split_once(']').ok_or_else(|| UrlError::Host(authority.to_owned()))?;
            host.parse::<Ipv6Addr>().map_err(|_| UrlError::Host(host.to_owned()))?;
            match rest.strip_prefix(':') {
                Some(port) => (host, port),
                None if rest.is_empty() => (host, ""),
                None => return Err(UrlError::Host(authority.to_owned())),
            }
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    if host.is_empty() {
        return Err(UrlError::NoHost);
    }
    let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if !authority.starts_with('[') && !host.chars().all(named) {
        return Err(UrlError::Host(host.to_owned()));
    }
    let port = match port {
        "" => None,
        port if !port.bytes().all(|byte| byte.is_ascii_digit()) => {
            return Err(UrlError::Port(port.to_owned()));
        }
        port => Some(
            port.parse::<u16>()
                .ok()
                .filter(|number| *number > 0)
                .ok_or_else(|| UrlError::Port(port.to_owned()))?,
        ),
    };
    Ok((host.to_owned(), port))
}

/// Path and query of an address with the dialect's path appended, but not doubled.
fn target(tail: &str, appended: &str) -> String {
    let (path, query) = match tail.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (tail, None),
    };
    let path = path.trim_end_matches('/');
    let mut target = if path.ends_with(appended) {
        path.to_owned()
    } else if path.ends_with("/v1") {
        format!("{path}{}", appended.strip_prefix("/v1").unwrap_or(appended))
    } else {
        format!("{path}{appended}")
    };
    if target.is_empty() {
        target.push('/');
    }
    if let Some(query) = query {
        target.push('?');
        target.push_str(query);
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(text: &str) -> Result<Url, UrlError> {
        parse(text, path_of(EndpointKind::Chat, true))
    }

    #[test]
    fn the_path_is_appended_but_not_doubled() {
        for (text, target) in [
            ("http://h:1", "/v1/chat/completions"),
            ("http://h:1/", "/v1/chat/completions"),
            ("http://h:1/v1", "/v1/chat/completions"),
            ("http://h:1/v1/", "/v1/chat/completions"),
            ("http://h:1/v1/chat/completions", "/v1/chat/completions"),
            ("h:1/base", "/base/v1/chat/completions"),
            ("http://h:1/base?k=v#f", "/base/v1/chat/completions?k=v"),
            ("http://h:1?k=v", "/v1/chat/completions?k=v"),
            ("http://h:1/openai/v1", "/openai/v1/chat/completions"),
        ] {
            assert_eq!(chat(text).map(|url| url.target).as_deref(), Ok(target), "{text}");
        }
    }

    #[test]
    fn host_and_port_are_taken_apart() {
        for (text, host, port) in [
            ("http://127.0.0.1:9100", "127.0.0.1", 9_100),
            ("localhost:9100/v1", "localhost", 9_100),
            ("myhost", "myhost", 80),
            ("HTTP://Host:81", "Host", 81),
            ("http://[::1]:8000/v1", "::1", 8_000),
            ("http://[fe80::2]", "fe80::2", 80),
        ] {
            let url = chat(text).map(|url| (url.host, url.port));
            assert_eq!(url, Ok((host.to_owned(), port)), "{text}");
        }
        let url = chat("https://u:p@h/base").unwrap_or_default();
        assert_eq!((url.tls, url.port, url.user_info.as_deref()), (true, 443, Some("u:p")));
        assert_eq!(url.text, "https://<redacted>@h/base");
        assert_eq!(chat("u:p@x@h:1").map(|url| url.text).as_deref(), Ok("http://<redacted>@h:1"));
        assert_eq!(chat("http://:@h").map(|url| url.user_info), Ok(None));
        assert_eq!(chat("http://u:%4@h"), Err(UrlError::UserInfo));
        assert_eq!(chat("myhost").map(|url| url.text).as_deref(), Ok("http://myhost"));
    }

    #[test]
    fn a_unix_socket_has_a_path_and_perhaps_a_base_path() {
        for (text, socket, target) in [
            ("unix:/run/s.sock", "/run/s.sock", "/v1/chat/completions"),
            ("unix:///run/s.sock", "/run/s.sock", "/v1/chat/completions"),
            ("UNIX:/run/a:b%20%25", "/run/a:b %", "/v1/chat/completions"),
            ("unix:/run/s.sock:/base/v1?k=v#f", "/run/s.sock", "/base/v1/chat/completions?k=v"),
            ("http+unix://%2Frun%2Fs.sock", "/run/s.sock", "/v1/chat/completions"),
            ("http+unix://%2frun%2fs.sock/base?k=v", "/run/s.sock", "/base/v1/chat/completions?k=v"),
        ] {
            let url = chat(text).unwrap_or_default();
            assert_eq!((url.socket.as_deref(), &*url.target), (Some(socket.as_ref()), target), "{text}");
            assert_eq!((&*url.text, &*url.host, url.port, url.tls), (text, "localhost", 80, false), "{text}");
        }
        let long = format!("/{}", "a".repeat(107));
        for (text, path) in [
            ("unix:///", "/"),
            ("unix://run/s.sock", "run/s.sock"),
            ("http+unix://", ""),
            ("http+unix://run.sock/v1", "run.sock"),
            ("http+unix://%2Frun%2Fs%2", "%2Frun%2Fs%2"),
            ("unix:/run/%00", "/run/%00"),
            (&*format!("unix:{long}"), &*long),
        ] {
            assert_eq!(chat(text), Err(UrlError::Socket(path.to_owned())), "{text}");
        }
        assert_eq!(chat("https+unix://%2Frun"), Err(UrlError::SecureSocket));
        // A host may be called so.
        assert_eq!(chat("unix:80").map(|url| (url.host, url.socket)), Ok(("unix".to_owned(), None)));
    }

    #[test]
    fn what_is_no_address_is_refused_with_its_reason() {
        for (text, error) in [
            ("http://h:1 ", UrlError::Blank),
            ("http://h:1/a\r\nX: y", UrlError::Blank),
            ("ftp://h/x", UrlError::Scheme("ftp".to_owned())),
            ("javascript:alert", UrlError::Scheme("javascript".to_owned())),
            ("http://:9100", UrlError::NoHost),
            ("http://", UrlError::NoHost),
            ("", UrlError::NoHost),
            ("http://h:0", UrlError::Port("0".to_owned())),
            ("http://h:99999", UrlError::Port("99999".to_owned())),
            ("http://h:+80", UrlError::Port("+80".to_owned())),
            ("http://[::1", UrlError::Host("[::1".to_owned())),
            ("http://[x]:1", UrlError::Host("x".to_owned())),
            ("http://h,i:1", UrlError::Host("h,i".to_owned())),
            ("http://[fe80::1%lo]:1", UrlError::Host("fe80::1%lo".to_owned())),
            ("http://[fe80::1%25lo]", UrlError::Host("fe80::1%25lo".to_owned())),
            ("http://h/ü", UrlError::Target('ü')),
        ] {
            assert_eq!(chat(text), Err(error), "{text}");
        }
        assert_eq!(chat(&"a".repeat(3_000)), Err(UrlError::TooLong(3_000)));
    }
}

//! A failed request in AIPerf's words (spec/runtime 19, spec/artifacts 7).
//!
//! AIPerf writes Python exceptions in their printed form; existing tools match on those texts, so they are
//! rebuilt here from what the engine knows. Building one allocates: only requests that failed pay for it.

use crate::time::Nanos;
use crate::wire::Fault;
use crate::wire::tls::TlsFault;
use std::fmt::Write;
use std::path::Path;

/// Why a request failed: the members of an error record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Failure {
    /// HTTP status or AIPerf's own code; absent for client-side errors.
    pub code: Option<u16>,
    /// AIPerf's name of the kind: `ClientConnectorError`, a reason phrase, ...
    pub kind: String,
    /// The text, at most [`MESSAGE_BYTES_MAX`] bytes.
    pub message: String,
    /// Text of the cause.
    pub cause: Option<String>,
    /// Exception names, outermost first.
    pub cause_chain: Vec<String>,
}

/// Longest message kept.
pub const MESSAGE_BYTES_MAX: usize = 4_096;

/// How servers say that a request is too long for the model; letter case does not matter.
const CONTEXT_OVERFLOW: [&str; 5] = [
    "context_length_exceeded",
    "context length",
    "context window",
    "maximum model length",
    "prompt is too long",
];

/// Error numbers of Linux that are told apart here (no libc on this floor).
mod errno {
    pub(super) const ACCESS_DENIED: i32 = 13;
    pub(super) const NOT_PERMITTED: i32 = 1;
    pub(super) const NO_ENTRY: i32 = 2;
    pub(super) const FILE_TABLE_FULL: i32 = 23;
    pub(super) const TOO_MANY_FILES: i32 = 24;
    pub(super) const BROKEN_PIPE: i32 = 32;
    pub(super) const ADDRESS_NOT_AVAILABLE: i32 = 99;
    pub(super) const CONNECTION_ABORTED: i32 = 103;
    pub(super) const CONNECTION_RESET: i32 = 104;
    pub(super) const NO_BUFFERS: i32 = 105;
    pub(super) const TIMED_OUT: i32 = 110;
    pub(super) const CONNECTION_REFUSED: i32 = 111;
    pub(super) const NO_MEMORY: i32 = 12;
}

/// Kind of the failures that are the client's own.
const CLIENT_SOCKET: &str = "ClientSocketError";

/// The limits of the client's machine, by error number and name.
const CLIENT_LIMITS: [(i32, &str); 5] = [
    (errno::ADDRESS_NOT_AVAILABLE, "EADDRNOTAVAIL"),
    (errno::FILE_TABLE_FULL, "ENFILE"),
    (errno::NO_BUFFERS, "ENOBUFS"),
    (errno::NO_MEMORY, "ENOMEM"),
    (errno::TOO_MANY_FILES, "EMFILE"),
];

impl Failure {
    /// Whether the server refused the request because prompt and reply do not fit its model.
    pub fn is_context_overflow(&self) -> bool {
        let holds = |words: &str| {
            self.message
                .as_bytes()
                .windows(words.len())
                .any(|part| part.eq_ignore_ascii_case(words.as_bytes()))
        };
        CONTEXT_OVERFLOW.iter().any(|words| holds(words))
    }

    /// Cancelled by the plan, `delay` after its last byte was written. The record itself says
    /// [`crate::measure::Outcome::Cancelled`]; this is how files show it.
    pub fn cancelled(delay: Nanos) -> Self {
        let message = format!("Request cancelled {:.3}s after being sent", delay.as_secs_f64());
        Self::plain(Some(499), "RequestCancellationError", message)
    }

    /// Connecting failed with the operating system's `errno`.
    pub fn connect(host: &str, port: u16, errno: i32) -> Self {
        Self::connect_keyed(host, port, errno, &key_text(host, port, "False"))
    }

    /// As [`Failure::connect`], to a port that TLS was to be spoken with.
    pub fn connect_tls(host: &str, port: u16, errno: i32) -> Self {
        Self::connect_keyed(host, port, errno, &key_text(host, port, "True"))
    }

    /// As [`Failure::connect`], to the unix socket at `path`.
    pub fn connect_unix(path: &Path, errno: i32) -> Self {
        let exception = exception_of(errno);
        let text = python_text(&system_text(errno));
        let cause = format!("{exception}({errno}, {text}): {}", python_text(&path.to_string_lossy()));
        Self::connector("UnixClientConnectorError", exception, cause, &key_text("localhost", 80, "False"))
    }

    fn connect_keyed(host: &str, port: u16, errno: i32, key: &str) -> Self {
        let call = python_text(&format!("Connect call failed ({}, {port})", python_text(host)));
        let exception = exception_of(errno);
        let cause = format!("{exception}({errno}, {call})");
        Self::connector("ClientConnectorError", exception, cause, key)
    }

    /// The socket was connected and TLS did not come about.
    pub fn tls_refused(host: &str, port: u16, fault: &TlsFault) -> Self {
        let (kind, exception, symbol) = if fault.is_certificate() {
            (
                "ClientConnectorCertificateError",
                "SSLCertVerificationError",
                "[SSL: CERTIFICATE_VERIFY_FAILED] ",
            )
        } else {
            ("ClientConnectorSSLError", "SSLError", "")
        };
        let cause = format!("{exception}(1, {})", python_text(&format!("{symbol}{fault}")));
        Self::connector(kind, exception, cause, &key_text(host, port, "True"))
    }

    /// A connection that spoke TLS broke: phasor's own names, so that a cut reply is no other failure.
    pub fn tls_broken(fault: &TlsFault) -> Self {
        let kind = match fault {
            TlsFault::Truncated => "TlsTruncatedError",
            TlsFault::Alert { .. }
            | TlsFault::Broken { .. }
            | TlsFault::Certificate { .. }
            | TlsFault::Closed
            | TlsFault::Expired { .. }
            | TlsFault::Incompatible { .. }
            | TlsFault::NotTls { .. }
            | TlsFault::NotYetValid { .. }
            | TlsFault::UnknownIssuer
            | TlsFault::WrongName { .. } => "TlsError",
        };
        Self::exception(None, kind, &fault.to_string())
    }

    /// No connection came about; `cause` is the printed form of the exception underneath.
    fn connector(kind: &str, exception: &str, cause: String, key: &str) -> Self {
        Self {
            code: None,
            kind: kind.to_owned(),
            message: cut(format!("{kind}({key}, {cause})")),
            cause: Some(cause),
            cause_chain: vec![kind.to_owned(), exception.to_owned()],
        }
    }

    /// An established connection failed with `errno`; `started` tells whether a 2xx head had been read.
    pub fn reset(errno: i32, started: bool) -> Self {
        let exception = exception_of(errno);
        let cause = format!("{exception}({errno}, {})", python_text(&system_text(errno)));
        if started {
            return Self::incomplete_payload(Some(&cause));
        }
        let message = format!("ClientOSError({errno}, {})", python_text(&system_text(errno)));
        Self {
            code: None,
            kind: "ClientOSError".to_owned(),
            message: cut(message),
            cause: Some(cause),
            cause_chain: vec!["ClientOSError".to_owned(), exception.to_owned()],
        }
    }

    /// The request was older than the endpoint's timeout.
    pub fn timeout() -> Self {
        Self {
            code: None,
            kind: "TimeoutError".to_owned(),
            message: "TimeoutError()".to_owned(),
            cause: Some("CancelledError()".to_owned()),
            cause_chain: vec!["TimeoutError".to_owned(), "CancelledError".to_owned()],
        }
    }

    /// No socket could be made (EMFILE and the like): the client's own fault.
    pub fn client_socket(errno: i32) -> Self {
        let cure = match errno {
            errno::TOO_MANY_FILES => {
                "the process may not open more files: raise the limit with `ulimit -n` or lower the concurrency"
            }
            errno::FILE_TABLE_FULL => {
                "the machine may not open more files: raise the sysctl fs.file-max or lower the concurrency"
            }
            errno::ADDRESS_NOT_AVAILABLE => {
                "no local port is free: add source addresses with --source-ip or widen the sysctl \
                 net.ipv4.ip_local_port_range"
            }
            errno::NO_BUFFERS | errno::NO_MEMORY => {
                "the kernel has no memory left for sockets: raise net.ipv4.tcp_mem or lower the concurrency"
            }
            errno::ACCESS_DENIED | errno::NOT_PERMITTED => {
                "this user may not open the socket: check firewall and sandbox rules"
            }
            _ => "check the limits of this machine",
        };
        let message = format!("{CLIENT_SOCKET}({errno}, {}): {cure}", python_text(&system_text(errno)));
        let name = CLIENT_LIMITS.iter().find(|(known, _)| *known == errno).map_or("other", |(_, name)| name);
        Self {
            cause_chain: vec![CLIENT_SOCKET.to_owned(), name.to_owned()],
            ..Self::plain(None, CLIENT_SOCKET, message)
        }
    }

    /// Whether `errno` says that the client's machine has run out of ports, descriptors or memory.
    pub fn is_client_limit(errno: i32) -> bool {
        CLIENT_LIMITS.iter().any(|(known, _)| *known == errno)
    }

    /// Name of the limit (`EADDRNOTAVAIL`, `EMFILE`, ..., `other`) if the failure is the client's own.
    pub fn client_error(&self) -> Option<&str> {
        if self.kind == CLIENT_SOCKET { self.cause_chain.get(1).map(String::as_str) } else { None }
    }

    fn plain(code: Option<u16>, kind: &str, message: String) -> Self {
        Self { code, kind: kind.to_owned(), message: cut(message), cause: None, cause_chain: Vec::new() }
    }

    /// An exception without a cause: its printed form is the message, its name the whole chain.
    fn exception(code: Option<u16>, kind: &str, text: &str) -> Self {
        let message = format!("{kind}({})", python_text(text));
        Self {
            code,
            kind: kind.to_owned(),
            message: cut(message),
            cause: None,
            cause_chain: vec![kind.to_owned()],
        }
    }

    /// The body ended too early; `connection` is the printed form of the connection's own error.
    fn incomplete_payload(connection: Option<&str>) -> Self {
        let cause =
            "<TransferEncodingError: 400, message='Not enough data to satisfy transfer length header.'>";
        let mut text = format!("Response payload is not completed: {cause}");
        if let Some(connection) = connection {
            // Writing to a String cannot fail.
            let _ = write!(text, ". {connection}");
        }
        Self {
            code: None,
            kind: "ClientPayloadError".to_owned(),
            message: cut(format!("ClientPayloadError({})", python_text(&text))),
            cause: Some(cause.to_owned()),
            cause_chain: vec!["ClientPayloadError".to_owned(), "TransferEncodingError".to_owned()],
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Disconnected => Self::exception(None, "ServerDisconnectedError", "Server disconnected"),
            Fault::JsonArray => {
                Self::exception(None, "AttributeError", "'list' object has no attribute 'get'")
            }
            Fault::JsonScalar { type_name } => Self::exception(
                None,
                "AttributeError",
                &format!("'{type_name}' object has no attribute 'get'"),
            ),
            Fault::NoContent { any_message } => {
                let text = if any_message {
                    "Invalid inference result: No responses with actual content were received from the server \
                     (only usage/metadata, null/empty data, or [DONE] markers)"
                } else {
                    "Invalid inference result: No responses were received"
                };
                Self::exception(None, "InvalidInferenceResultError", text)
            }
            Fault::NotHttp { detail } => Self::exception(None, "ClientResponseError", &detail),
            Fault::SseError { message } => Self::exception(
                Some(502),
                "SSEResponseError",
                &format!("Error occurred in SSE response: {message}"),
            ),
            Fault::Status { status, reason, body } => Self::plain(Some(status), &reason, body),
            Fault::TooLarge { what, limit_bytes } => Self::exception(
                None,
                "ResponseTooLargeError",
                &format!("The {what} of the reply is larger than {limit_bytes} bytes"),
            ),
            Fault::Truncated => Self::incomplete_payload(None),
        }
    }
}

/// A host as aiohttp prints it.
fn key_text(host: &str, port: u16, is_ssl: &str) -> String {
    let host = python_text(host);
    format!(
        "ConnectionKey(host={host}, port={port}, is_ssl={is_ssl}, ssl=True, proxy=None, proxy_auth=None, \
         proxy_headers_hash=None)"
    )
}

/// The Python exception class of an error number.
fn exception_of(errno: i32) -> &'static str {
    match errno {
        errno::ACCESS_DENIED | errno::NOT_PERMITTED => "PermissionError",
        errno::BROKEN_PIPE => "BrokenPipeError",
        errno::CONNECTION_ABORTED => "ConnectionAbortedError",
        errno::CONNECTION_REFUSED => "ConnectionRefusedError",
        errno::CONNECTION_RESET => "ConnectionResetError",
        errno::NO_ENTRY => "FileNotFoundError",
        errno::TIMED_OUT => "TimeoutError",
        _ => "OSError",
    }
}

/// The operating system's words for an error number.
fn system_text(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    match text.rsplit_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

/// A text as Python prints it: quoted, with the quote that needs no escape where there is one.
fn python_text(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut printed = String::with_capacity(text.len() + 2);
    printed.push(quote);
    for character in text.chars() {
        match character {
            '\\' => printed.push_str("\\\\"),
            '\n' => printed.push_str("\\n"),
            '\r' => printed.push_str("\\r"),
            '\t' => printed.push_str("\\t"),
            other if other == quote => {
                printed.push('\\');
                printed.push(other);
            }
            other if other.is_control() => {
                // Writing to a String cannot fail.
                let _ = write!(printed, "\\x{:02x}", u32::from(other));
            }
            other => printed.push(other),
        }
    }
    printed.push(quote);
    printed
}

/// Cuts a message at the longest length kept, between characters.
fn cut(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        let mut end = MESSAGE_BYTES_MAX;
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_connection_reads_as_the_reference_prints_it() {
        let failure = Failure::connect("127.0.0.1", 1, 111);
        assert_eq!(
            failure.message,
            "ClientConnectorError(ConnectionKey(host='127.0.0.1', port=1, is_ssl=False, ssl=True, proxy=None, \
             proxy_auth=None, proxy_headers_hash=None), ConnectionRefusedError(111, \"Connect call failed \
             ('127.0.0.1', 1)\"))"
        );
        assert_eq!(
            failure.cause.as_deref(),
            Some("ConnectionRefusedError(111, \"Connect call failed ('127.0.0.1', 1)\")")
        );
        assert_eq!(failure.cause_chain, ["ClientConnectorError", "ConnectionRefusedError"]);
        assert_eq!(failure.code, None);
    }

    #[test]
    fn what_tls_refuses_has_the_names_that_the_reference_gives_it() {
        let refused = Failure::tls_refused("h", 443, &TlsFault::UnknownIssuer);
        assert_eq!(refused.kind, "ClientConnectorCertificateError");
        assert_eq!(refused.cause_chain, ["ClientConnectorCertificateError", "SSLCertVerificationError"]);
        assert!(
            refused.message.starts_with(
                "ClientConnectorCertificateError(ConnectionKey(host='h', port=443, is_ssl=True, "
            ),
            "{}",
            refused.message
        );
        assert!(refused.message.contains("SSLCertVerificationError(1, \"[SSL: CERTIFICATE_VERIFY_FAILED] "));
        let plain = Failure::tls_refused("h", 443, &TlsFault::NotTls { http: true });
        assert_eq!(plain.kind, "ClientConnectorSSLError");
        assert!(plain.message.contains("write `http://` in place of `https://`"), "{}", plain.message);
        let cut = Failure::tls_broken(&TlsFault::Truncated);
        assert_ne!(cut.kind, Failure::from(Fault::Truncated).kind);
        assert!(cut.message.starts_with("TlsTruncatedError("), "{}", cut.message);
        let unreachable = Failure::connect_tls("h", 443, errno::CONNECTION_REFUSED);
        assert!(unreachable.message.contains("is_ssl=True"), "{}", unreachable.message);
    }

    #[test]
    fn a_reset_before_the_head_and_one_inside_the_body_differ_in_kind() {
        let before = Failure::reset(104, false);
        assert_eq!(before.message, "ClientOSError(104, 'Connection reset by peer')");
        assert_eq!(before.kind, "ClientOSError");
        let inside = Failure::reset(104, true);
        assert_eq!(inside.kind, "ClientPayloadError");
        assert!(inside.message.contains("ConnectionResetError(104, 'Connection reset by peer')"));
    }

    #[test]
    fn faults_of_a_reply_carry_the_texts_of_the_golden_run() {
        let truncated = Failure::from(Fault::Truncated);
        assert_eq!(
            truncated.message,
            "ClientPayloadError(\"Response payload is not completed: <TransferEncodingError: 400, \
             message='Not enough data to satisfy transfer length header.'>\")"
        );
        let empty = Failure::from(Fault::NoContent { any_message: true });
        assert_eq!(
            empty.message,
            "InvalidInferenceResultError('Invalid inference result: No responses with actual content were \
             received from the server (only usage/metadata, null/empty data, or [DONE] markers)')"
        );
        assert_eq!(empty.cause_chain, ["InvalidInferenceResultError"]);
        let array = Failure::from(Fault::JsonArray);
        assert_eq!(array.message, "AttributeError(\"'list' object has no attribute 'get'\")");
        let event = Failure::from(Fault::SseError { message: "it's \"bad\"\n".to_owned() });
        assert_eq!(event.code, Some(502));
        assert_eq!(event.message, "SSEResponseError('Error occurred in SSE response: it\\'s \"bad\"\\n')");
        let status = Failure::from(Fault::Status {
            status: 429,
            reason: "Too Many Requests".to_owned(),
            body: "{\"error\": 1}".to_owned(),
        });
        assert_eq!((status.code, status.kind.as_str()), (Some(429), "Too Many Requests"));
        assert_eq!(status.message, "{\"error\": 1}");
        assert!(status.cause_chain.is_empty());
    }

    #[test]
    fn a_cancelled_request_names_its_delay_with_three_decimals() {
        let failure = Failure::cancelled(Nanos::from_millis(50));
        assert_eq!(failure.code, Some(499));
        assert_eq!(failure.message, "Request cancelled 0.050s after being sent");
    }

    #[test]
    fn a_client_socket_failure_names_the_cure() {
        let failure = Failure::client_socket(24);
        assert_eq!(failure.kind, "ClientSocketError");
        assert!(
            failure.message.contains("24") && failure.message.contains("ulimit -n"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn limits_of_the_client_have_names_and_a_reset_is_none() {
        for (errno, name) in CLIENT_LIMITS {
            assert!(Failure::is_client_limit(errno));
            assert_eq!(Failure::client_socket(errno).client_error(), Some(name));
        }
        assert_eq!(Failure::client_socket(1).client_error(), Some("other"));
        assert!(!Failure::is_client_limit(errno::CONNECTION_REFUSED));
        assert_eq!(Failure::connect("127.0.0.1", 1, errno::CONNECTION_REFUSED).client_error(), None);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let failure = Failure::from(Fault::Status {
            status: 500,
            reason: String::new(),
            body: "é".repeat(MESSAGE_BYTES_MAX),
        });
        assert_eq!(failure.message.len(), MESSAGE_BYTES_MAX);
        let odd = Failure::from(Fault::Status {
            status: 500,
            reason: String::new(),
            body: format!("x{}", "é".repeat(MESSAGE_BYTES_MAX)),
        });
        assert_eq!(odd.message.len(), MESSAGE_BYTES_MAX - 1);
    }
}

//! A failed request in AIPerf's words (spec/runtime 19, spec/artifacts 7).

use crate::wire::Fault;

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

impl Failure {
    /// Connecting failed with the operating system's `errno`.
    pub fn connect(_host: &str, _port: u16, _errno: i32) -> Self {
        todo!()
    }

    /// An established connection failed with `errno`; `started` tells whether a 2xx head had been read.
    pub fn reset(_errno: i32, _started: bool) -> Self {
        todo!()
    }

    /// The request was older than the endpoint's timeout.
    pub fn timeout() -> Self {
        todo!()
    }

    /// No socket could be made (EMFILE and the like): the client's own fault.
    pub fn client_socket(_errno: i32) -> Self {
        todo!()
    }
}

impl From<Fault> for Failure {
    fn from(_fault: Fault) -> Self {
        todo!()
    }
}

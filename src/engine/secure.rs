//! Connections that speak TLS: records in, records out, beside the exchange that HTTP is.
//!
//! A connection has one send under way at a time. What TLS has to say by itself goes out as an
//! [`Action::Flush`]; a request that comes meanwhile waits for it and takes with it whatever else waits.

use crate::engine::Action;
use crate::engine::ConnectionId;
use crate::engine::Engine;
use crate::engine::Send;
use crate::engine::connection::Connection;
use crate::engine::connection::State;
use crate::engine::exchange::ECONNRESET;
use crate::engine::exchange::EPIPE;
use crate::measure::Failure;
use crate::time::Stamp;
use crate::wire::tls::TlsClient;
use crate::wire::tls::TlsFault;
use crate::wire::tls::TlsSession;

/// What stands between the socket of a connection and HTTP.
#[derive(Debug)]
pub(crate) struct Secure {
    session: TlsSession,
    /// When the handshake began.
    begun: Stamp,
    /// Records of its own are on their way to the kernel.
    flushing: bool,
    /// A request waits for them.
    request_waits: bool,
}

impl Connection {
    /// Whether records of TLS alone are on their way to the kernel.
    pub(crate) fn is_flushing(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.flushing)
    }

    /// Whether the request must wait for records that are on their way; notes that it does.
    pub(crate) fn is_kept_waiting(&mut self) -> bool {
        self.secure.as_mut().is_some_and(|secure| {
            secure.request_waits = secure.flushing;
            secure.flushing
        })
    }

    /// Whether the peer has said that it sends no more.
    pub(crate) fn is_peer_closed(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.session.is_peer_closed())
    }

    /// Whether an end of the stream now, in the middle of a reply, is one that the peer has not announced.
    pub(crate) fn is_truncated(&self) -> bool {
        let unannounced = self.secure.as_ref().is_some_and(|secure| !secure.session.is_peer_closed());
        unannounced && self.record.headers.is_some()
    }

    /// Prepares the last words of a connection that is about to be closed; tells whether there are any.
    pub(crate) fn says_farewell(&mut self) -> bool {
        let Some(secure) = self.secure.as_mut().filter(|secure| !self.sending && !secure.flushing) else {
            return false;
        };
        if secure.session.is_established() {
            secure.session.close();
        }
        secure.flushing = secure.session.has_records();
        secure.flushing
    }
}

impl Engine {
    /// Speaks TLS with the URLs that ask for it, as `client`. Without it they get no connection.
    #[must_use]
    pub fn speaking_tls(mut self, client: Option<&TlsClient>) -> Self {
        let target = |url: &crate::config::Url| client.filter(|_| url.tls)?.to(&url.host);
        self.targets = self.plan.urls.iter().map(target).collect();
        self
    }

    /// Appends the records that a connection has to send for [`Action::Flush`].
    pub fn write_records(&mut self, id: ConnectionId, out: &mut Vec<u8>) {
        if let Some(secure) = self.connections.get(id).and_then(|connection| connection.secure.as_mut()) {
            secure.session.take_records(out);
        }
    }

    /// Appends a whole request, sealed.
    pub(super) fn write_sealed(&mut self, send: &Send, out: &mut Vec<u8>) {
        let mut plain = std::mem::take(&mut self.plain);
        self.render_head(send, &mut plain);
        let body = self.dataset.block().get(send.body.clone()).unwrap_or_default();
        if let Some(secure) =
            self.connections.get(send.connection).and_then(|connection| connection.secure.as_mut())
        {
            secure.session.seal(&plain);
            secure.session.seal(body);
            secure.session.take_records(out);
        }
        plain.clear();
        self.plain = plain;
    }

    pub(super) fn speaks_tls(&self, url: u16) -> bool {
        self.plan.urls.get(usize::from(url)).is_some_and(|url| url.tls)
    }

    /// The socket is connected: the handshake begins.
    pub(super) fn begin_handshake(&mut self, slot: u32, now: Stamp) {
        let url = usize::from(self.connections.at(slot).url);
        let begun = match self.targets.get(url) {
            Some(Some(target)) => target.begin(),
            // No certificate can be for such a host, which the run has refused; or TLS was not asked for.
            Some(None) | None => Err(TlsFault::WrongName { detail: "it can have no certificate".to_owned() }),
        };
        match begun {
            Ok(session) => {
                let secure = Secure { session, begun: now, flushing: false, request_waits: false };
                self.connections.at(slot).secure = Some(Box::new(secure));
                self.flush(slot);
            }
            Err(fault) => self.fail_tls(slot, now, &fault),
        }
    }

    /// Records arrived.
    pub(super) fn receive_records(&mut self, id: ConnectionId, now: Stamp, bytes: &[u8]) {
        let Some(connection) = self.connections.get(id) else { return };
        if matches!(connection.state, State::Closing | State::Replaced) {
            return;
        }
        let Some(secure) = &mut connection.secure else { return };
        let mut plain = std::mem::take(&mut self.plain);
        let received = secure.session.receive(bytes, &mut plain);
        if connection.state == State::Connecting && secure.session.is_established() {
            self.establish(id.index, now);
        }
        if !plain.is_empty() {
            self.take_reply(id, now, &plain);
            plain.clear();
        }
        self.plain = plain;
        let Some(connection) = self.connections.get(id) else { return };
        match (received, connection.state) {
            (_, State::Closing | State::Free | State::Replaced) => {}
            (Ok(()), State::Busy | State::Connecting) if connection.is_peer_closed() => {
                self.handle_ended(id, now, None);
            }
            (Ok(()), State::Held | State::Idle) if connection.is_peer_closed() => self.close(id.index),
            (Ok(()), State::Busy | State::Connecting | State::Held | State::Idle) => self.flush(id.index),
            (Err(fault), State::Busy | State::Connecting) => self.fail_tls(id.index, now, &fault),
            (Err(_), State::Held | State::Idle) => self.close(id.index),
        }
    }

    /// The handshake is over, and the request can go.
    fn establish(&mut self, slot: u32, now: Stamp) {
        let connection = self.connections.at(slot);
        connection.state = State::Busy;
        connection.record.connect = Some((connection.connect_begun, now));
        let phase = connection.record.phase;
        let told = connection.secure.as_ref().and_then(|secure| {
            connection.record.handshake_begun = Some(secure.begun);
            Some((secure.session.handshake()?, now.since(secure.begun)))
        });
        if let (Some((handshake, span)), Some(position)) = (told, self.position(phase)) {
            self.live[position].tally.handshake(handshake, span);
        }
        self.send(slot);
    }

    /// Sends what TLS has to say by itself, if it has and no send is under way: a send that is takes it along,
    /// or its end comes back here.
    fn flush(&mut self, slot: u32) {
        let id = self.connections.id(slot);
        let connection = self.connections.at(slot);
        let Some(secure) =
            connection.secure.as_mut().filter(|secure| !connection.sending && !secure.flushing)
        else {
            return;
        };
        secure.flushing = secure.session.has_records();
        if secure.flushing {
            self.actions.push_back(Action::Flush { connection: id });
        }
    }

    /// The kernel has taken records of TLS alone, or has not.
    pub(super) fn handle_flushed(&mut self, id: ConnectionId, now: Stamp, errno: Option<i32>) {
        let Some(connection) = self.connections.get(id) else { return };
        let Some(secure) = &mut connection.secure else { return };
        secure.flushing = false;
        let request_waits = std::mem::take(&mut secure.request_waits);
        match (connection.state, errno) {
            (State::Busy, None) if request_waits => self.send(id.index),
            (State::Busy | State::Connecting | State::Held | State::Idle, None) => self.flush(id.index),
            (State::Held | State::Idle, Some(_)) => self.close(id.index),
            // Where the peer has gone, the end of the stream, which follows, says more.
            (State::Closing | State::Free | State::Replaced, _)
            | (State::Busy | State::Connecting, Some(EPIPE | ECONNRESET)) => {}
            (State::Busy | State::Connecting, Some(errno)) if Failure::is_client_limit(errno) => {
                self.fail_starved(id.index, now, errno);
            }
            (State::Busy | State::Connecting, Some(errno)) => {
                let started = connection.record.headers.is_some();
                self.fail(id.index, now, Failure::reset(errno, started));
            }
        }
    }

    /// The stream ended before the handshake did.
    pub(super) fn fail_handshake(&mut self, slot: u32, now: Stamp, errno: Option<i32>) {
        match errno {
            None => self.fail_tls(slot, now, &TlsFault::Closed),
            Some(errno) => self.fail_connect(slot, now, errno),
        }
    }

    pub(super) fn fail_truncated(&mut self, slot: u32, now: Stamp) {
        self.fail_tls(slot, now, &TlsFault::Truncated);
    }

    fn fail_tls(&mut self, slot: u32, now: Stamp, fault: &TlsFault) {
        let connection = self.connections.at(slot);
        let established = connection.record.connect.is_some()
            || connection.secure.as_ref().is_some_and(|secure| secure.session.is_established());
        let failure = if established {
            Failure::tls_broken(fault)
        } else {
            let url = self.plan.urls.get(usize::from(connection.url));
            let (host, port) = url.map_or(("", 0), |url| (url.host.as_str(), url.port));
            Failure::tls_refused(host, port, fault)
        };
        self.fail(slot, now, failure);
    }
}

//! Connections and the exchange that each carries.

use crate::engine::secure::Secure;
use crate::engine::sessions::NO_SESSION;
use crate::measure::RawReads;
use crate::measure::Record;
use crate::time::Stamp;
use crate::wire::Protocol;
use crate::wire::ReplyDecoder;
use std::collections::VecDeque;
use std::sync::Arc;

/// One life of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    /// Slot in the engine's table, below its limit.
    pub index: u32,
    /// Life of that slot.
    pub generation: u32,
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Carries an exchange.
    Busy,
    /// Told to close; its slot is free once it is gone.
    Closing,
    /// Being established for an exchange.
    Connecting,
    /// No connection.
    Free,
    /// Waits for the next turn of its session.
    Held,
    /// Waits for the next exchange.
    Idle,
    /// Told to close, and its slot holds an exchange already: once it is gone, a fresh connection is made
    /// there.
    Replaced,
}

/// What an exchange holds beside its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holds {
    /// The session that it is a turn of.
    pub(crate) session: u32,
    /// A slot of those without content.
    pub(crate) prefill: bool,
    /// Its body carries the history of its session.
    pub(crate) history: bool,
}

impl Default for Holds {
    fn default() -> Self {
        Self { session: NO_SESSION, prefill: false, history: false }
    }
}

/// A slot of the table. An HTTP/1.1 connection carries one exchange at a time, so both share a slot.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) generation: u32,
    pub(crate) state: State,
    /// URL it is connected to.
    pub(crate) url: u16,
    /// The request has been handed over and the kernel has not taken all of it yet.
    pub(crate) sending: bool,
    /// The exchange is to be cancelled once written.
    pub(crate) cancel: bool,
    /// It carried an exchange before this one, which has not begun on another connection, and no byte of an
    /// answer to this one has come: the server may have closed it before.
    pub(crate) may_be_stale: bool,
    /// Since when a connection is being made for the exchange.
    pub(crate) connect_begun: Stamp,
    /// Since when it waits for the next exchange.
    pub(crate) idle_since: Stamp,
    /// From when on nothing but the client kept the exchange from being sent.
    pub(crate) due: Stamp,
    pub(crate) holds: Holds,
    /// The exchange, filled in as it goes.
    pub(crate) record: Record,
    /// Spans between its content messages.
    pub(crate) gaps_ns: Vec<u64>,
    /// When parts of the body came, where bodies are kept.
    pub(crate) reads: RawReads,
    pub(crate) decoder: ReplyDecoder,
    /// What stands between the socket and HTTP; absent where nothing does.
    pub(crate) secure: Option<Box<Secure>>,
}

impl Connection {
    fn new(decoder: ReplyDecoder) -> Self {
        Self {
            generation: 0,
            state: State::Free,
            url: 0,
            sending: false,
            cancel: false,
            may_be_stale: false,
            connect_begun: Stamp::ORIGIN,
            idle_since: Stamp::ORIGIN,
            due: Stamp::ORIGIN,
            holds: Holds::default(),
            record: Record::blank(),
            gaps_ns: Vec::new(),
            reads: RawReads::default(),
            decoder,
            secure: None,
        }
    }
}

/// All connections of one shard: a table of fixed capacity and the idle ones per URL.
#[derive(Debug)]
pub(crate) struct Connections {
    slots: Vec<Connection>,
    free: Vec<u32>,
    /// Idle connections, longest idle first (AIPerf's order). An entry may be stale: its slot has moved on.
    idle: Vec<VecDeque<ConnectionId>>,
    limit: usize,
    protocol: Arc<Protocol>,
}

impl Connections {
    pub(crate) fn new(urls: usize, limit: usize, protocol: Arc<Protocol>) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            idle: (0..urls.max(1)).map(|_| VecDeque::new()).collect(),
            limit,
            protocol,
        }
    }

    /// Slots made so far.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The slot at `index`, which some earlier answer of this table named.
    pub(crate) fn at(&mut self, index: u32) -> &mut Connection {
        &mut self.slots[index as usize]
    }

    /// The connection, if this life of it is not over.
    pub(crate) fn get(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.slots
            .get_mut(id.index as usize)
            .filter(|slot| slot.generation == id.generation && slot.state != State::Free)
    }

    /// The identity of the present life of slot `index`.
    pub(crate) fn id(&self, index: u32) -> ConnectionId {
        ConnectionId { index, generation: self.slots[index as usize].generation }
    }

    /// Whether this life of a connection speaks TLS.
    pub(crate) fn is_secure(&self, id: ConnectionId) -> bool {
        let slot = self.slots.get(id.index as usize);
        slot.is_some_and(|slot| slot.generation == id.generation && slot.secure.is_some())
    }

    /// Whether this life of a connection waits for the next turn of its session.
    pub(crate) fn is_held(&self, id: ConnectionId) -> bool {
        let slot = self.slots.get(id.index as usize);
        slot.is_some_and(|slot| slot.generation == id.generation && slot.state == State::Held)
    }

    /// Takes the idle connection to `url` that has waited longest.
    pub(crate) fn take_idle(&mut self, url: u16) -> Option<u32> {
        while let Some(id) = self.idle[usize::from(url)].pop_front() {
            if self.get(id).is_some_and(|slot| slot.state == State::Idle) {
                return Some(id.index);
            }
        }
        None
    }

    /// Takes a free slot; `None` at the limit.
    pub(crate) fn take_free(&mut self) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        if self.slots.len() >= self.limit {
            return None;
        }
        let index = u32::try_from(self.slots.len()).ok()?;
        self.slots.push(Connection::new(self.protocol.decoder()));
        self.free.reserve(self.slots.len());
        Some(index)
    }

    /// Whether a connection can be had: an idle one, a free slot or a new one.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty()
            || self.slots.len() < self.limit
            || self.idle.iter().any(|queue| !queue.is_empty())
    }

    /// Puts a connection that may carry the next exchange with the idle ones.
    pub(crate) fn put_idle(&mut self, index: u32, now: Stamp) {
        let id = self.id(index);
        let slot = self.at(index);
        slot.state = State::Idle;
        slot.idle_since = now;
        let url = slot.url;
        self.idle[usize::from(url)].push_back(id);
    }

    /// Takes the idle connection that has waited longest, whatever it is connected to.
    pub(crate) fn take_any_idle(&mut self) -> Option<u32> {
        let (index, _) = self.oldest_idle()?;
        let url = self.at(index).url;
        // It is the first of its URL, or `oldest_idle` would not have named it.
        self.idle[usize::from(url)].pop_front();
        Some(index)
    }

    /// The idle connection that has waited longest over all URLs, and since when.
    pub(crate) fn oldest_idle(&mut self) -> Option<(u32, Stamp)> {
        let mut oldest: Option<(u32, Stamp)> = None;
        for url in 0..self.idle.len() {
            while let Some(id) = self.idle[url].front().copied() {
                match self.get(id) {
                    Some(slot) if slot.state == State::Idle => {
                        let since = slot.idle_since;
                        if oldest.is_none_or(|(_, other)| since < other) {
                            oldest = Some((id.index, since));
                        }
                        break;
                    }
                    Some(_) | None => {
                        self.idle[url].pop_front();
                    }
                }
            }
        }
        oldest
    }

    /// A connection that was replaced is gone: its slot begins its next life at once.
    pub(crate) fn renew(&mut self, index: u32) {
        let slot = self.at(index);
        debug_assert!(slot.state == State::Replaced, "slot {index} is not replaced");
        slot.state = State::Connecting;
        slot.generation = slot.generation.wrapping_add(1);
        slot.secure = None;
        slot.sending = false;
    }

    /// Frees the slot of a connection that is gone; its next life has a new generation.
    pub(crate) fn free(&mut self, index: u32) {
        let slot = self.at(index);
        debug_assert!(slot.state != State::Free, "slot {index} is freed twice");
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1);
        slot.secure = None;
        self.free.push(index);
    }

    /// Every slot that carries an exchange of `phase`.
    pub(crate) fn in_flight_of(&self, phase: u16) -> Vec<u32> {
        (0_u32..)
            .zip(&self.slots)
            .filter(|(_, slot)| {
                slot.record.phase == phase
                    && matches!(slot.state, State::Busy | State::Connecting | State::Replaced)
            })
            .map(|(index, _)| index)
            .collect()
    }

    /// Slots that are not free.
    pub(crate) fn open(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

//! What is sent when: slots that are filled, arrivals that are due, turns that follow, and the end of it.

use crate::adaptive::WindowTally;
use crate::engine::Engine;
use crate::engine::ISSUE_BATCH;
use crate::engine::LATE_AT_END_MAX;
use crate::engine::exchange::Job;
use crate::engine::phase::PhaseEvent;
use crate::engine::phase::PhaseState;
use crate::engine::phase::Source;
use crate::engine::sessions::NO_SESSION;
use crate::engine::sessions::Session;
use crate::measure::tally::Drop;
use crate::plan::AtCapacity;
use crate::schedule::Arrival;
use crate::time::Stamp;
use crate::wire::uuid_v4;

/// Most arrivals dropped in one go. Dropping costs next to nothing, and a plan that no clock can follow has
/// many.
const DROP_BATCH: usize = 65_536;

/// What became of a request that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// A limit is reached; nothing has changed.
    Full,
    /// It is on its way.
    Issued,
    /// The count is used up; nothing has changed.
    Over,
}

impl Engine {
    /// Starts, sends and ends as the time says.
    pub(super) fn advance_phase(&mut self, position: usize, now: Stamp) {
        let phase = &mut self.live[position];
        if phase.state == PhaseState::Waiting && now >= phase.start.at {
            phase.state = PhaseState::Sending;
        }
        if phase.looking.is_some() {
            self.follow_dial(position, now);
        }
        let phase = &mut self.live[position];
        if phase.state == PhaseState::Sending {
            self.send_due(position, now);
        }
        let phase = &self.live[position];
        if phase.state == PhaseState::Draining && phase.deadline().is_some_and(|deadline| now >= deadline) {
            self.abandon_in_flight(position, now);
        }
    }

    /// Cuts windows off and changes the load of an adaptive phase as its dial says.
    fn follow_dial(&mut self, position: usize, now: Stamp) {
        let share = self.share;
        let phase = &mut self.live[position];
        let index = phase.plan.index;
        let dial = self.shared.dial(index);
        let Some(looking) = &mut phase.looking else { return };
        while looking.windows < dial.windows() {
            let fresh = WindowTally::new(share.shards());
            looking.cut.push(std::mem::replace(&mut looking.window, fresh));
            looking.windows += 1;
            self.events.push_back(PhaseEvent::WindowCut { phase: index });
        }
        if phase.state != PhaseState::Sending {
            return;
        }
        if let Some(turned) = dial.turned(looking.turns) {
            phase.follow(turned, share);
        }
        if dial.is_stopped() {
            self.end_sending(position, now, true);
        }
    }

    /// Uses what has fallen free.
    pub(super) fn refill(&mut self, position: usize, now: Stamp) {
        let phase = &self.live[position];
        let waits = match phase.source {
            Source::Closed { .. } => true,
            Source::Open { .. } => phase.held || !phase.turns_take_arrivals(),
        };
        if phase.state == PhaseState::Sending && waits {
            self.send_due(position, now);
        } else if phase.state == PhaseState::Sending && self.plan.script.has_sessions() {
            self.check_sending_end(position, now);
        }
    }

    fn send_due(&mut self, position: usize, now: Stamp) {
        let phase = &mut self.live[position];
        phase.blocked = false;
        phase.probes = false;
        if let Some(ramp) = &mut phase.prefill_ramp {
            while ramp.step(now.since(phase.start.at)).is_some() {}
        }
        phase.sessions.wake(now);
        match phase.source {
            Source::Closed { .. } => self.fill_slots(position, now),
            Source::Open { .. } => {
                if let Some(ramp) = &mut phase.ramp {
                    while ramp.step(now.since(phase.start.at)).is_some() {}
                }
                let clear = self.live[position].turns_take_arrivals() || self.send_turns(position, now);
                if clear {
                    self.send_arrivals(position, now);
                }
            }
        }
        self.check_sending_end(position, now);
    }

    /// Closed loop: next turns first, then every free slot sends, then those that the ramp opens.
    fn fill_slots(&mut self, position: usize, now: Stamp) {
        if !self.send_turns(position, now) {
            return;
        }
        self.fill_free_slots(position, now, now);
        loop {
            let phase = &mut self.live[position];
            let share = self.share;
            let Some(ramp) = &mut phase.ramp else { return };
            let before = share.slots(ramp.value());
            let Some(due) = ramp.step(now.since(phase.start.at)) else { return };
            let grown = share.slots(ramp.value()) - before;
            if grown > 0 {
                let planned = phase.start.at.plus(due);
                let Source::Closed { free } = &mut phase.source else { return };
                *free += grown;
                self.fill_free_slots(position, now, planned);
            }
        }
    }

    fn fill_free_slots(&mut self, position: usize, now: Stamp, planned: Stamp) {
        loop {
            let phase = &mut self.live[position];
            let Source::Closed { free } = &mut phase.source else { return };
            if *free == 0 || phase.past_end(now) {
                return;
            }
            if !self.connections.has_room() {
                // Closing connections hold the table's last slots; they are gone in a moment.
                phase.blocked = true;
                return;
            }
            if self.waits_to_probe(position, now) {
                return;
            }
            match self.start_session(position, now, planned, None) {
                Admission::Full => {
                    self.live[position].blocked = true;
                    return;
                }
                Admission::Issued => {}
                Admission::Over => return,
            }
        }
    }

    /// Sends next turns that are due and need no arrival. Tells whether none waits for a slot.
    fn send_turns(&mut self, position: usize, now: Stamp) -> bool {
        loop {
            let phase = &mut self.live[position];
            let Some(session) = phase.sessions.first_ready() else { return true };
            if phase.past_end(now) {
                return true;
            }
            if !self.has_connection_for(position, Some(session)) {
                self.live[position].hold();
                return false;
            }
            let phase = &mut self.live[position];
            let closed = matches!(phase.source, Source::Closed { .. });
            if closed && self.waits_to_probe(position, now) {
                return false;
            }
            let phase = &mut self.live[position];
            let due = phase.sessions.at(session).due;
            match self.continue_session(position, now, due, session) {
                Admission::Full => {
                    self.live[position].hold();
                    return false;
                }
                Admission::Issued => {}
                Admission::Over => return false,
            }
        }
    }

    /// Open loop: every arrival that is due is sent, in order, however late; nothing is forgotten.
    fn send_arrivals(&mut self, position: usize, now: Stamp) {
        let mut issued = 0;
        for _ in 0..DROP_BATCH {
            let phase = &mut self.live[position];
            let Some(arrival) = phase.next_arrival() else { return };
            let planned = phase.start.at.plus(arrival.offset);
            if planned > now || issued == ISSUE_BATCH {
                return;
            }
            if let Some(why) = self.too_late(position, now, planned) {
                let phase = &mut self.live[position];
                phase.tally.dropped(why);
                phase.advance();
                continue;
            }
            let phase = &self.live[position];
            let turn = phase.sessions.first_ready().filter(|_| phase.turns_take_arrivals());
            let waits_for_connection =
                self.plan.connections_max.is_some() && !self.has_connection_for(position, turn);
            let phase = &mut self.live[position];
            if waits_for_connection && !phase.past_end(now) {
                phase.hold();
                return;
            }
            let admission = match turn {
                Some(session) => self.continue_session(position, now, planned, session),
                None => self.start_session(position, now, planned, Some(arrival)),
            };
            let phase = &mut self.live[position];
            match admission {
                Admission::Full => {
                    let waits = turn.is_some() || phase.at_capacity == AtCapacity::Queue;
                    if waits && !phase.past_end(now) {
                        phase.hold();
                        return;
                    }
                    // Beyond the count nothing is planned: such an arrival is not a lost one.
                    if !self.shared.ticket(phase.plan.index).exhausted(phase.plan.stop.requests) {
                        phase.tally.dropped(Drop::AtCapacity);
                    }
                    phase.advance();
                }
                Admission::Issued => {
                    issued += 1;
                    phase.advance();
                }
                // No session begins any more: the arrival is left to the next turns that come.
                Admission::Over => {
                    phase.held = false;
                    phase.advance();
                }
            }
        }
    }

    /// Whether a connection can be had for the next turn of `session`, or for a new session.
    fn has_connection_for(&mut self, position: usize, session: Option<u32>) -> bool {
        let kept = session.and_then(|session| self.live[position].sessions.at(session).connection);
        kept.is_some_and(|kept| self.connections.is_held(kept)) || self.connections.has_room()
    }

    /// Why an arrival is not to be sent any more.
    fn too_late(&self, position: usize, now: Stamp, planned: Stamp) -> Option<Drop> {
        let phase = &self.live[position];
        let late = now.since(planned);
        if phase.past_end(now) {
            if phase.held || planned < phase.held_until {
                return Some(Drop::AtCapacity);
            }
            if late > LATE_AT_END_MAX {
                return Some(Drop::Late);
            }
        }
        let kept_waiting = phase.held || planned < phase.held_until;
        let given_up = self.plan.catch_up.is_some_and(|catch_up| late > catch_up) && !kept_waiting;
        given_up.then_some(Drop::Late)
    }

    /// Begins a session, of the conversation that `arrival` names or that is next in order.
    fn start_session(
        &mut self,
        position: usize,
        now: Stamp,
        planned: Stamp,
        arrival: Option<Arrival>,
    ) -> Admission {
        let phase = &mut self.live[position];
        let plan = &phase.plan;
        if plan.counted && !self.shared.in_flight.enter(phase.limit()) {
            return Admission::Full;
        }
        if plan.prefill_counted && !self.shared.prefills.enter(phase.prefill_limit()) {
            if plan.counted {
                self.shared.in_flight.leave();
            }
            return Admission::Full;
        }
        let script = &self.plan.script;
        let session_number = if script.has_sessions() {
            self.shared.session_ticket(plan.index).take(plan.stop.sessions)
        } else {
            Some(0)
        };
        let number = session_number.and_then(|_| match arrival {
            Some(arrival) if !plan.numbered_by_ticket => Some(arrival.index),
            Some(_) | None => self.shared.ticket(plan.index).take(plan.stop.requests),
        });
        let (Some(session_number), Some(number)) = (session_number, number) else {
            if plan.counted {
                self.shared.in_flight.leave();
            }
            if plan.prefill_counted {
                self.shared.prefills.leave();
            }
            return Admission::Over;
        };
        let session_number = if script.has_sessions() { session_number } else { number };
        let planned_session = arrival.and_then(|arrival| arrival.session);
        let conversation = match planned_session {
            Some(session) => session.conversation,
            None => self.cursor.conversation(phase.start.first_row + session_number),
        };
        let urls = self.plan.urls.len().max(1) as u64;
        let url = u16::try_from((phase.sessions_before + session_number) % urls).unwrap_or(0);
        let correlation_id = uuid_v4(self.identifiers.u128(..));
        let rows = script.rows(conversation);
        let turns_max = planned_session.map_or(u32::MAX, |session| session.turns_max);
        let session = if script.has_sessions() {
            phase.sessions.begin(Session {
                next_row: rows.start + 1,
                end_row: rows.end.min(rows.start.saturating_add(turns_max)),
                correlation_id,
                url,
                planned,
                due: planned,
                connection: None,
            })
        } else {
            NO_SESSION
        };
        phase.sessions_begun += 1;
        phase.last_continued = false;
        if let Source::Closed { free } = &mut phase.source {
            *free -= 1;
        }
        let due = phase.held_base(planned, now);
        let prefill = phase.plan.prefill_counted;
        let row = rows.start;
        self.issue(position, now, Job { number, row, planned, due, session, correlation_id, url, prefill });
        Admission::Issued
    }

    /// Sends the next turn of `session`, the first that is ready.
    fn continue_session(&mut self, position: usize, now: Stamp, planned: Stamp, session: u32) -> Admission {
        let phase = &mut self.live[position];
        let prefill = phase.plan.prefill_counted;
        if prefill && !self.shared.prefills.enter(phase.prefill_limit()) {
            return Admission::Full;
        }
        let taken = self.shared.ticket(phase.plan.index).take(phase.plan.stop.requests);
        let Some((number, row)) = taken.and_then(|number| Some((number, phase.sessions.send_first_ready()?)))
        else {
            if prefill {
                self.shared.prefills.leave();
            }
            return Admission::Over;
        };
        let of = phase.sessions.at(session);
        of.planned = planned;
        let (correlation_id, url) = (of.correlation_id, of.url);
        phase.last_continued = true;
        let due = phase.held_base(planned, now);
        self.issue(position, now, Job { number, row, planned, due, session, correlation_id, url, prefill });
        Admission::Issued
    }

    fn check_sending_end(&mut self, position: usize, now: Stamp) {
        let phase = &self.live[position];
        if phase.state != PhaseState::Sending {
            return;
        }
        let (index, stop) = (phase.plan.index, phase.plan.stop);
        let by_ticket = phase.plan.numbered_by_ticket;
        let requests_sent = by_ticket && self.shared.ticket(index).exhausted(stop.requests);
        let begins_no_more = phase.counted_out || self.shared.session_ticket(index).exhausted(stop.sessions);
        if requests_sent || (begins_no_more && phase.sessions.unsent() == 0) {
            self.end_sending(position, now, false);
        } else if let Some(end) = phase.sending_end()
            && now >= end
            && phase.next_arrival().is_none()
        {
            self.end_sending(position, end, true);
        }
    }

    /// Nothing more is sent: by its duration or an interrupt (`by_time`), or because the plan has no more.
    pub(super) fn end_sending(&mut self, position: usize, at: Stamp, by_time: bool) {
        let phase = &mut self.live[position];
        // A late client may have sent what was due before the end a little after it.
        let at = at.max(phase.last_issued);
        debug_assert!(phase.state < PhaseState::Draining);
        phase.state = PhaseState::Draining;
        phase.blocked = false;
        phase.probes = false;
        phase.held = false;
        phase.sending_ended = at;
        let sessions = phase.sessions_begun;
        self.shared.stopped(phase.plan.index, sessions);
        self.events.push_back(PhaseEvent::SendingEnded {
            phase: phase.plan.index,
            at,
            sessions,
            sent: phase.sent,
            in_flight: phase.in_flight,
            drawn_ahead: by_time || phase.last_continued,
        });
        while let Some(session) = self.live[position].sessions.give_up_waiting() {
            self.leave_session(position, &session);
        }
        self.close_if_drained(position, at);
    }

    /// Frees what a session held that is over.
    pub(super) fn leave_session(&mut self, position: usize, session: &Session) {
        self.free_slot(position);
        if let Some(connection) = session.connection
            && self.connections.is_held(connection)
        {
            self.close(connection.index);
        }
    }

    /// Frees the slot of a session that is over.
    pub(super) fn free_slot(&mut self, position: usize) {
        let phase = &mut self.live[position];
        if phase.plan.counted {
            self.shared.in_flight.leave();
        }
        if let Some(looking) = &mut phase.looking
            && looking.debt > 0
        {
            looking.debt -= 1;
        } else if let Source::Closed { free } = &mut phase.source {
            *free += 1;
        }
    }

    pub(super) fn close_if_drained(&mut self, position: usize, at: Stamp) {
        let phase = &mut self.live[position];
        if phase.state == PhaseState::Draining && phase.in_flight == 0 {
            phase.state = PhaseState::Closed;
            let at = at.max(phase.tally.last_end().unwrap_or(at));
            self.events.push_back(PhaseEvent::Closed { phase: phase.plan.index, at });
        }
    }
}

//! One request through the whole engine before the first phase, leaving nothing behind but warm code.
//!
//! The first requests of a run would otherwise pay for pages and caches that later ones find in place.

use crate::dataset::Dataset;
use crate::dataset::Row;
use crate::engine::Action;
use crate::engine::Engine;
use crate::engine::EngineOptions;
use crate::engine::PhaseEvent;
use crate::engine::PhaseStart;
use crate::plan::PhasePlan;
use crate::plan::Plan;
use crate::plan::Shared;
use crate::schedule::Script;
use crate::schedule::Share;
use crate::time::Nanos;
use crate::time::Stamp;
use std::sync::Arc;

/// Requests made.
const REQUESTS: u64 = 16;

/// A reply as servers give it.
const REPLY: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
    48\r\ndata: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"delta\":{\"content\":\"\r\n\
    8\r\na\"}}]}\n\n\r\n\
    E\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";

impl Engine {
    /// Takes a private engine with the same URLs through a few requests. Tells how many ended well.
    pub fn warm_up(&self) -> u64 {
        let mut plan = Plan::clone(&self.plan);
        plan.phases = vec![PhasePlan::closed(REQUESTS)];
        plan.script = Arc::new(Script::single(1));
        // There is nobody here to shake hands with.
        plan.urls.iter_mut().for_each(|url| url.tls = false);
        let plan = Arc::new(plan);
        let row = Row { conversation_id: String::new(), body: 0..0, isl_tokens: None, osl_tokens: None };
        let mut engine = Self::new(EngineOptions {
            shared: Arc::new(Shared::new(&plan)),
            plan,
            protocol: Arc::clone(&self.protocol),
            dataset: Arc::new(Dataset::new(vec![row], Arc::from([]))),
            share: Share::new(0, 1),
            connections_max: 8,
            samples_max: 64,
            batch_records: 64,
            batch_text_bytes: 0,
            identifier_seed: 0,
        });
        engine.begin_phase(0, PhaseStart { at: Stamp::ORIGIN, first_row: 0 });
        let mut head = Vec::new();
        let mut now = Stamp::ORIGIN;
        for _ in 0..REQUESTS * 4 {
            now = now.plus(Nanos(1_000));
            engine.handle_timeout(now);
            while let Some(action) = engine.poll_action() {
                match action {
                    Action::Close { connection } => engine.handle_gone(connection),
                    Action::Connect { connection, .. } => engine.handle_connected(connection, now, Ok(())),
                    Action::Flush { .. } => {}
                    Action::Send(send) => {
                        head.clear();
                        engine.write_head(&send, &mut head);
                        engine.handle_submitted(now);
                        engine.handle_sent(send.connection, now, Ok(head.len()));
                        engine.handle_bytes(send.connection, now, REPLY);
                    }
                }
            }
            if let Some(PhaseEvent::Closed { phase, .. }) = engine.poll_event() {
                return engine.take_tally(phase).map_or(0, |tally| tally.counts().ok);
            }
        }
        0
    }
}

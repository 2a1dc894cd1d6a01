//! A server that cannot be reached. A closed loop would try it as fast as connecting fails, at a full core and
//! with a record for each try: after many failures in a row it tries once in a while, until one comes through.

use crate::engine::Engine;
use crate::engine::phase::Source;
use crate::time::Nanos;
use crate::time::Stamp;

/// So many connections in a row must have failed.
pub const UNREACHED_MAX: u32 = 64;

/// From then on a closed loop of a shard begins one request in this time.
pub const PROBE_GAP: Nanos = Nanos::from_millis(1);

impl Engine {
    /// A connection was established.
    pub(super) fn reached(&mut self) {
        self.unreached = 0;
    }

    /// A connection did not come about.
    pub(super) fn not_reached(&mut self) {
        self.unreached = self.unreached.saturating_add(1);
    }

    /// Whether the closed loop at `position` must begin nothing now; if not, the caller begins one request.
    pub(super) fn waits_to_probe(&mut self, position: usize, now: Stamp) -> bool {
        let phase = &mut self.live[position];
        let down = self.unreached >= UNREACHED_MAX;
        phase.probes = down && now < phase.probe_at;
        if phase.probes {
            if let Source::Closed { free } = phase.source {
                phase.probes_since.get_or_insert((now, free));
            }
            return true;
        }
        if down {
            phase.probe_at = now.plus(PROBE_GAP);
        }
        // It is the server that kept the slots empty, not the client.
        if let Some((since, slots)) = phase.probes_since.take() {
            phase.tally.occupy(Nanos(now.since(since).0.saturating_mul(u64::from(slots))));
        }
        false
    }
}

//! Users who come, send turn by turn, and are replaced: AIPerf's user-centric load.
//!
//! Of `users` users each sends one turn per `users / rate` seconds. At the start the population is as it would
//! be after running for ever: users are at different turns of their conversations, spread evenly over one
//! gap between turns. Who has played all turns is replaced one gap after the last.

use crate::schedule::Arrival;
use crate::schedule::Cursor;
use crate::schedule::PlannedSession;
use crate::schedule::Script;
use crate::schedule::Share;
use crate::time::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// The golden ratio: its multiples, without their whole parts, spread evenly however many there are.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// The sessions of all users, in the order of their planned starts.
#[derive(Debug)]
pub struct UserArrivals {
    script: Arc<Script>,
    cursor: Cursor,
    /// Position of the next fresh conversation.
    position: u64,
    /// From one turn of a user to the next, in seconds.
    gap_s: f64,
    /// Sessions to come; of two at the same time the one planned first comes first.
    coming: BinaryHeap<Reverse<Coming>>,
    share: Share,
    index: u64,
    planned: u64,
    /// Users that are there; fewer than sessions to come only while some leave.
    users: u64,
    /// How their number changes, and what the sequence was made from, to draw it again; absent: it does not.
    course: Option<Box<Course>>,
}

/// Numbers of users over time.
#[derive(Clone, Debug)]
struct Course {
    first_users: u32,
    gap_users: u32,
    rate_per_s: f64,
    first: u64,
    /// As it stood at the start: it goes forward only.
    cursor: Cursor,
    /// From when on there are how many.
    turns: Vec<(f64, u64)>,
    /// Turns that the sequence has passed.
    passed: usize,
}

#[derive(Clone, Copy, Debug)]
struct Coming {
    at_s: f64,
    order: u64,
    session: PlannedSession,
    replaced_after: u32,
}

impl PartialEq for Coming {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Coming {}

impl PartialOrd for Coming {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Coming {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at_s.total_cmp(&other.at_s).then(self.order.cmp(&other.order))
    }
}

impl UserArrivals {
    /// The sessions of `share`. `users` is at least 1, `rate_per_s` above 0; `first` is the position in
    /// `cursor` at which the phase begins.
    pub fn new(
        users: u32,
        rate_per_s: f64,
        script: Arc<Script>,
        cursor: Cursor,
        first: u64,
        share: Share,
    ) -> Self {
        Self::populated(users, users, rate_per_s, script, cursor, first, share)
    }

    /// As [`UserArrivals::new`] with `first_users` users at the start, each of whom sends one turn per
    /// `users / rate` seconds; their number can be turned.
    pub fn changing(
        first_users: u32,
        users: u32,
        rate_per_s: f64,
        script: Arc<Script>,
        cursor: Cursor,
        first: u64,
        share: Share,
    ) -> Self {
        let turns = Vec::new();
        let cursor_then = cursor.clone();
        let course = Course {
            first_users,
            gap_users: users,
            rate_per_s,
            first,
            cursor: cursor_then,
            turns,
            passed: 0,
        };
        let arrivals = Self::populated(first_users, users, rate_per_s, script, cursor, first, share);
        Self { course: Some(Box::new(course)), ..arrivals }
    }

    fn populated(
        first_users: u32,
        users: u32,
        rate_per_s: f64,
        script: Arc<Script>,
        cursor: Cursor,
        first: u64,
        share: Share,
    ) -> Self {
        let users_count = u64::from(first_users.max(1));
        let mut arrivals = Self {
            users: users_count,
            course: None,
            gap_s: f64::from(users.max(1)) / rate_per_s,
            coming: BinaryHeap::with_capacity(usize::try_from(users_count + 1).unwrap_or(0)),
            cursor,
            position: first,
            share,
            index: 0,
            planned: 0,
            script,
        };
        for (place, turns_max) in population(users_count, mean_turns(&arrivals.script)) {
            arrivals.plan(place as f64 / rate_per_s, turns_max);
        }
        arrivals
    }

    /// From `from_s` on there are `users` users: more come within one gap between turns, fewer are left as
    /// sessions that would begin do not. Gives the sequence drawn again up to the session of this share behind
    /// `drawn` ones; absent where the number of users does not change.
    ///
    /// It is drawn from the start, so that all shards come to the same one wherever they stood.
    pub fn turned(&self, from_s: f64, users: u32, drawn: u64) -> Option<Self> {
        let mut course = self.course.clone()?;
        course.turns.push((from_s, u64::from(users.max(1))));
        course.passed = 0;
        let Course { first_users, gap_users, rate_per_s, first, .. } = *course;
        let (script, cursor) = (Arc::clone(&self.script), course.cursor.clone());
        let fresh = Self::populated(first_users, gap_users, rate_per_s, script, cursor, first, self.share);
        let mut fresh = Self { course: Some(course), ..fresh };
        for _ in 0..drawn {
            fresh.next()?;
        }
        Some(fresh)
    }

    /// Lets users come and go up to `at_s`.
    fn pass_turns(&mut self, at_s: f64) {
        while let Some((from_s, users)) = self.course.as_mut().and_then(|course| {
            let turn = course.turns.get(course.passed).copied().filter(|(from_s, _)| *from_s <= at_s)?;
            course.passed += 1;
            Some(turn)
        }) {
            for _ in 0..users.saturating_sub(self.coming.len() as u64) {
                // Spread over the gap between two turns, each as far from the others as it can be: users that
                // came in one after the other would send close to each other ever after.
                let place = (self.planned as f64 * GOLDEN).fract();
                let round = (from_s / self.gap_s - place).ceil();
                self.plan((round + place) * self.gap_s, u32::MAX);
            }
            self.users = users;
        }
    }

    /// Plans a session of a fresh conversation that starts at `at_s`.
    fn plan(&mut self, at_s: f64, turns_max: u32) {
        let conversation = self.cursor.conversation(self.position);
        self.position += 1;
        let turns = u32::try_from(self.script.rows(conversation).len()).unwrap_or(u32::MAX).min(turns_max);
        let session = PlannedSession { conversation, turns_max: turns };
        let order = self.planned;
        self.planned += 1;
        self.coming.push(Reverse(Coming { at_s, order, session, replaced_after: turns }));
    }
}

impl Iterator for UserArrivals {
    type Item = Arrival;

    /// The next session of this share. Never ends.
    fn next(&mut self) -> Option<Arrival> {
        loop {
            let next_s = self.coming.peek().map(|Reverse(coming)| coming.at_s)?;
            self.pass_turns(next_s);
            let Reverse(coming) = self.coming.pop()?;
            if self.coming.len() as u64 >= self.users {
                // Too many users: this one does not come back.
                continue;
            }
            self.plan(coming.at_s + f64::from(coming.replaced_after) * self.gap_s, u32::MAX);
            let index = self.index;
            self.index += 1;
            if self.share.owns(index) {
                let offset = Nanos::from_secs_f64(coming.at_s);
                return Some(Arrival { index, offset, session: Some(coming.session) });
            }
        }
    }
}

/// Fresh conversations that the population at the start takes.
pub fn population_size(users: u32, script: &Script) -> u64 {
    population(u64::from(users.max(1)), mean_turns(script)).count() as u64
}

/// Turns of a conversation on average, rounded half to even as Python does.
fn mean_turns(script: &Script) -> u64 {
    let mean = script.turns_total() as f64 / f64::from(script.conversations());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mean of 32-bit counts, not negative"
    )]
    let rounded = mean.round_ties_even() as u64;
    rounded
}

/// The users at the start: at which place of the first round each sends its first turn, and how many turns
/// it has left to play.
fn population(users: u64, mean_turns: u64) -> impl Iterator<Item = (u64, u32)> {
    let turns = mean_turns.saturating_sub(1).max(1);
    let stride = if gcd(users, turns) > 1 {
        (2..users).find(|stride| gcd(*stride, users) == 1).unwrap_or(1)
    } else {
        0
    };
    let aged = (0..users).filter_map(move |user| {
        let age = (users - user) * turns;
        let left = turns.checked_sub(age / users).filter(|left| *left > 0)?;
        let place = if stride == 0 { users - age % users } else { users - (user * stride) % users };
        Some((place, u32::try_from(left).unwrap_or(u32::MAX)))
    });
    aged.chain(std::iter::once((0, u32::MAX)))
}

fn gcd(left: u64, right: u64) -> u64 {
    if right == 0 { left } else { gcd(right, left % right) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sampling;
    use crate::schedule::Turn;

    fn script(turns: usize) -> Arc<Script> {
        let conversation = vec![Turn::default(); turns];
        Arc::new(Script::new(vec![conversation.as_slice(); 10]))
    }

    fn arrivals(users: u32, rate_per_s: f64, turns: usize, share: Share) -> UserArrivals {
        let script = script(turns);
        let cursor = Cursor::new(Sampling::Sequential, script.conversations(), 1);
        UserArrivals::new(users, rate_per_s, script, cursor, 0, share)
    }

    #[test]
    fn single_turns_come_at_the_rate() {
        let offsets: Vec<Nanos> =
            arrivals(4, 8.0, 1, Share::new(0, 1)).take(12).map(|arrival| arrival.offset).collect();
        let expected: Vec<Nanos> = (0..12).map(|place| Nanos::from_millis(place * 125)).collect();
        assert_eq!(offsets, expected);
    }

    #[test]
    fn turns_of_all_users_together_come_at_the_rate() {
        for (users, turns) in [(3_u32, 4_usize), (5, 2), (6, 4), (10, 11), (7, 3)] {
            let rate_per_s = 100.0;
            let gap_s = f64::from(users) / rate_per_s;
            let mut sends_s: Vec<f64> = arrivals(users, rate_per_s, turns, Share::new(0, 1))
                .take_while(|arrival| arrival.offset <= Nanos::from_millis(20_000))
                .flat_map(|arrival| {
                    let session = arrival.session.map_or(0, |session| session.turns_max);
                    (0..session).map(move |turn| arrival.offset.as_secs_f64() + f64::from(turn) * gap_s)
                })
                .filter(|at_s| *at_s < 10.0)
                .collect();
            sends_s.sort_by(f64::total_cmp);
            let count = sends_s.len() as f64;
            // In each gap every user sends once; the first round lacks those whose number was used up.
            let off = (count - 1_000.0).abs();
            assert!(off <= f64::from(users) * 2.0, "{users} users, {turns} turns: {count} sends");
        }
    }

    #[test]
    fn the_population_takes_the_places_that_aiperf_gives() {
        // Four users, five turns: L = 4, which shares a factor with 4, so places go in strides of 3.
        let places: Vec<(u64, u32)> = population(4, 5).collect();
        assert_eq!(places, [(1, 1), (2, 2), (3, 3), (0, u32::MAX)]);
        // Three users, five turns: ages 12, 8, 4.
        let places: Vec<(u64, u32)> = population(3, 5).collect();
        assert_eq!(places, [(1, 2), (2, 3), (0, u32::MAX)]);
        assert_eq!(population(1, 1).collect::<Vec<_>>(), [(0, u32::MAX)]);
    }

    #[test]
    fn any_number_of_shards_plans_the_same_users() {
        let whole: Vec<Arrival> = arrivals(6, 50.0, 3, Share::new(0, 1)).take(200).collect();
        for shards in [2_u16, 5] {
            let mut merged: Vec<Arrival> = (0..shards)
                .flat_map(|shard| {
                    arrivals(6, 50.0, 3, Share::new(shard, shards)).take_while(|arrival| arrival.index < 200)
                })
                .collect();
            merged.sort_by_key(|arrival| arrival.index);
            assert_eq!(merged, whole);
        }
    }
}

//! When requests are due, which number each has, and which are cancelled.
//!
//! Due times, request numbers and cancellations follow from the seed, the phase and the request's number
//! alone, never from the number of shards: every shard replays the whole sequence and takes its [`Share`].
//! Nothing here waits; the engine asks and the shard waits.

pub mod arrivals;
pub mod cancellation;
pub mod cursor;
pub mod intensity;
pub mod ramp;
pub mod script;
pub mod share;
pub mod ticket;
pub mod users;

pub use arrivals::{Arrival, Arrivals, Entry, Gaps, PacedArrivals, PlannedSession, ScheduledArrivals};
pub use cancellation::CancelDraws;
pub use cursor::Cursor;
pub use intensity::{Intensity, Rates};
pub use ramp::CountRamp;
pub use script::{Script, Turn};
pub use share::Share;
pub use ticket::{InFlight, Ticket};
pub use users::UserArrivals;

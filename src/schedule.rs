//! When requests are due, which number each has, and which are cancelled.
//!
//! Due times, request numbers and cancellations follow from the seed, the phase and the request's number
//! alone, never from the number of shards: every shard replays the whole sequence and takes its [`Share`].
//! Nothing here waits; the engine asks and the shard waits.

pub mod arrivals;
pub mod cancellation;
pub mod share;
pub mod ticket;

pub use arrivals::{Arrival, PoissonArrivals};
pub use cancellation::CancelDraws;
pub use share::Share;
pub use ticket::{InFlight, Ticket};

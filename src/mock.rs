//! The built-in inference server: OpenAI chat completions, and the other endpoints with text, with chosen
//! timing and chosen faults.
//!
//! It runs in its own process (`phasor mock`) or beside a run (`phasor profile --mock`), on the same ring
//! layer as the client, and keeps a log of arrivals that a test can hold against the client's own account.
//! It generates no language: a reply is the same word as often as was asked for.

mod answer;
mod body;
mod delay;
mod fault;
mod intake;
mod log;
mod metrics;
mod reply;
mod tls;
mod tongue;
mod worker;

pub use delay::{Delay, DelayError};
pub use fault::Faults;

use self::log::LogFile;
use self::metrics::Tally;
use self::tls::Certificate;
use self::worker::Worker;
use crate::time::{Clock, Nanos, Stamp};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Connections that wait to be accepted, at most.
const BACKLOG: i32 = 4_096;

/// How the server behaves.
#[derive(Clone, Debug)]
pub struct MockOptions {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Where a unix socket is made to listen on, too; it must not be there yet, and goes with the server.
    pub unix: Option<PathBuf>,
    /// Threads, each with a listener of its own on the same port.
    pub threads: u16,
    /// Cores to pin the threads to, in turn; empty: not pinned.
    pub cpus: Vec<usize>,
    /// From the request's last byte to the first content.
    pub ttft: Delay,
    /// Between content messages.
    pub itl: Delay,
    /// Reply length when the request names none.
    pub default_tokens: u32,
    /// Tokens in one message.
    pub tokens_per_chunk: u32,
    /// How messages meet the socket.
    pub writes: Writes,
    /// Sends a usage message when the request asks for one.
    pub usage: bool,
    /// What goes wrong.
    pub faults: Faults,
    /// One line per request: see `docs/mock.md`.
    pub arrival_log: Option<PathBuf>,
    /// Seed of delays and faults.
    pub seed: u64,
    /// Requests per second that are worked off, one after the other over all threads: a queue whose capacity is
    /// known. Absent: any number at once.
    pub capacity_per_s: Option<f64>,
    /// What it speaks on its port.
    pub speaks: Speaks,
}

/// What the server speaks on its port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speaks {
    /// HTTP.
    #[default]
    Http,
    /// HTTP over TLS 1.2 and 1.3, with a certificate made when it starts.
    Https,
}

impl Default for MockOptions {
    /// One thread on a free port of the loopback that answers 32 tokens at once and makes no faults.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            unix: None,
            threads: 1,
            cpus: Vec::new(),
            ttft: Delay::NONE,
            itl: Delay::NONE,
            default_tokens: 32,
            tokens_per_chunk: 1,
            writes: Writes::PerMessage,
            usage: true,
            faults: Faults::default(),
            arrival_log: None,
            seed: 0,
            capacity_per_s: None,
            speaks: Speaks::Http,
        }
    }
}

/// How messages meet the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// One write for each message when it is due.
    PerMessage,
    /// The whole reply in one write, when its last message is due.
    Whole,
}

/// What the threads share.
#[derive(Debug)]
struct Shared {
    clock: Clock,
    started: Stamp,
    options: MockOptions,
    stop: AtomicBool,
    connections: AtomicU64,
    /// When the queue will be empty, in nanoseconds.
    free_ns: AtomicU64,
    /// Present where TLS is spoken.
    certificate: Option<Certificate>,
    tallies: Box<[Tally]>,
}

impl Shared {
    /// How long a request that arrives at `now` waits in the queue and is worked on.
    fn queued(&self, now: Stamp) -> Nanos {
        let Some(capacity_per_s) = self.options.capacity_per_s else { return Nanos::ZERO };
        let service = Nanos::from_secs_f64(1.0 / capacity_per_s);
        let then = |free_ns: u64| free_ns.max(now.as_nanos()).saturating_add(service.0);
        let (set, fetched) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self.free_ns.fetch_update(set, fetched, |free_ns| Some(then(free_ns)));
        Stamp::from_nanos(then(before.unwrap_or(0))).since(now)
    }
}

/// A running server. It stops when it is dropped, too.
#[derive(Debug)]
pub struct Mock {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Mock {
    /// Binds and starts the threads; returns once connections are accepted.
    ///
    /// # Errors
    /// When the address is taken, the log cannot be made, a core cannot be pinned, a number is zero that
    /// must not be, or there is no io_uring.
    pub fn start(options: MockOptions) -> Result<Self, io::Error> {
        let positive = [
            (
                options.capacity_per_s.is_none_or(|capacity| capacity.is_finite() && capacity > 0.0),
                "the mock server's capacity must be above 0",
            ),
            (options.threads > 0, "the mock server needs at least one thread"),
            (options.default_tokens > 0, "the mock server's default reply needs at least one token"),
            (
                (1..=4_096).contains(&options.tokens_per_chunk),
                "tokens per message of the mock server: 1 to 4096",
            ),
        ];
        if let Some(&(_, why)) = positive.iter().find(|(good, _)| !good) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let log = options.arrival_log.as_deref().map(LogFile::create).transpose()?;
        let first = listener(options.listen)?;
        let address = first
            .local_addr()?
            .as_socket()
            .ok_or_else(|| io::Error::other("the listener has no internet address"))?;
        let mut listeners = vec![vec![first]];
        for _ in 1..options.threads {
            listeners.push(vec![listener(address)?]);
        }
        let unix = options.unix.as_deref().map(unix_listener).transpose()?;
        let clock = Clock::start();
        let certificate = match options.speaks {
            Speaks::Http => None,
            Speaks::Https => Some(Certificate::new(address.ip())?),
        };
        let shared = Arc::new(Shared {
            clock,
            started: clock.now(),
            stop: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            free_ns: AtomicU64::new(0),
            certificate,
            tallies: listeners.iter().map(|_| Tally::default()).collect(),
            options,
        });
        let (ready, started) = mpsc::channel();
        let mut mock = Self { address, shared, threads: Vec::new() };
        if let (Some(unix), Some(of_first)) = (unix, listeners.first_mut()) {
            of_first.push(unix);
        }
        for (number, listeners) in listeners.into_iter().enumerate() {
            let (shared, log, ready) = (Arc::clone(&mock.shared), log.clone(), ready.clone());
            let thread = std::thread::Builder::new().name(format!("mock-{number}")).spawn(move || {
                let worker = pin(&shared.options.cpus, number)
                    .and_then(|()| Worker::new(shared, number, listeners, log));
                match worker {
                    Ok(worker) => {
                        // Nobody listens any more when another thread has failed.
                        let _ = ready.send(Ok(()));
                        worker.run()
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                        Ok(())
                    }
                }
            })?;
            mock.threads.push(thread);
        }
        for _ in &mock.threads {
            // On an error the drop of `mock` stops the threads that did start.
            started.recv().map_err(io::Error::other)??;
        }
        Ok(mock)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The authority that signed its certificate, in PEM; absent where it speaks no TLS.
    pub fn authority(&self) -> Option<&str> {
        self.shared.certificate.as_ref().map(|certificate| certificate.authority.as_str())
    }

    /// Chat completion requests answered, or failed on purpose, so far. Those whose client went away are
    /// not among them.
    pub fn requests(&self) -> u64 {
        self.shared.tallies.iter().map(|tally| tally.requests.read()).sum()
    }

    /// Chat completion requests whose client went away before the end, so far.
    pub fn cancelled(&self) -> u64 {
        self.shared.tallies.iter().map(|tally| tally.cancelled.read()).sum()
    }

    /// Stops the threads and flushes the log.
    ///
    /// # Errors
    /// When the log could not be written, or a thread's ring failed.
    pub fn stop(mut self) -> Result<(), io::Error> {
        self.join()
    }

    fn join(&mut self) -> io::Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut outcome = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a mock thread panicked")));
            outcome = outcome.and(ended);
        }
        outcome
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        // Who wants to know of failures calls `stop`.
        let _ = self.join();
        if let Some(path) = &self.shared.options.unix {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn listener(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    // Accepted sockets inherit this.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

fn unix_listener(path: &Path) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    socket.bind(&SockAddr::unix(path).map_err(named)?).map_err(named)?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Pins the calling thread to its core.
fn pin(cpus: &[usize], number: usize) -> io::Result<()> {
    let Some(&id) = cpus.get(number % cpus.len().max(1)) else { return Ok(()) };
    // Asked first, because the crate panics on a core beyond the largest set.
    let known = core_affinity::get_core_ids().is_some_and(|cores| cores.iter().any(|core| core.id == id));
    if known && core_affinity::set_for_current(core_affinity::CoreId { id }) {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "a mock thread cannot run on core {id}: choose one this process may use"
        )))
    }
}

/// How late a timer of a thread may be for the kernel's convenience.
const TIMER_SLACK: Nanos = Nanos(1);

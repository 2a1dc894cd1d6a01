//! `phasor mock`.

use crate::cli::exit;
use crate::cli::say;
use crate::mock::Delay;
use crate::mock::Faults;
use crate::mock::Mock;
use crate::mock::MockOptions;
use crate::mock::Speaks;
use crate::mock::Writes;
use crate::run::cores;
use crate::run::interrupt;
use crate::run::limits;
use anyhow::Context;
use clap::Args;
use clap::ValueEnum;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Arguments of `phasor mock`.
#[derive(Debug, Args)]
pub(super) struct MockArguments {
    /// Address and port; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,

    /// Listen on a unix socket at this path, too, which must not exist yet
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,

    /// Threads, each with a listener of its own on the port
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    threads: u16,

    /// Cores to pin the threads to, such as 2,3; default: not pinned
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,

    /// Time to first token: 20ms, exp:20ms, uniform:10ms..30ms or lognormal:20ms,0.5
    #[arg(long, value_name = "DELAY")]
    ttft: Option<Delay>,

    /// Time between messages, in the same words
    #[arg(long, value_name = "DELAY")]
    itl: Option<Delay>,

    /// Reply length when the request names none
    #[arg(long, value_name = "N", default_value_t = MockOptions::default().default_tokens)]
    tokens: u32,

    /// Tokens in one message
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    tokens_per_chunk: u32,

    /// How messages meet the socket
    #[arg(long, value_enum, default_value_t = WritesChoice::Message)]
    writes: WritesChoice,

    /// Requests per second that are worked off, one after the other; default: any number at once
    #[arg(long, value_name = "PER_SECOND", value_parser = capacity)]
    capacity: Option<f64>,

    /// Send no usage, even when a request asks for it
    #[arg(long)]
    no_usage: bool,

    /// Percent of requests answered with an error status
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent, help_heading = "Faults")]
    status: f64,

    /// The error status
    #[arg(long, value_name = "CODE", default_value_t = 503, value_parser = clap::value_parser!(u16).range(300..=599), help_heading = "Faults")]
    status_code: u16,

    /// Percent closed before a byte of the answer
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent, help_heading = "Faults")]
    refuse: f64,

    /// Percent reset in the middle of the answer
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent, help_heading = "Faults")]
    reset: f64,

    /// Percent never answered
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent, help_heading = "Faults")]
    hang: f64,

    /// Percent closed in the middle of the answer
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent, help_heading = "Faults")]
    truncate: f64,

    /// Percent answered with bytes that are not HTTP
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent, help_heading = "Faults")]
    garbage: f64,

    /// Percent whose head comes a byte at a time
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent, help_heading = "Faults")]
    slow_headers: f64,

    /// Seed of delays and faults
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Speak TLS on the port, with a certificate made now for localhost and the loopback addresses
    #[arg(long)]
    tls: bool,

    /// Where to write the certificate of the authority that signed it, in PEM, for clients to trust
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_cert_out: Option<PathBuf>,

    /// Log of arrivals, one line per request
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WritesChoice {
    /// A write for each message, when it is due
    Message,
    /// The whole answer at once, when its last message is due
    Whole,
}

/// A rate above zero.
pub(super) fn capacity(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(capacity) if capacity > 0.0 && f64::is_finite(capacity) => Ok(capacity),
        Ok(_) | Err(_) => Err("expected a number above 0".to_owned()),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent @ 0.0..=100.0) => Ok(percent),
        Ok(_) | Err(_) => Err("expected a number from 0 to 100".to_owned()),
    }
}

/// Serves until a signal comes.
pub(super) fn serve(arguments: &MockArguments) -> anyhow::Result<u8> {
    let interrupted = Arc::new(AtomicBool::new(false));
    interrupt::arm(&interrupted).context("cannot listen for Ctrl-C")?;
    limits::prepare(0, None)?;
    let available = cores::available()?;
    if let Some(cpu) = arguments.cpus.iter().find(|cpu| !available.contains(cpu)) {
        say(&format!("error: --cpus names core {cpu}, which this process may not use"));
        return Ok(exit::FAILED);
    }
    let defaults = MockOptions::default();
    let mock = Mock::start(MockOptions {
        listen: arguments.listen,
        unix: arguments.unix.clone(),
        threads: arguments.threads,
        cpus: arguments.cpus.clone(),
        ttft: arguments.ttft.unwrap_or(defaults.ttft),
        itl: arguments.itl.unwrap_or(defaults.itl),
        default_tokens: arguments.tokens,
        tokens_per_chunk: arguments.tokens_per_chunk,
        writes: match arguments.writes {
            WritesChoice::Message => Writes::PerMessage,
            WritesChoice::Whole => Writes::Whole,
        },
        usage: !arguments.no_usage,
        faults: Faults {
            status_percent: arguments.status,
            status_code: arguments.status_code,
            refuse_percent: arguments.refuse,
            reset_percent: arguments.reset,
            hang_percent: arguments.hang,
            truncate_percent: arguments.truncate,
            garbage_percent: arguments.garbage,
            slow_headers_percent: arguments.slow_headers,
        },
        arrival_log: arguments.log.clone(),
        seed: arguments.seed,
        capacity_per_s: arguments.capacity,
        speaks: if arguments.tls { Speaks::Https } else { Speaks::Http },
    })
    .with_context(|| format!("cannot serve on {}", arguments.listen))?;
    if let (Some(path), Some(authority)) = (&arguments.tls_cert_out, mock.authority()) {
        std::fs::write(path, authority)
            .with_context(|| format!("--tls-cert-out: cannot write {}", path.display()))?;
    }
    let scheme = if arguments.tls { "https" } else { "http" };
    let beside =
        arguments.unix.as_ref().map_or_else(String::new, |path| format!(" and unix:{}", path.display()));
    say(&format!("Serving on {scheme}://{}{beside} (Ctrl-C ends)", mock.address()));
    while !interrupted.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let requests = mock.requests();
    mock.stop().context("the log is not whole")?;
    say(&format!("{requests} requests served"));
    Ok(0)
}

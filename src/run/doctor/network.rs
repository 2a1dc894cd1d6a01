//! The network stack: ports, connections that linger, the backlog of a local server.

use crate::run::doctor::Finding;
use crate::run::doctor::Question;
use crate::run::doctor::Status;
use crate::run::machine::Tree;
use crate::run::ports;
use crate::run::ports::PortRange;
use crate::shard::peer::Peer;

/// Ports below which most larger runs are in trouble, where no config says what is needed.
const PORTS_USUAL: u64 = 28_000;

/// A listener's queue that takes most bursts: the kernel's own default.
const BACKLOG_USUAL: u64 = 4_096;

const WIDEN: &str = "sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"";

pub(super) fn ports(question: &Question) -> Finding {
    let name = "ports";
    let demand = question.demand.as_ref();
    let busiest = demand.and_then(|demand| ports::busiest(demand.peak?, &demand.addresses));
    let wanted = match busiest {
        Some((destination, peak)) => format!("{peak} toward {destination}"),
        None => format!("more than there will be requests in flight; {PORTS_USUAL} for most runs"),
    };
    let Some(range) = PortRange::read(question.tree.root()) else {
        return Finding::unknown(name, "/proc/sys/net/ipv4/ip_local_port_range", wanted);
    };
    let count = range.count();
    let mut found = format!("{count} ({} to {})", range.low, range.high);
    let shortage = demand.and_then(|demand| {
        let sources = busiest.map_or(0, |(address, _)| demand.sources.count_for(address));
        if sources > 1 {
            found = format!("{found} for each of {sources} source addresses");
        }
        ports::shortage(range, demand.peak?, &demand.addresses, &demand.sources)
    });
    let (status, cure) = match (&shortage, busiest) {
        (Some(shortage), _) => {
            (Status::Bad, format!("{WIDEN}, or {} addresses with --source-ip", shortage.needed))
        }
        (None, None) if count < PORTS_USUAL => (Status::Warn, WIDEN.to_owned()),
        (None, Some(_) | None) => (Status::Ok, String::new()),
    };
    Finding::new(name, status, found, wanted, cure)
}

/// Sockets in `TIME_WAIT`, in all.
fn waiting(tree: &Tree) -> Option<u64> {
    let line = tree.value("proc/net/sockstat", "TCP")?;
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(2).find(|pair| pair[0] == "tw").and_then(|pair| pair[1].parse().ok())
}

pub(super) fn time_wait(question: &Question) -> Finding {
    let name = "time wait";
    let remote =
        question.demand.as_ref().is_some_and(|demand| demand.addresses.iter().any(|peer| !peer.is_local()));
    let wanted = if remote {
        "tcp_tw_reuse = 1: ports of closed connections are used again after a second"
    } else {
        "tcp_tw_reuse = 1, or 2 toward this machine itself: ports of closed connections are used again"
    };
    let Some(reuse) = question.tree.number::<u8>("proc/sys/net/ipv4/tcp_tw_reuse") else {
        return Finding::unknown(name, "/proc/sys/net/ipv4/tcp_tw_reuse", wanted);
    };
    let status = match reuse {
        1 => Status::Ok,
        2 if !remote => Status::Ok,
        _ => Status::Warn,
    };
    let found = match waiting(&question.tree) {
        Some(count) => format!("tcp_tw_reuse = {reuse}, {count} sockets waiting"),
        None => format!("tcp_tw_reuse = {reuse}"),
    };
    Finding::new(name, status, found, wanted, "sysctl -w net.ipv4.tcp_tw_reuse=1")
}

pub(super) fn somaxconn(question: &Question) -> Finding {
    let name = "somaxconn";
    let local = question.demand.as_ref().filter(|demand| demand.addresses.iter().any(Peer::is_local));
    let needed = match (&question.demand, local) {
        (Some(_), None) => None,
        (_, Some(demand)) => Some(demand.peak.unwrap_or(BACKLOG_USUAL)),
        (None, None) => Some(BACKLOG_USUAL),
    };
    let wanted = match needed {
        Some(needed) => format!("{needed} for a server on this machine that is met by all at once"),
        None => "that of the server's machine counts: no server of this config is here".to_owned(),
    };
    let Some(found) = question.tree.number::<u64>("proc/sys/net/core/somaxconn") else {
        return Finding::unknown(name, "/proc/sys/net/core/somaxconn", wanted);
    };
    let status = match needed {
        Some(needed) if found < needed => Status::Warn,
        Some(_) | None => Status::Ok,
    };
    let cure = format!("sysctl -w net.core.somaxconn={}", needed.unwrap_or(BACKLOG_USUAL).min(65_535));
    Finding::new(name, status, found.to_string(), wanted, cure)
}

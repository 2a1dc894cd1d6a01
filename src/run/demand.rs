//! What a config asks of the machine: shards, connections, ports, addresses.

use crate::adaptive::whole;
use crate::config::Config;
use crate::config::Control;
use crate::config::Load;
use crate::config::Url;
use crate::plan::Plan;
use crate::run::RunError;
use crate::run::ports;
use crate::shard::peer::Peer;
use crate::shard::ring::RingOptions;
use crate::shard::sources::Sources;
use std::net::SocketAddr;
use std::net::ToSocketAddrs;
use std::path::Path;

/// Connections of a shard beyond its slots: those that are closing, and idle ones of other URLs.
const CONNECTIONS_BESIDES: u64 = 1_024;

/// Connections of one shard when an open loop has no cap.
const CONNECTIONS_UNCAPPED: u64 = 60_000;

/// How many shards the plan can keep busy: its largest closed loop, or any number for an open loop.
pub fn useful_shards(config: &Config) -> u64 {
    config
        .phases
        .iter()
        .map(|phase| match phase.load {
            Load::Concurrency { concurrency } => {
                let found = phase.adaptive.as_ref().filter(|scale| scale.control == Control::Concurrency);
                let found =
                    found.and_then(|scale| scale.control_max).map_or(0, |most| u64::from(whole(most)));
                u64::from(concurrency).max(found)
            }
            Load::Constant { .. }
            | Load::FixedSchedule { .. }
            | Load::Gamma { .. }
            | Load::Poisson { .. }
            | Load::UserCentric { .. } => u64::MAX,
        })
        .max()
        .unwrap_or(1)
}

/// More connections in flight than this machine has ports for, if the plan says how many there are and the
/// system how many ports.
pub fn port_shortage(config: &Config, sources: &Sources) -> Result<Option<ports::Shortage>, RunError> {
    let peak = in_flight_peak(config);
    let range = ports::PortRange::read(Path::new("/"));
    let Some((peak, range)) = peak.zip(range) else { return Ok(None) };
    Ok(ports::shortage(range, peak, &resolve(config)?, sources))
}

/// Most requests in flight by plan; absent when an open loop has no cap.
pub fn in_flight_peak(config: &Config) -> Option<u64> {
    // Neither the rows nor the seed have a part in it.
    Plan::new(config, 1, 0).in_flight_peak()
}

/// Where connections to each URL go, IPv4 first as AIPerf does. Whether a unix socket is there is left to the
/// requests, as with a port.
pub fn resolve(config: &Config) -> Result<Vec<Peer>, RunError> {
    let address = |url: &Url| {
        if let Some(path) = &url.socket {
            return Peer::unix(path).map_err(|source| RunError::Socket { path: path.clone(), source });
        }
        let resolve = |reason: String| RunError::Resolve { host: url.host.clone(), reason };
        let mut found: Vec<SocketAddr> = (url.host.as_str(), url.port)
            .to_socket_addrs()
            .map_err(|error| resolve(error.to_string()))?
            .collect();
        found.sort_by_key(SocketAddr::is_ipv6);
        found.first().copied().map(Peer::from).ok_or_else(|| resolve("none found".to_owned()))
    };
    config.endpoint.urls.iter().map(address).collect()
}

/// Room for connections on each of `shards` shards, of which `descriptors` fit into the process.
pub(super) fn connections_per_shard(plan: &Plan, shards: u16, descriptors: u64) -> u64 {
    let shards = u64::from(shards);
    let wanted = match plan.in_flight_peak() {
        Some(peak) => peak.div_ceil(shards) * 2 + CONNECTIONS_BESIDES,
        None => CONNECTIONS_UNCAPPED,
    };
    let wanted = plan.connections_max.map_or(wanted, |most| wanted.min(most.into()));
    wanted.min((descriptors / shards).max(1))
}

/// The ring of a shard with room for so many connections.
pub(super) fn ring_options(connections: u64) -> RingOptions {
    RingOptions {
        sockets_max: u32::try_from(connections).unwrap_or(u32::MAX),
        entries: 1_024,
        buffers: RingOptions::buffers_for(connections),
        buffer_bytes: 16 * 1_024,
    }
}

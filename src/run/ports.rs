//! Whether the ports of this machine are enough for the connections of a run.
//!
//! A TCP connection is told apart by both addresses and both ports, so one source address has as many
//! connections toward one destination as there are ephemeral ports. It reads the kernel's settings below a
//! root directory and changes nothing.

use crate::shard::peer::Peer;
use crate::shard::sources::Sources;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::path::Path;

/// The kernel's range of ports for outgoing connections.
const RANGE: &str = "proc/sys/net/ipv4/ip_local_port_range";

/// Ports of that range that are never given out.
const RESERVED: &str = "proc/sys/net/ipv4/ip_local_reserved_ports";

/// The ports that the kernel gives to outgoing connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The lowest one.
    pub low: u16,
    /// The highest one.
    pub high: u16,
    /// Those between that are reserved.
    pub reserved: u64,
}

impl PortRange {
    /// Reads the setting below `root` (`/` but in tests); absent where the system does not tell.
    pub fn read(root: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(root.join(RANGE)).ok()?;
        let mut numbers = text.split_whitespace().map(str::parse);
        let (low, high): (u16, u16) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        // Without the file nothing is reserved: it is older than every kernel that phasor runs on.
        let reserved = std::fs::read_to_string(root.join(RESERVED)).unwrap_or_default();
        Some(Self { low, high, reserved: reserved_between(&reserved, low, high) })
    }

    /// How many ports there are.
    pub fn count(&self) -> u64 {
        (u64::from(self.high) + 1).saturating_sub(u64::from(self.low)).saturating_sub(self.reserved)
    }
}

/// Counts the ports of a list such as `8080,9000-9100` that lie between two others.
fn reserved_between(list: &str, low: u16, high: u16) -> u64 {
    list.trim()
        .split(',')
        .filter_map(|part| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (from, to): (u16, u16) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
            Some((u64::from(to.min(high)) + 1).saturating_sub(u64::from(from.max(low))))
        })
        .sum()
}

/// More connections than ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the plan has up to {peak} requests in flight toward {destination}, and {sources} source address(es) of \
     {ports} ports each carry {capacity}: the rest will fail with EADDRNOTAVAIL. Add source addresses \
     (--source-ip, {needed} in all) or widen the range with `sysctl -w net.ipv4.ip_local_port_range=\"1024 \
     65535\"`"
)]
pub struct Shortage {
    /// Most requests in flight toward the destination.
    pub peak: u64,
    /// The destination.
    pub destination: SocketAddr,
    /// Source addresses that connections can come from.
    pub sources: u128,
    /// Ports of one address.
    pub ports: u64,
    /// Connections that fit.
    pub capacity: u64,
    /// Source addresses that would be enough.
    pub needed: u64,
}

/// The most requests in flight toward one destination, when `peak` go round the URLs behind `peers`; absent
/// without an address.
pub fn busiest(peak: u64, peers: &[Peer]) -> Option<(SocketAddr, u64)> {
    let mut shares = BTreeMap::<SocketAddr, u64>::new();
    // A unix socket takes its share of the requests and no port.
    for address in peers.iter().filter_map(Peer::internet) {
        *shares.entry(address).or_default() += 1;
    }
    let (destination, share) = shares.into_iter().max_by_key(|(_, share)| *share)?;
    Some((destination, (peak * share).div_ceil(peers.len() as u64)))
}

/// Tells whether `peak` requests in flight need more ports than there are. Unknown figures make no shortage.
pub fn shortage(range: PortRange, peak: u64, peers: &[Peer], sources: &Sources) -> Option<Shortage> {
    let (destination, peak) = busiest(peak, peers)?;
    let ports = range.count();
    let count = sources.count_for(destination).max(1);
    let capacity = u64::try_from(u128::from(ports).saturating_mul(count)).unwrap_or(u64::MAX);
    let needed = peak.div_ceil(ports.max(1));
    (peak > capacity).then_some(Shortage { peak, destination, sources: count, ports, capacity, needed })
}

/// Source addresses that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceAddressError {
    /// None of them reaches the destination.
    #[error(
        "no address of --source-ip can reach {destination}: name {} addresses",
        if destination.is_ipv4() { "IPv4" } else { "IPv6" }
    )]
    Family {
        /// The destination.
        destination: SocketAddr,
    },
    /// Nothing of the kind can be given to a unix socket.
    #[error("--source-ip has no meaning for {destination}: a unix socket has no addresses; take it out")]
    Local {
        /// The destination.
        destination: String,
    },
    /// The machine does not have it.
    #[error(
        "--source-ip {address} cannot be used: {source}; name an address of this machine, or add it with \
         `ip address add {address} dev <interface>`"
    )]
    NotOurs {
        /// The address.
        address: IpAddr,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
}

/// Tries both ends of every range of `sources`, and that every destination can be reached from one of them.
pub fn check(sources: &Sources, peers: &[Peer]) -> Result<(), SourceAddressError> {
    for range in sources.ranges() {
        let (first, last) = range.ends();
        for address in [first, last] {
            std::net::UdpSocket::bind((address, 0))
                .map_err(|source| SourceAddressError::NotOurs { address, source })?;
        }
    }
    if sources.ranges().is_empty() {
        return Ok(());
    }
    for peer in peers {
        match peer.internet() {
            Some(destination) if sources.count_for(destination) > 0 => {}
            Some(destination) => return Err(SourceAddressError::Family { destination }),
            None => return Err(SourceAddressError::Local { destination: peer.to_string() }),
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    const RANGE_OF_LINUX: PortRange = PortRange { low: 32_768, high: 60_999, reserved: 0 };

    fn addresses(texts: &[&str]) -> Vec<Peer> {
        texts.iter().map(|text| Peer::Internet(text.parse().unwrap())).collect()
    }

    fn sources(text: &str) -> Sources {
        Sources::new(vec![text.parse().unwrap()])
    }

    #[test]
    fn the_range_is_counted_without_reserved_ports() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(PortRange::read(root.path()), None);
        let settings = root.path().join("proc/sys/net/ipv4");
        std::fs::create_dir_all(&settings).unwrap();
        std::fs::write(settings.join("ip_local_port_range"), "32768\t60999\n").unwrap();
        assert_eq!(PortRange::read(root.path()).map(|range| range.count()), Some(28_232));
        std::fs::write(settings.join("ip_local_reserved_ports"), "80,32000-32769,60999\n").unwrap();
        assert_eq!(PortRange::read(root.path()).map(|range| range.count()), Some(28_229));
    }

    #[test]
    fn one_address_is_enough_up_to_its_ports_and_not_beyond() {
        let one = addresses(&["127.0.0.1:80"]);
        assert_eq!(shortage(RANGE_OF_LINUX, 28_232, &one, &Sources::default()), None);
        let short = shortage(RANGE_OF_LINUX, 60_000, &one, &Sources::default()).unwrap();
        assert_eq!((short.capacity, short.needed), (28_232, 3));
        let text = short.to_string();
        assert!(text.contains("60000") && text.contains("28232") && text.contains("--source-ip"), "{text}");
        assert_eq!(shortage(RANGE_OF_LINUX, 60_000, &one, &sources("127.0.0.2-127.0.0.4")), None);
    }

    #[test]
    fn each_destination_has_the_ports_anew() {
        let two = addresses(&["127.0.0.1:80", "127.0.0.1:81"]);
        assert_eq!(shortage(RANGE_OF_LINUX, 56_000, &two, &Sources::default()), None);
        let same = addresses(&["127.0.0.1:80", "127.0.0.1:80"]);
        assert_eq!(busiest(56_000, &same), same[0].internet().map(|only| (only, 56_000)));
        assert!(shortage(RANGE_OF_LINUX, 56_000, &same, &Sources::default()).is_some());
        let half = [same[0].clone(), Peer::unix(Path::new("/run/server.sock")).unwrap()];
        assert_eq!(busiest(56_000, &half).map(|(_, share)| share), Some(28_000));
        assert_eq!(busiest(56_000, &half[1..]), None);
    }

    #[test]
    fn foreign_addresses_and_the_other_family_are_refused() {
        let server = addresses(&["127.0.0.1:80"]);
        assert!(check(&sources("127.0.0.2-127.0.0.9"), &server).is_ok());
        assert!(check(&Sources::default(), &server).is_ok());
        // The documentation's own network (RFC 5737): no machine has it.
        let foreign = check(&sources("192.0.2.1"), &server).unwrap_err();
        assert!(matches!(foreign, SourceAddressError::NotOurs { .. }), "{foreign}");
        let other = check(&sources("127.0.0.2"), &addresses(&["[::1]:80"])).unwrap_err();
        assert!(other.to_string().contains("IPv6"), "{other}");
        let local = [Peer::unix(Path::new("/run/server.sock")).unwrap()];
        assert!(check(&Sources::default(), &local).is_ok());
        let senseless = check(&sources("127.0.0.2"), &local).unwrap_err();
        assert!(senseless.to_string().contains("unix:/run/server.sock"), "{senseless}");
    }
}

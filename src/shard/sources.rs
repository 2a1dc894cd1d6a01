//! The addresses of this machine that connections come from.
//!
//! One address has some 28,000 ports toward one destination; more connections need more addresses. This
//! module reads them (`--source-ip`) and gives them out in turn; it opens no socket.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::str::FromStr;

/// Addresses in a row: `127.0.0.2`, `127.0.0.2-127.0.0.9` or `127.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRange {
    family: Family,
    first: u128,
    last: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    const fn bits(self) -> u32 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    fn address(self, number: u128) -> IpAddr {
        match self {
            // A range of this family never leaves its 32 bits.
            Self::V4 => IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX))),
            Self::V6 => IpAddr::V6(Ipv6Addr::from(number)),
        }
    }
}

/// A text that names no source addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// No address at all.
    #[error("`{text}` is no IP address: write 127.0.0.2, 127.0.0.2-127.0.0.9 or 127.0.0.0/8")]
    Address {
        /// The part at fault.
        text: String,
    },
    /// The range ends before it begins, or its ends are of two families.
    #[error("the range `{text}` runs backwards or mixes IPv4 and IPv6: write it as low-high")]
    Order {
        /// The range.
        text: String,
    },
    /// The prefix length is none.
    #[error("`{text}` has no prefix length from 1 to {bits} behind the slash")]
    Prefix {
        /// The network.
        text: String,
        /// Bits of an address.
        bits: u32,
    },
    /// Nothing can be bound to "any address", or to a multicast one.
    #[error("`{text}` has an address that no connection can come from: name addresses of this machine")]
    Unusable {
        /// The range.
        text: String,
    },
}

impl SourceRange {
    /// The first and the last address.
    pub fn ends(&self) -> (IpAddr, IpAddr) {
        (self.family.address(self.first), self.family.address(self.last))
    }

    fn count(&self) -> u128 {
        (self.last - self.first).saturating_add(1)
    }
}

fn address(text: &str) -> Result<(Family, u128), SourceError> {
    let address: IpAddr =
        text.trim().parse().map_err(|_| SourceError::Address { text: text.trim().to_owned() })?;
    let number = match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    };
    Ok((Family::of(address), number))
}

impl FromStr for SourceRange {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (family, first, last) = if let Some((network, length)) = text.split_once('/') {
            let (family, number) = address(network)?;
            let bits = family.bits();
            let length = length.trim().parse().ok().filter(|length| (1..=bits).contains(length));
            let length: u32 = length.ok_or_else(|| SourceError::Prefix { text: text.to_owned(), bits })?;
            // At most 127 bits, because the length is at least 1.
            let hosts = (1_u128 << (bits - length)) - 1;
            let (first, last) = (number & !hosts, number | hosts);
            // The ends of an IPv4 network are its own and its broadcast address.
            let ends = u128::from(family == Family::V4 && hosts > 1);
            (family, first + ends, last - ends)
        } else if let Some((low, high)) = text.split_once('-') {
            let ((family, first), (other, last)) = (address(low)?, address(high)?);
            if family != other || first > last {
                return Err(SourceError::Order { text: text.to_owned() });
            }
            (family, first, last)
        } else {
            let (family, number) = address(text)?;
            (family, number, number)
        };
        let range = Self { family, first, last };
        let (low, high) = range.ends();
        if [low, high].iter().any(|end| end.is_unspecified() || end.is_multicast()) {
            return Err(SourceError::Unusable { text: text.to_owned() });
        }
        Ok(range)
    }
}

/// Source addresses that are given out in turn.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    ranges: Vec<SourceRange>,
    turn: u128,
}

impl Sources {
    /// The addresses of `ranges`, from the first on; those named twice get twice their share.
    pub fn new(ranges: Vec<SourceRange>) -> Self {
        Self { ranges, turn: 0 }
    }

    /// The same addresses, from the one at `start` on, so that shards do not all begin with the first.
    pub fn starting_at(&self, start: u16) -> Self {
        Self { ranges: self.ranges.clone(), turn: u128::from(start) }
    }

    /// The ranges.
    pub fn ranges(&self) -> &[SourceRange] {
        &self.ranges
    }

    /// How many addresses can reach `destination`; 0 when none is of its family.
    pub fn count_for(&self, destination: SocketAddr) -> u128 {
        self.fitting(destination).map(SourceRange::count).fold(0, u128::saturating_add)
    }

    /// The next address in turn for a connection to `destination`; absent: the kernel chooses.
    pub fn next_for(&mut self, destination: SocketAddr) -> Option<IpAddr> {
        let mut place = self.turn.checked_rem(self.count_for(destination))?;
        self.turn = self.turn.wrapping_add(1);
        for range in self.fitting(destination) {
            let count = range.count();
            if place < count {
                return Some(range.family.address(range.first + place));
            }
            place -= count;
        }
        None
    }

    fn fitting(&self, destination: SocketAddr) -> impl Iterator<Item = &SourceRange> {
        let family = Family::of(destination.ip());
        self.ranges.iter().filter(move |range| range.family == family)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sources(texts: &[&str]) -> Sources {
        Sources::new(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn server() -> SocketAddr {
        "127.0.0.1:8000".parse().unwrap()
    }

    fn turns(sources: &mut Sources, count: usize) -> Vec<String> {
        (0..count).map(|_| sources.next_for(server()).unwrap().to_string()).collect()
    }

    #[test]
    fn addresses_and_ranges_go_round() {
        let mut both = sources(&["127.0.0.9", "127.0.0.2-127.0.0.3"]);
        assert_eq!(turns(&mut both, 4), ["127.0.0.9", "127.0.0.2", "127.0.0.3", "127.0.0.9"]);
        assert_eq!(turns(&mut both.starting_at(1), 2), ["127.0.0.2", "127.0.0.3"]);
    }

    #[test]
    fn a_network_leaves_out_its_own_and_its_broadcast_address() {
        let mut network = sources(&["127.0.0.0/8"]);
        assert_eq!(network.count_for(server()), (1 << 24) - 2);
        assert_eq!(turns(&mut network, 2), ["127.0.0.1", "127.0.0.2"]);
        assert_eq!(sources(&["10.0.0.4/32"]).count_for(server()), 1);
        assert_eq!(sources(&["10.0.0.4/31"]).count_for(server()), 2);
    }

    #[test]
    fn a_destination_of_the_other_family_gets_none_of_them() {
        let mut six = sources(&["fd00::1-fd00::2"]);
        assert_eq!(six.next_for(server()), None);
        assert_eq!(six.count_for("[::1]:80".parse().unwrap()), 2);
        assert_eq!(Sources::default().next_for(server()), None);
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_reason() {
        let refused = |text: &str| text.parse::<SourceRange>().unwrap_err();
        for text in ["", "localhost", "127.0.0", "127.0.0.2-", "1.2.3.4.5"] {
            assert!(matches!(refused(text), SourceError::Address { .. }), "{text}");
        }
        for text in ["127.0.0.9-127.0.0.2", "127.0.0.1-::1"] {
            assert!(matches!(refused(text), SourceError::Order { .. }), "{text}");
        }
        for text in ["127.0.0.0/0", "127.0.0.0/33", "127.0.0.0/", "::1/129"] {
            assert!(matches!(refused(text), SourceError::Prefix { .. }), "{text}");
        }
        for text in ["0.0.0.0", "::", "224.0.0.1"] {
            assert!(matches!(refused(text), SourceError::Unusable { .. }), "{text}");
        }
    }

    proptest! {
        #[test]
        fn one_round_gives_out_every_address_once(first in 1_u32..0x7fff_0000, count in 1_u32..200) {
            let last = Ipv4Addr::from(first + count - 1);
            let mut round = sources(&[&format!("{}-{last}", Ipv4Addr::from(first))]);
            let mut given = turns(&mut round, count as usize);
            given.sort();
            given.dedup();
            prop_assert_eq!(given.len(), count as usize);
        }
    }
}

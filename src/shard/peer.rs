//! Where a connection goes: an internet address or a unix socket. It opens nothing.

use socket2::SockAddr;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// The other end of connections.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A port of a machine.
    Internet(SocketAddr),
    /// A unix socket of this machine.
    Unix {
        /// Where it is.
        path: Arc<Path>,
        /// The same for the kernel.
        address: SockAddr,
    },
}

impl Peer {
    /// The unix socket at `path`.
    ///
    /// # Errors
    /// The path has more than 107 bytes.
    pub fn unix(path: &Path) -> Result<Self, io::Error> {
        Ok(Self::Unix { path: path.into(), address: SockAddr::unix(path)? })
    }

    /// The address and port; absent for a unix socket, which has none.
    pub fn internet(&self) -> Option<SocketAddr> {
        match self {
            Self::Internet(address) => Some(*address),
            Self::Unix { .. } => None,
        }
    }

    /// Whether the other end is on this machine.
    pub fn is_local(&self) -> bool {
        self.internet().is_none_or(|address| address.ip().is_loopback())
    }

    /// What the kernel connects to.
    pub fn address(&self) -> SockAddr {
        match self {
            Self::Internet(address) => SockAddr::from(*address),
            Self::Unix { address, .. } => address.clone(),
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::Internet(address)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Internet(address) => address.fmt(f),
            Self::Unix { path, .. } => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_the_kernel_has_no_room_for_is_refused() {
        let path = |bytes: usize| Path::new("/").join("a".repeat(bytes - 1));
        assert!(Peer::unix(&path(107)).is_ok_and(|peer| peer.is_local() && peer.internet().is_none()));
        assert!(Peer::unix(&path(108)).is_err());
    }
}

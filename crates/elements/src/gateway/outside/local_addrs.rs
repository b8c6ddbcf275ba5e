//! The node's own addresses on its Internet link. Packets to them belong to no flow.

use std::net::IpAddr;
use std::sync::Arc;

/// A node's addresses on its Internet link. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct LocalAddresses {
    all: Arc<[IpAddr]>,
    v4: Arc<[[u8; 4]]>,
    v6: Arc<[[u8; 16]]>,
}

impl LocalAddresses {
    /// Creates the set of these addresses.
    pub(crate) fn new(all: Arc<[IpAddr]>) -> Self {
        let v4 = |address: &IpAddr| match address {
            IpAddr::V4(address) => Some(address.octets()),
            IpAddr::V6(_) => None,
        };
        let v6 = |address: &IpAddr| match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => Some(address.octets()),
        };
        Self { v4: all.iter().filter_map(v4).collect(), v6: all.iter().filter_map(v6).collect(), all }
    }

    /// Whether the address is one of them.
    pub(crate) fn contains(&self, address: &IpAddr) -> bool {
        self.all.contains(address)
    }

    /// The IPv4 addresses, as they appear in packets.
    #[inline(always)]
    pub(crate) fn v4(&self) -> &[[u8; 4]] {
        &self.v4
    }

    /// The IPv6 addresses, as they appear in packets.
    #[inline(always)]
    pub(crate) fn v6(&self) -> &[[u8; 16]] {
        &self.v6
    }
}

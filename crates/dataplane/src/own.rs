//! The addresses of a node on its Internet link: what is for them is for no flow.

use std::net::IpAddr;
use std::sync::Arc;

/// A node's addresses on its Internet link. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct OwnAddresses {
    all: Arc<[IpAddr]>,
    v4: Arc<[[u8; 4]]>,
}

impl OwnAddresses {
    /// These.
    pub(crate) fn new(all: Arc<[IpAddr]>) -> Self {
        let octets = |address: &IpAddr| match address {
            IpAddr::V4(address) => Some(address.octets()),
            IpAddr::V6(_) => None,
        };
        Self { v4: all.iter().filter_map(octets).collect(), all }
    }

    /// Whether it is one of them.
    pub(crate) fn contains(&self, address: &IpAddr) -> bool {
        self.all.contains(address)
    }

    /// Those of IPv4, as they stand in packets.
    #[inline(always)]
    pub(crate) fn v4(&self) -> &[[u8; 4]] {
        &self.v4
    }
}

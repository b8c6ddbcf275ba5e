//! The addresses of a node on its Internet link: what is for them is for no flow.

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
    /// These.
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

    /// Whether it is one of them.
    pub(crate) fn contains(&self, address: &IpAddr) -> bool {
        self.all.contains(address)
    }

    /// Those of IPv4, as they stand in packets.
    #[inline(always)]
    pub(crate) fn v4(&self) -> &[[u8; 4]] {
        &self.v4
    }

    /// Those of IPv6, as they stand in packets.
    #[inline(always)]
    pub(crate) fn v6(&self) -> &[[u8; 16]] {
        &self.v6
    }
}

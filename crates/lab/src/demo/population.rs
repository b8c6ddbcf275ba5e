//! The subscribers of a synthetic run, pinned as by a controller.
//!
//! A flow is a function of the seed and its number, so packets can be built and checked without a table of a million flows, which
//! would displace the measured tables from the caches. Unique values are permutations of the number.

use super::mix::{hash, permute};
use super::regions::{REGIONS, Regions};
use scalebricks_apps::gateway::FlowSpec;
use scalebricks_elements::gateway::{BaseStation, BaseStationId};
use scalebricks_types::{ClusterSize, FiveTuple, FlowKey, KeyProfile, NodeId, Qfi, Teid};
use scalebricks_wire::{MacAddr, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Base stations per region.
const BASE_STATIONS_PER_REGION: u16 = 4;

/// Flows per UE with five-tuples as keys; with UEs as keys there is one.
const FLOWS_PER_UE: u32 = 4;

/// Percentage of UEs with IPv6.
const IPV6_PERCENT: u64 = 10;

/// Percentage of flows with a QFI.
const QFI_PERCENT: u64 = 30;

/// Salts that make the parts of a flow independent.
mod salt {
    pub(super) const UE: u64 = 1;
    pub(super) const UE_ADDRESS: u64 = 2;
    pub(super) const FLOW: u64 = 3;
    pub(super) const UPLINK_TEID: u64 = 4;
    pub(super) const DOWNLINK_TEID: u64 = 5;
}

/// All flows of a run.
#[derive(Debug, Clone)]
pub struct Population {
    seed: u64,
    flows: u32,
    key_profile: KeyProfile,
    regions: Regions,
}

/// One flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The five-tuple of its downstream packets.
    pub downstream: FiveTuple,
    /// The TEID at the gateway.
    pub uplink_teid: Teid,
    /// The TEID at the base station.
    pub downlink_teid: Teid,
    /// The base station of its UE.
    pub base_station: BaseStationId,
    /// Its QoS flow.
    pub qfi: Option<Qfi>,
    /// Its handling node.
    pub node: NodeId,
}

impl Population {
    /// Flows pinned to a cluster of this size.
    pub fn new(seed: u64, flows: u32, key_profile: KeyProfile, size: ClusterSize, skew: bool) -> Self {
        let regions = if skew { Regions::skewed(size) } else { Regions::even(size) };
        Self { seed, flows, key_profile, regions }
    }

    /// The number of flows.
    pub const fn flows(&self) -> u32 {
        self.flows
    }

    /// The approximate largest share of the flows at one node.
    pub fn largest_share(&self) -> f64 {
        self.regions.largest_share()
    }

    /// The flow with this number.
    pub fn flow(&self, number: u32) -> Flow {
        let (ue, of_ue) = match self.key_profile {
            KeyProfile::Flow5 => (number / FLOWS_PER_UE, number % FLOWS_PER_UE),
            KeyProfile::Ue | KeyProfile::Inside | KeyProfile::Nat44(_) => (number, 0),
        };
        let of_the_ue = hash(self.seed, salt::UE, u64::from(ue));
        let of_the_flow = hash(self.seed, salt::FLOW, u64::from(number));
        let region = (of_the_ue % u64::from(REGIONS)) as u16;
        let station = region * BASE_STATIONS_PER_REGION + (of_the_ue >> 16) as u16 % BASE_STATIONS_PER_REGION;
        let is_v6 = (of_the_ue >> 32) % 100 < IPV6_PERCENT;
        let (server, ue_address) = if is_v6 {
            (IpAddr::V6(server_v6(of_the_flow)), IpAddr::V6(self.ue_v6(ue, of_the_ue)))
        } else {
            (IpAddr::V4(server_v4(of_the_flow)), IpAddr::V4(self.ue_v4(ue)))
        };
        // The flows of a UE differ by its port. 20,000 + 4 ports from 40,000 on.
        let ue_port = 40_000 + (of_the_ue >> 40) as u16 % 20_000 + of_ue as u16;
        let has_qfi = (of_the_flow >> 32) % 100 < QFI_PERCENT;
        Flow {
            downstream: FiveTuple {
                src: server,
                dst: ue_address,
                protocol: if (of_the_flow >> 40).is_multiple_of(3) { protocol::UDP } else { protocol::TCP },
                src_port: [443, 443, 80, 8_080][(of_the_flow >> 60) as usize % 4],
                dst_port: ue_port,
            },
            uplink_teid: self.teid(salt::UPLINK_TEID, number),
            downlink_teid: self.teid(salt::DOWNLINK_TEID, number),
            base_station: BaseStationId(station),
            qfi: Qfi::new((of_the_flow >> 48) as u8 % 64).ok().filter(|_| has_qfi),
            node: self.regions.node(region),
        }
    }

    /// A flow as the controller pins it.
    pub fn spec(&self, number: u32) -> FlowSpec {
        let flow = self.flow(number);
        // Both addresses of a tuple have one family, so there is always a key.
        let key =
            self.key_profile.downstream_key(&flow.downstream).unwrap_or(FlowKey::ue(flow.downstream.dst));
        FlowSpec {
            key,
            uplink_teid: flow.uplink_teid,
            downlink_teid: flow.downlink_teid,
            base_station: flow.base_station,
            qfi: flow.qfi,
            node: flow.node,
        }
    }

    /// All base stations.
    pub fn base_stations() -> Vec<BaseStation> {
        (0..REGIONS * BASE_STATIONS_PER_REGION).map(|n| base_station(BaseStationId(n))).collect()
    }

    /// A unique address in 10.0.0.0/8, except its first and last address.
    fn ue_v4(&self, ue: u32) -> Ipv4Addr {
        // Cycle walking: a permutation of all 24-bit numbers, applied until it hits an allowed one, permutes those.
        let mut host = ue + 1;
        loop {
            host = permute(self.seed ^ salt::UE_ADDRESS, 24, host);
            if host != 0 && host != 0x00ff_ffff {
                return Ipv4Addr::from_bits(0x0a00_0000 | host);
            }
        }
    }

    /// An address in a unique /64 of `2001:db8::/32` (RFC 3849).
    fn ue_v6(&self, ue: u32, interface: u64) -> Ipv6Addr {
        let prefix = u64::from(permute(self.seed ^ salt::UE_ADDRESS, 32, ue));
        Ipv6Addr::from_bits(u128::from(0x2001_0db8_u64 << 32 | prefix) << 64 | u128::from(interface))
    }

    /// A unique TEID, never 0.
    fn teid(&self, salt: u64, number: u32) -> Teid {
        let mut teid = number + 1;
        loop {
            teid = permute(self.seed ^ salt, 32, teid);
            if teid != 0 {
                return Teid::new(teid);
            }
        }
    }
}

/// A base station in 172.16.0.0/16, whose MAC address ends with the same octets.
pub const fn base_station(id: BaseStationId) -> BaseStation {
    let [high, low] = id.0.to_be_bytes();
    BaseStation { address: Ipv4Addr::new(172, 16, high, low), mac: MacAddr([0x02, 0xb5, 0, 0, high, low]) }
}

/// An address in 198.18.0.0/15, reserved for benchmarks (RFC 2544).
fn server_v4(random: u64) -> Ipv4Addr {
    Ipv4Addr::from_bits(0xc612_0000 | random as u32 & 0x0001_ffff)
}

/// An address in `2001:2::/48`, reserved for benchmarks (RFC 5180).
fn server_v6(random: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(0x2001_0002_0000_u128 << 80 | u128::from(random as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn population(key_profile: KeyProfile) -> Population {
        Population::new(7, 50_000, key_profile, ClusterSize::new(4).unwrap(), false)
    }

    #[test]
    fn keys_and_teids_are_unique() {
        for profile in [KeyProfile::Flow5, KeyProfile::Ue] {
            let population = population(profile);
            let flows: Vec<_> = (0..50_000).map(|n| (population.spec(n), population.flow(n))).collect();
            let keys: HashSet<_> = flows.iter().map(|(spec, _)| spec.key).collect();
            let uplink: HashSet<_> = flows.iter().map(|(_, flow)| flow.uplink_teid).collect();
            let downlink: HashSet<_> = flows.iter().map(|(_, flow)| flow.downlink_teid).collect();
            assert_eq!([keys.len(), uplink.len(), downlink.len()], [50_000; 3], "{profile:?}");
        }
    }

    #[test]
    fn shares_of_ipv6_qfi_and_nodes_are_as_configured() {
        let population = population(KeyProfile::Flow5);
        let flows: Vec<_> = (0..50_000).map(|n| population.flow(n)).collect();
        let share = |is: &dyn Fn(&Flow) -> bool| flows.iter().filter(|f| is(f)).count() as f64 / 50_000.0;
        assert!((share(&|f| f.downstream.dst.is_ipv6()) - 0.10).abs() < 0.01);
        assert!((share(&|f| f.qfi.is_some()) - 0.30).abs() < 0.01);
        for node in 0..4 {
            assert!((share(&|f| f.node == NodeId::new(node)) - 0.25).abs() < 0.02);
        }
        assert!(flows.iter().all(|f| f.downstream.src.is_ipv4() == f.downstream.dst.is_ipv4()));
    }

    #[test]
    fn flows_of_a_ue_share_address_base_station_and_node() {
        let population = population(KeyProfile::Flow5);
        for number in (0..50_000).step_by(4) {
            let first = population.flow(number);
            for other in (1..4).map(|of_ue| population.flow(number + of_ue)) {
                assert_eq!(other.downstream.dst, first.downstream.dst);
                assert_eq!((other.base_station, other.node), (first.base_station, first.node));
            }
        }
    }

    #[test]
    fn populations_depend_on_the_seed() {
        let other = Population { seed: 8, ..population(KeyProfile::Flow5) };
        assert_ne!(population(KeyProfile::Flow5).flow(3), other.flow(3));
        assert_eq!(population(KeyProfile::Flow5).flow(3), population(KeyProfile::Flow5).flow(3));
    }

    #[test]
    fn base_stations_have_unique_addresses() {
        let stations = Population::base_stations();
        let addresses: HashSet<_> = stations.iter().map(|s| s.address).collect();
        assert_eq!(addresses.len(), 1_024);
        assert!(stations.iter().all(|s| !s.mac.is_multicast()));
    }
}

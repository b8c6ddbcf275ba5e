//! A flow as pinned by a controller, and its value in the log, the same at every node.

use scalebricks_elements::gateway::flow::{BaseStationId, FlowState};
use scalebricks_tables::FibValue;
use scalebricks_types::{FlowIndex, FlowKey, KeyProfile, NodeId, Qfi, Teid};
use std::net::{IpAddr, Ipv4Addr};

/// A flow as pinned by a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowSpec {
    /// The key of its downstream packets.
    pub key: FlowKey,
    /// The gateway's tunnel endpoint: upstream packets carry it. Unique in the cluster.
    pub uplink_teid: Teid,
    /// The base station's tunnel endpoint: downstream packets carry it.
    pub downlink_teid: Teid,
    /// The base station that serves the UE.
    pub base_station: BaseStationId,
    /// The QoS flow, if downstream packets carry a PDU session container.
    pub qfi: Option<Qfi>,
    /// The node it is pinned to.
    pub node: NodeId,
}

const NO_QFI: u8 = 0xff;

/// A flow without its node and counter slot: the node can change, and the slot is internal to the node.
///
/// | bits | word 0 | word 1 |
/// |---|---|---|
/// | 0–15 | downlink TEID | base station |
/// | 16–23 | downlink TEID | QFI, or 0xff |
/// | 24–31 | downlink TEID | zero |
/// | 32–63 | uplink TEID | zero |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PinnedState {
    /// The base station's tunnel endpoint: downstream packets carry it.
    pub downlink_teid: Teid,
    /// The gateway's tunnel endpoint: upstream packets carry it. It identifies the flow: keys with the same one share
    /// counters.
    pub uplink_teid: Teid,
    /// The base station that serves the UE.
    pub base_station: BaseStationId,
    /// The QoS flow, if downstream packets carry a PDU session container.
    pub qfi: Option<Qfi>,
}

impl PinnedState {
    /// The log value of each of the flow's keys.
    pub fn encode(&self) -> FibValue {
        let qfi = self.qfi.map_or(NO_QFI, Qfi::get);
        [
            u64::from(self.downlink_teid.get()) | u64::from(self.uplink_teid.get()) << 32,
            u64::from(self.base_station.0) | u64::from(qfi) << 16,
        ]
    }

    /// Decodes a value made by [`PinnedState::encode`]. Accepts any value, since log values cannot be refused. A QFI
    /// above 63 means none, and reserved bits are ignored.
    pub const fn decode(value: FibValue) -> Self {
        let [low, high] = value;
        Self {
            downlink_teid: Teid::new(low as u32),
            uplink_teid: Teid::new((low >> 32) as u32),
            base_station: BaseStationId(high as u16),
            qfi: match Qfi::new((high >> 16) as u8) {
                Ok(qfi) => Some(qfi),
                Err(_) => None, // NO_QFI is no QFI
            },
        }
    }

    /// The FIB entry of the flow: its handling node and counter slot.
    pub const fn at(&self, node: NodeId, index: FlowIndex) -> FlowState {
        FlowState { teid: self.downlink_teid, index, base_station: self.base_station, node, qfi: self.qfi }
    }

    /// The pinned flow, given the key of its downstream packets.
    pub const fn spec(&self, key: FlowKey, node: NodeId) -> FlowSpec {
        FlowSpec {
            key,
            uplink_teid: self.uplink_teid,
            downlink_teid: self.downlink_teid,
            base_station: self.base_station,
            qfi: self.qfi,
            node,
        }
    }
}

impl From<&FlowSpec> for PinnedState {
    fn from(spec: &FlowSpec) -> Self {
        Self {
            downlink_teid: spec.downlink_teid,
            uplink_teid: spec.uplink_teid,
            base_station: spec.base_station,
            qfi: spec.qfi,
        }
    }
}

impl FlowSpec {
    /// The pin of an inside host of a firewall or NAT. Its two keys are the host's address for packets from inside, and for
    /// packets from outside the address again, or the NAT's block of ports for it, which is computed. The address takes the
    /// place of the uplink TEID; public address and block that of the downlink TEID and the base station, to be seen.
    ///
    /// `None` for 0.0.0.0, for an address that a NAT has no block for, and for a gateway's profile.
    pub fn of_inside(profile: KeyProfile, inside: Ipv4Addr, node: NodeId) -> Option<Self> {
        let (key, public, block) = match profile {
            KeyProfile::Inside => (FlowKey::ue(IpAddr::V4(inside)), Ipv4Addr::UNSPECIFIED, 0),
            KeyProfile::Nat44(blocks) => {
                let (public, block) = blocks.of_inside(inside)?;
                (FlowKey::port_block(public, block), public, block)
            }
            KeyProfile::Flow5 | KeyProfile::Ue => return None,
        };
        let spec = Self {
            key,
            uplink_teid: Teid::new(inside.to_bits()),
            downlink_teid: Teid::new(public.to_bits()),
            base_station: BaseStationId(block),
            qfi: None,
            node,
        };
        (!inside.is_unspecified()).then_some(spec)
    }

    /// The keys of both directions.
    pub fn keys(&self) -> [FlowKey; 2] {
        [self.key, FlowKey::teid(self.uplink_teid)]
    }

    /// The log entries of the flow: the keys of both directions, with the same value.
    pub fn entries(&self) -> [(FlowKey, FibValue); 2] {
        let value = PinnedState::from(self).encode();
        self.keys().map(|key| (key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_flow_survives_its_value(downlink: u32, uplink: u32, station: u16, qfi in proptest::option::of(0u8..64)) {
            let state = PinnedState {
                downlink_teid: Teid::new(downlink),
                uplink_teid: Teid::new(uplink),
                base_station: BaseStationId(station),
                qfi: qfi.map(|qfi| Qfi::new(qfi).unwrap()),
            };
            let value = state.encode();
            prop_assert_eq!(PinnedState::decode(value), state);
            prop_assert_eq!(value[1] >> 24, 0, "reserved");
            let key = FlowKey::five_tuple_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, 1, 2);
            let spec = state.spec(key, NodeId::new(3));
            prop_assert_eq!(spec.entries(), [(key, value), (FlowKey::teid(Teid::new(uplink)), value)]);
            prop_assert_eq!(PinnedState::from(&spec), state);
        }

        #[test]
        fn any_value_reads_as_some_flow(value: FibValue) {
            let state = PinnedState::decode(value);
            prop_assert_eq!(PinnedState::decode(state.encode()), state);
        }
    }

    #[test]
    fn the_layout_is_what_the_table_says() {
        let state = PinnedState {
            downlink_teid: Teid::new(0x0102_0304),
            uplink_teid: Teid::new(0x8000_0001),
            base_station: BaseStationId(0x0506),
            qfi: Some(Qfi::new(9).unwrap()),
        };
        assert_eq!(state.encode(), [0x8000_0001_0102_0304, 0x0009_0506]);
        assert_eq!(PinnedState { qfi: None, ..state }.encode(), [0x8000_0001_0102_0304, 0x00ff_0506]);
    }
}

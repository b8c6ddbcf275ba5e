//! Flows as lines of a flow file: what [`flows`](super::flows) reads.

use super::columns::Column;
use scalebricks_apps::gateway::PinnedState;
use scalebricks_types::{FiveTuple, FlowKey, KeyParts, KeyProfile, NodeId, Qfi};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

/// Writes flow files.
#[derive(Debug, Clone)]
pub struct FlowLines {
    profile: KeyProfile,
    base_stations: Vec<Ipv4Addr>,
}

/// What came of writing a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// A line that can be read again.
    Line,
    /// A line without its base station, which the configuration has no more: whoever reads it has to add one.
    WithoutStation,
    /// Nothing: the key is not that of a flow in this profile, as an uplink TEID is not.
    Nothing,
}

impl FlowLines {
    /// For flows with such keys; base stations in the cluster's order.
    pub fn new(profile: KeyProfile, base_stations: &[Ipv4Addr]) -> Self {
        Self { profile, base_stations: base_stations.to_vec() }
    }

    /// The first line: the columns that flows with such keys need, and the QoS flow.
    pub fn header(&self) -> String {
        let is_there = |column: &Column| column.is_needed(self.profile) || *column == Column::Qfi;
        let names: Vec<&str> = Column::ALL.into_iter().filter(is_there).map(Column::name).collect();
        names.join(",") + "\n"
    }

    /// Writes a flow behind `out`. One flow has one line.
    pub fn write(&self, key: &FlowKey, node: NodeId, state: &PinnedState, out: &mut String) -> Written {
        // Writing to memory does not fail.
        let _named = match (self.profile, key.parts()) {
            (KeyProfile::Ue, Some(KeyParts::Ue(ue))) => write!(out, "{ue}"),
            (KeyProfile::Flow5, Some(KeyParts::FiveTuple(tuple))) => write_tuple(&tuple, out),
            _ => return Written::Nothing,
        };
        let station = self.base_stations.get(usize::from(state.base_station.0));
        let text = station.map_or_else(String::new, Ipv4Addr::to_string);
        let qfi = state.qfi.map_or_else(String::new, |qfi: Qfi| qfi.get().to_string());
        let (uplink, downlink) = (state.uplink_teid.get(), state.downlink_teid.get());
        let _done = writeln!(out, ",{},{text},{uplink},{downlink},{qfi}", node.get());
        if station.is_some() { Written::Line } else { Written::WithoutStation }
    }
}

/// The tuple of a downstream packet: its destination is the UE.
fn write_tuple(tuple: &FiveTuple, out: &mut String) -> std::fmt::Result {
    let FiveTuple { src, dst, protocol, src_port, dst_port }: &FiveTuple = tuple;
    let (remote, ue): (&IpAddr, &IpAddr) = (src, dst);
    write!(out, "{ue},{remote},{src_port},{dst_port},")?;
    match protocol {
        6 => out.write_str("tcp"),
        17 => out.write_str("udp"),
        other => write!(out, "{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_list::Reading;
    use proptest::prelude::*;
    use scalebricks_apps::gateway::FlowSpec;
    use scalebricks_console::Console;
    use scalebricks_elements::gateway::BaseStationId;
    use scalebricks_types::{ClusterSize, Teid};

    const STATIONS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2)];

    fn state(station: u16, teids: (u32, u32), qfi: Option<u8>) -> PinnedState {
        PinnedState {
            uplink_teid: Teid::new(teids.0),
            downlink_teid: Teid::new(teids.1),
            base_station: BaseStationId(station),
            qfi: qfi.map(|qfi| Qfi::new(qfi).unwrap()),
        }
    }

    fn read(profile: KeyProfile, file: &str) -> Vec<FlowSpec> {
        let reading = Reading { profile, size: ClusterSize::new(256).unwrap(), base_stations: &STATIONS };
        reading.read(file.as_bytes(), &Console::new(true).progress("flows", 0)).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_is_read_again(
            a: u128, b: u128, protocol: u8, ports: (u16, u16), six: bool, node: u8, station in 0..2_u16,
            teids in (1..u32::MAX, 1..u32::MAX), qfi in prop::option::of(0..64_u8),
        ) {
            let address = |bits: u128| if six { IpAddr::V6(bits.into()) } else { IpAddr::V4((bits as u32).into()) };
            let tuple = FiveTuple {
                src: address(a), dst: address(b), protocol, src_port: ports.0, dst_port: ports.1,
            };
            let state = state(station, teids, qfi);
            for profile in [KeyProfile::Ue, KeyProfile::Flow5] {
                let key = profile.downstream_key(&tuple).unwrap();
                let lines = FlowLines::new(profile, &STATIONS);
                let mut file = lines.header();
                prop_assert_eq!(lines.write(&key, NodeId::new(node), &state, &mut file), Written::Line);
                prop_assert_eq!(read(profile, &file), vec![state.spec(key, NodeId::new(node))]);
            }
        }
    }

    #[test]
    fn lines_look_like_this() {
        let lines = FlowLines::new(KeyProfile::Ue, &STATIONS);
        let mut file = lines.header();
        let ue = |text: &str| FlowKey::ue(text.parse().unwrap());
        let write = |key: FlowKey, station, file: &mut String| {
            lines.write(&key, NodeId::new(3), &state(station, (7, 0x20), None), file)
        };
        assert_eq!(write(ue("2001:db8::7"), 1, &mut file), Written::Line);
        assert_eq!(write(ue("10.0.0.1"), 2, &mut file), Written::WithoutStation);
        assert_eq!(write(FlowKey::teid(Teid::new(7)), 0, &mut file), Written::Nothing);
        let five = FlowKey::five_tuple_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, 1, 2);
        assert_eq!(write(five, 0, &mut file), Written::Nothing);
        let want = "ue,node,base_station,uplink_teid,downlink_teid,qfi\n\
                    2001:db8::,3,10.9.0.2,7,32,\n10.0.0.1,3,,7,32,\n";
        assert_eq!(file, want);
    }
}

//! A flow as named columns, and the conversion from and to the program's types.
//!
//! [`FlowRecord`] is the one row type: lines of flow files, JSON of the admin interface, query strings and exports use
//! it.

use scalebricks_apps::gateway::{FlowSpec, PinnedState};
use scalebricks_elements::gateway::flow::BaseStationId;
use scalebricks_types::{ClusterSize, FiveTuple, FlowKey, KeyParts, KeyProfile, NodeId, Qfi, Teid};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr};
use utoipa::ToSchema;

/// The type of a column.
pub trait ColumnType: Sized {
    /// The allowed values, for errors.
    const ALLOWED: &'static str;

    /// Parses a value.
    fn parse(text: &str) -> Option<Self>;

    /// The value as text, which [`Self::parse`] accepts.
    fn text(&self) -> String;
}

macro_rules! plain_columns {
    ($($type:ty: $allowed:literal,)+) => {$(
        impl ColumnType for $type {
            const ALLOWED: &'static str = $allowed;

            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }

            fn text(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

plain_columns! {
    IpAddr: "an IPv4 or IPv6 address",
    Ipv4Addr: "an IPv4 address",
    u16: "a port, 0 to 65535",
    usize: "the number of a node",
}

/// An IP protocol: `tcp`, `udp` or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol(pub u8);

impl ColumnType for Protocol {
    const ALLOWED: &'static str = "tcp, udp or a number up to 255";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "tcp" => Some(Self(6)),
            "udp" => Some(Self(17)),
            number => number.parse().ok().map(Self),
        }
    }

    fn text(&self) -> String {
        match self.0 {
            6 => "tcp".to_owned(),
            17 => "udp".to_owned(),
            number => number.to_string(),
        }
    }
}

impl ColumnType for Teid {
    const ALLOWED: &'static str = "1 to 4294967295 or 0x1 to 0xffffffff";

    fn parse(text: &str) -> Option<Self> {
        let number = match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        number.filter(|&number| number > 0).map(Self::new)
    }

    fn text(&self) -> String {
        self.get().to_string()
    }
}

impl ColumnType for Qfi {
    const ALLOWED: &'static str = "0 to 63, or empty";

    fn parse(text: &str) -> Option<Self> {
        Self::new(text.parse().ok()?).ok()
    }

    fn text(&self) -> String {
        self.get().to_string()
    }
}

/// A column of a flow. Text that is not of the column's type is kept, so that an error can name the flow and the
/// column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cell<T> {
    /// Missing or empty.
    #[default]
    Absent,
    /// A value.
    Value(T),
    /// Text that is not a value.
    Bad(String),
}

impl<T: ColumnType> Cell<T> {
    /// Parses text.
    pub fn parse(text: &str) -> Self {
        match T::parse(text) {
            _ if text.is_empty() => Self::Absent,
            Some(value) => Self::Value(value),
            None => Self::Bad(text.to_owned()),
        }
    }

    fn text(&self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::Value(value) => Some(value.text()),
            Self::Bad(text) => Some(text.clone()),
        }
    }

    /// The value, if there is one. `name` is the column's, for errors.
    fn optional(&self, name: &str) -> Result<Option<&T>, String> {
        match self {
            Self::Absent => Ok(None),
            Self::Value(value) => Ok(Some(value)),
            Self::Bad(text) => Err(format!("{name} '{text}' is not {}", T::ALLOWED)),
        }
    }

    fn required(&self, name: &str) -> Result<&T, String> {
        self.optional(name)?.ok_or_else(|| format!("{name} is missing"))
    }
}

impl<T: ColumnType> From<Option<&String>> for Cell<T> {
    fn from(text: Option<&String>) -> Self {
        text.map_or(Self::Absent, |text| Self::parse(text))
    }
}

impl<T: ColumnType> Serialize for Cell<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text().serialize(serializer)
    }
}

impl<'de, T: ColumnType> Deserialize<'de> for Cell<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrNumber<T>(PhantomData<T>);
        impl<T: ColumnType> Visitor<'_> for TextOrNumber<T> {
            type Value = Cell<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or a number from 0")
            }

            fn visit_unit<E: Error>(self) -> Result<Cell<T>, E> {
                Ok(Cell::Absent)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Cell<T>, E> {
                Ok(Cell::parse(&number.to_string()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Cell<T>, E> {
                Ok(Cell::parse(text))
            }
        }
        deserializer.deserialize_any(TextOrNumber(PhantomData))
    }
}

/// A column in the schema of the interface: text or a number.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Cell)]
#[expect(dead_code, reason = "it describes `Cell<T>` in the schema")]
enum AnyCell {
    /// Text.
    Text(String),
    /// A number.
    Number(u64),
}

/// A flow, or the columns that name it. Each call defines the columns that it accepts.
///
/// A flow is named by `ue` where UE addresses are the keys, or the addresses of inside hosts of a firewall or NAT, and by `ue`, `remote`, `remote_port`, `ue_port` and
/// `protocol` where five-tuples are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlowRecord {
    /// Address of the UE, IPv4 or IPv6; or of the inside host, IPv4.
    #[schema(value_type = Option<String>)]
    pub ue: Cell<IpAddr>,
    /// Address of the remote end.
    #[schema(value_type = Option<String>)]
    pub remote: Cell<IpAddr>,
    /// Port of the remote end.
    #[schema(value_type = Option<AnyCell>)]
    pub remote_port: Cell<u16>,
    /// Port of the UE.
    #[schema(value_type = Option<AnyCell>)]
    pub ue_port: Cell<u16>,
    /// `tcp`, `udp` or a number.
    #[schema(value_type = Option<AnyCell>)]
    pub protocol: Cell<Protocol>,
    /// Number of the handling node.
    #[schema(value_type = Option<AnyCell>)]
    pub node: Cell<usize>,
    /// Tunnel address of the base station, IPv4.
    #[schema(value_type = Option<String>)]
    pub base_station: Cell<Ipv4Addr>,
    /// TEID at the gateway: a number, or text with a number, hexadecimal after `0x`.
    #[schema(value_type = Option<AnyCell>)]
    pub uplink_teid: Cell<Teid>,
    /// TEID at the base station, in the same format.
    #[schema(value_type = Option<AnyCell>)]
    pub downlink_teid: Cell<Teid>,
    /// QoS flow, 0 to 63; absent or empty if downstream packets carry none.
    #[schema(value_type = Option<AnyCell>)]
    pub qfi: Cell<Qfi>,
}

/// The names of the columns, in the order of a file that this program writes.
pub const COLUMNS: [&str; 10] = [
    "ue",
    "remote",
    "remote_port",
    "ue_port",
    "protocol",
    "node",
    "base_station",
    "uplink_teid",
    "downlink_teid",
    "qfi",
];

/// The columns that name a flow.
pub const NAME: &[&str] = COLUMNS.split_at(5).0;

/// The columns of a pinned inside host of a firewall or NAT.
const PIN: &[&str] = &["ue", "node"];

impl FlowRecord {
    /// The columns as text, in the order of [`COLUMNS`].
    pub fn texts(&self) -> [Option<String>; COLUMNS.len()] {
        [
            self.ue.text(),
            self.remote.text(),
            self.remote_port.text(),
            self.ue_port.text(),
            self.protocol.text(),
            self.node.text(),
            self.base_station.text(),
            self.uplink_teid.text(),
            self.downlink_teid.text(),
            self.qfi.text(),
        ]
    }

    /// Checks that no other columns are present.
    ///
    /// # Errors
    /// The column that must be absent.
    pub fn only(&self, allowed: &[&str]) -> Result<(), String> {
        let mut present = COLUMNS.iter().zip(self.texts()).filter(|(_, text)| text.is_some());
        match present.find(|(name, _)| !allowed.contains(name)) {
            Some((name, _)) => Err(format!("{name} is not allowed in this call")),
            None => Ok(()),
        }
    }
}

/// Whether each flow of a cluster with these keys has this column.
pub fn is_needed(column: &str, profile: KeyProfile) -> bool {
    match column {
        "qfi" => false,
        "remote" | "remote_port" | "ue_port" | "protocol" => profile == KeyProfile::Flow5,
        "base_station" | "uplink_teid" | "downlink_teid" => !profile.is_of_appliance(),
        _ => true,
    }
}

/// Converts between records and flows of one cluster.
#[derive(Debug, Clone)]
pub struct FlowParser {
    profile: KeyProfile,
    size: ClusterSize,
    stations: HashMap<Ipv4Addr, u16>,
    base_stations: Vec<Ipv4Addr>,
}

impl FlowParser {
    /// Creates a parser from the cluster's key profile, its number of nodes, and the tunnel addresses of its base
    /// stations in the cluster's order.
    pub fn new(profile: KeyProfile, size: ClusterSize, base_stations: &[Ipv4Addr]) -> Self {
        let stations = base_stations.iter().copied().zip(0..).collect();
        Self { profile, size, stations, base_stations: base_stations.to_vec() }
    }

    /// The cluster's key profile.
    pub const fn profile(&self) -> KeyProfile {
        self.profile
    }

    /// The number of nodes.
    pub const fn size(&self) -> ClusterSize {
        self.size
    }

    /// The tunnel addresses of the base stations, in the cluster's order.
    pub fn base_stations(&self) -> &[Ipv4Addr] {
        &self.base_stations
    }

    /// The flow of a record.
    ///
    /// # Errors
    /// The wrong column, and the values that are allowed there.
    pub fn flow(&self, record: &FlowRecord) -> Result<FlowSpec, String> {
        let node = self.node(record)?;
        if self.profile.is_of_appliance() {
            record.only(PIN)?;
            return self.pin(record, node);
        }
        let key = self.key(record)?;
        let station = record.base_station.required("base_station")?;
        let base_station = self.stations.get(station).copied().map(BaseStationId);
        Ok(FlowSpec {
            key,
            node,
            base_station: base_station
                .ok_or_else(|| format!("base_station {station} is not in the configuration"))?,
            qfi: record.qfi.optional("qfi")?.copied(),
            uplink_teid: self.uplink_teid(record)?,
            downlink_teid: *record.downlink_teid.required("downlink_teid")?,
        })
    }

    /// The pin of an inside host.
    fn pin(&self, record: &FlowRecord, node: NodeId) -> Result<FlowSpec, String> {
        let inside = match *record.ue.required("ue")? {
            IpAddr::V4(inside) => FlowSpec::of_inside(self.profile, inside, node),
            IpAddr::V6(_) => None,
        };
        inside.ok_or_else(|| {
            let ue = record.ue.text().unwrap_or_default();
            match self.profile {
                KeyProfile::Nat44(blocks) => {
                    let (first, length) = blocks.inside();
                    format!("ue {ue} is not an inside address of the NAT, in {first}/{length}")
                }
                _ => format!("ue {ue} is not the IPv4 address of an inside host"),
            }
        })
    }

    /// The key of the flow's downstream packets, which names the flow.
    ///
    /// # Errors
    /// The wrong column, and the values that are allowed there.
    pub fn key(&self, record: &FlowRecord) -> Result<FlowKey, String> {
        if self.profile.is_of_appliance() {
            return self.pin(record, NodeId::new(0)).map(|pin| pin.key);
        }
        let ue = *record.ue.required("ue")?;
        if self.profile == KeyProfile::Ue {
            return Ok(FlowKey::ue(ue));
        }
        let src = *record.remote.required("remote")?;
        let tuple = FiveTuple {
            src,
            dst: ue,
            protocol: record.protocol.required("protocol")?.0,
            src_port: *record.remote_port.required("remote_port")?,
            dst_port: *record.ue_port.required("ue_port")?,
        };
        FlowKey::five_tuple(&tuple)
            .ok_or_else(|| format!("ue {ue} and remote {src} are of different address families"))
    }

    /// The handling node.
    ///
    /// # Errors
    /// The wrong number.
    pub fn node(&self, record: &FlowRecord) -> Result<NodeId, String> {
        let (number, size) = (*record.node.required("node")?, self.size.get());
        if number >= size {
            return Err(format!("node {number} of a cluster of {size} (numbered from 0)"));
        }
        Ok(NodeId::new(number as u8)) // less than the size of a cluster
    }

    /// The TEID at the gateway.
    ///
    /// # Errors
    /// The wrong column, and the values that are allowed there.
    pub fn uplink_teid(&self, record: &FlowRecord) -> Result<Teid, String> {
        record.uplink_teid.required("uplink_teid").copied()
    }

    /// The record of a flow; `None` if the key is not one of this profile, as an uplink TEID is not. A base station
    /// that is not in the configuration is absent.
    pub fn record(&self, key: &FlowKey, node: NodeId, state: &PinnedState) -> Option<FlowRecord> {
        let name = match (self.profile, key.parts()?) {
            (KeyProfile::Inside, KeyParts::Ue(_)) | (KeyProfile::Nat44(_), KeyParts::PortBlock(..)) => {
                let inside = IpAddr::V4(Ipv4Addr::from_bits(state.uplink_teid.get()));
                let node = Cell::Value(node.get().into());
                return Some(FlowRecord { ue: Cell::Value(inside), node, ..FlowRecord::default() });
            }
            (KeyProfile::Ue, KeyParts::Ue(ue)) => FlowRecord { ue: Cell::Value(ue), ..FlowRecord::default() },
            (KeyProfile::Flow5, KeyParts::FiveTuple(tuple)) => FlowRecord {
                ue: Cell::Value(tuple.dst), // of a downstream packet
                remote: Cell::Value(tuple.src),
                remote_port: Cell::Value(tuple.src_port),
                ue_port: Cell::Value(tuple.dst_port),
                protocol: Cell::Value(Protocol(tuple.protocol)),
                ..FlowRecord::default()
            },
            _ => return None,
        };
        let station = self.base_stations.get(usize::from(state.base_station.0));
        Some(FlowRecord {
            node: Cell::Value(node.get().into()),
            base_station: station.copied().map_or(Cell::Absent, Cell::Value),
            uplink_teid: Cell::Value(state.uplink_teid),
            downlink_teid: Cell::Value(state.downlink_teid),
            qfi: state.qfi.map_or(Cell::Absent, Cell::Value),
            ..name
        })
    }

    /// The first line of a file: the columns that flows of this cluster need, and the QoS flow.
    pub fn header(&self) -> String {
        self.line(&COLUMNS)
    }

    /// A record as a line of a file with this [header](Self::header).
    pub fn file_line(&self, record: &FlowRecord) -> String {
        self.line(&record.texts().map(Option::unwrap_or_default))
    }

    fn line<T: AsRef<str>>(&self, texts: &[T; COLUMNS.len()]) -> String {
        let has_qfi = !self.profile.is_of_appliance();
        let in_file = |column: &str| has_qfi && column == "qfi" || is_needed(column, self.profile);
        let texts = COLUMNS.iter().zip(texts).filter(|(column, _)| in_file(column));
        texts.map(|(_, text)| text.as_ref()).collect::<Vec<_>>().join(",") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_list::Reading;
    use proptest::prelude::*;
    use scalebricks_console::Console;

    const STATIONS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2)];

    #[test]
    fn a_pin_is_an_inside_address_and_a_node() {
        let blocks = "10.1.0.0/24:192.0.2.0/30:1024:512".parse().unwrap();
        for profile in [KeyProfile::Inside, KeyProfile::Nat44(blocks)] {
            let parser = parser(profile);
            assert_eq!(parser.header(), "ue,node\n");
            let file = "node,ue\n3,10.1.0.7\n1,10.1.0.126\n";
            let pins = read(profile, file);
            let lines: String = pins
                .iter()
                .map(|pin| parser.file_line(&parser.record(&pin.key, pin.node, &pin.into()).unwrap()))
                .collect();
            assert_eq!(lines, "10.1.0.7,3\n10.1.0.126,1\n");
            assert_eq!(pins[0].keys()[1], FlowKey::inside([10, 1, 0, 7].into()));
            let (seven, other) = if profile == KeyProfile::Inside {
                (FlowKey::ue([10, 1, 0, 7].into()), FlowKey::ue([10, 1, 0, 126].into()))
            } else {
                let block = |last, block| FlowKey::port_block([192, 0, 2, last].into(), block);
                (block(0, 7), block(1, 0))
            };
            assert_eq!((pins[0].key, pins[1].key), (seven, other));
            let wrong = |ue: &str| {
                let record =
                    FlowRecord { ue: Cell::parse(ue), node: Cell::Value(0), ..FlowRecord::default() };
                parser.flow(&record).unwrap_err()
            };
            assert!(wrong("2001:db8::1").starts_with("ue 2001:db8::1 is not "));
            assert!(wrong("0.0.0.0").starts_with("ue 0.0.0.0 is not "));
        }
    }

    fn parser(profile: KeyProfile) -> FlowParser {
        FlowParser::new(profile, ClusterSize::new(256).unwrap(), &STATIONS)
    }

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
        fn written_flows_are_read_again(
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
                let parser = parser(profile);
                let record = parser.record(&key, NodeId::new(node), &state).unwrap();
                let file = parser.header() + &parser.file_line(&record);
                prop_assert_eq!(read(profile, &file), vec![state.spec(key, NodeId::new(node))]);
                let json = serde_json::to_string(&record).unwrap();
                prop_assert_eq!(serde_json::from_str::<FlowRecord>(&json).unwrap(), record);
            }
        }
    }

    #[test]
    fn lines_have_the_columns_of_the_profile() {
        let parser = parser(KeyProfile::Ue);
        let ue = |text: &str| FlowKey::ue(text.parse().unwrap());
        let record =
            |key: FlowKey, station| parser.record(&key, NodeId::new(3), &state(station, (7, 0x20), None));
        let line = |key, station| parser.file_line(&record(key, station).unwrap());
        assert_eq!(parser.header(), "ue,node,base_station,uplink_teid,downlink_teid,qfi\n");
        assert_eq!(line(ue("2001:db8::7"), 1), "2001:db8::,3,10.9.0.2,7,32,\n");
        assert_eq!(line(ue("10.0.0.1"), 2), "10.0.0.1,3,,7,32,\n", "the base station is not configured");
        assert_eq!(record(ue("10.0.0.1"), 2).unwrap().base_station, Cell::Absent);
        assert_eq!(record(FlowKey::teid(Teid::new(7)), 0), None);
        assert_eq!(
            record(FlowKey::five_tuple_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, 1, 2), 0),
            None
        );
    }
}

//! A flow as named columns of text, wherever they stand: in a line of a file, or in an object of the admin interface.
//!
//! The columns are those of a flow file, and all who read them refuse the same with the same words.

use scalebricks_apps::gateway::FlowSpec;
use scalebricks_elements::gateway::flow::BaseStationId;
use scalebricks_types::{ClusterSize, FiveTuple, FlowKey, KeyProfile, NodeId, Qfi, Teid};
use std::borrow::Cow;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Column {
    /// Address of the UE.
    Ue,
    /// Address of the remote end.
    Remote,
    /// Its port.
    RemotePort,
    /// The UE's port.
    UePort,
    /// `tcp`, `udp` or a number.
    Protocol,
    /// Number of the handling node.
    Node,
    /// Tunnel address of the base station.
    BaseStation,
    /// The tunnel at the gateway's end.
    UplinkTeid,
    /// The tunnel at the base station's end.
    DownlinkTeid,
    /// The QoS flow.
    Qfi,
}

impl Column {
    /// All of them, in the order of a file that this program writes.
    pub const ALL: [Self; 10] = [
        Self::Ue,
        Self::Remote,
        Self::RemotePort,
        Self::UePort,
        Self::Protocol,
        Self::Node,
        Self::BaseStation,
        Self::UplinkTeid,
        Self::DownlinkTeid,
        Self::Qfi,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ue => "ue",
            Self::Remote => "remote",
            Self::RemotePort => "remote_port",
            Self::UePort => "ue_port",
            Self::Protocol => "protocol",
            Self::Node => "node",
            Self::BaseStation => "base_station",
            Self::UplinkTeid => "uplink_teid",
            Self::DownlinkTeid => "downlink_teid",
            Self::Qfi => "qfi",
        }
    }

    /// The column of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.name() == name)
    }

    /// Whether a flow needs it where this is its key.
    pub fn is_needed(self, profile: KeyProfile) -> bool {
        match self {
            Self::Qfi => false,
            Self::Remote | Self::RemotePort | Self::UePort | Self::Protocol => profile == KeyProfile::Flow5,
            _ => true,
        }
    }
}

/// What stands in the columns.
pub trait Columns {
    /// What stands in a column, if it is there.
    ///
    /// # Errors
    /// What is wrong if it is no text.
    fn text(&self, column: Column) -> Result<Option<Cow<'_, str>>, String>;
}

/// Makes flows of columns.
#[derive(Debug, Clone)]
pub struct FlowParser {
    profile: KeyProfile,
    size: ClusterSize,
    stations: HashMap<Ipv4Addr, u16>,
    base_stations: Vec<Ipv4Addr>,
}

impl FlowParser {
    /// For the flows of a cluster: what of a downstream packet is its key, how many nodes there are, and the tunnel addresses of
    /// the base stations, in the cluster's order.
    pub fn new(profile: KeyProfile, size: ClusterSize, base_stations: &[Ipv4Addr]) -> Self {
        let stations = base_stations.iter().copied().zip(0..).collect();
        Self { profile, size, stations, base_stations: base_stations.to_vec() }
    }

    /// What of a downstream packet is its key.
    pub const fn profile(&self) -> KeyProfile {
        self.profile
    }

    /// How many nodes there are.
    pub const fn size(&self) -> ClusterSize {
        self.size
    }

    /// The tunnel addresses of the base stations, in the cluster's order.
    pub fn base_stations(&self) -> &[Ipv4Addr] {
        &self.base_stations
    }

    /// The flow.
    ///
    /// # Errors
    /// Which column is wrong, and what is allowed there.
    pub fn flow(&self, columns: &impl Columns) -> Result<FlowSpec, String> {
        let key = self.key(columns)?;
        let node = self.node(columns)?;
        let station: Ipv4Addr = parse(columns, Column::BaseStation, "an IPv4 address")?;
        let base_station = self
            .stations
            .get(&station)
            .map(|&station| BaseStationId(station))
            .ok_or_else(|| format!("base_station {station} is not in the configuration"))?;
        let qfi = match columns.text(Column::Qfi)?.as_deref() {
            None | Some("") => None,
            Some(_) => {
                let qfi: u8 = parse(columns, Column::Qfi, "0 to 63, or nothing")?;
                Some(Qfi::new(qfi).map_err(|_| format!("qfi {qfi} is not 0 to 63"))?)
            }
        };
        Ok(FlowSpec {
            key,
            uplink_teid: teid(columns, Column::UplinkTeid)?,
            downlink_teid: teid(columns, Column::DownlinkTeid)?,
            base_station,
            qfi,
            node,
        })
    }

    /// The key of the flow's downstream packets, which names it.
    ///
    /// # Errors
    /// Which column is wrong, and what is allowed there.
    pub fn key(&self, columns: &impl Columns) -> Result<FlowKey, String> {
        let ue: IpAddr = parse(columns, Column::Ue, "an IPv4 or IPv6 address")?;
        match self.profile {
            KeyProfile::Ue => Ok(FlowKey::ue(ue)),
            KeyProfile::Flow5 => {
                let src: IpAddr = parse(columns, Column::Remote, "an IPv4 or IPv6 address")?;
                let protocol = match needed(columns, Column::Protocol)?.as_ref() {
                    "tcp" => 6,
                    "udp" => 17,
                    _ => parse(columns, Column::Protocol, "tcp, udp or a number up to 255")?,
                };
                let src_port = parse(columns, Column::RemotePort, "a port, 0 to 65535")?;
                let dst_port = parse(columns, Column::UePort, "a port, 0 to 65535")?;
                FlowKey::five_tuple(&FiveTuple { src, dst: ue, protocol, src_port, dst_port })
                    .ok_or_else(|| format!("ue {ue} and remote {src} are of two families"))
            }
        }
    }

    /// The node.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn node(&self, columns: &impl Columns) -> Result<NodeId, String> {
        let number: usize = parse(columns, Column::Node, "the number of a node")?;
        if number >= self.size.get() {
            return Err(format!("node {number} of a cluster of {} (numbered from 0)", self.size.get()));
        }
        Ok(NodeId::new(number as u8)) // below the size of a cluster
    }
}

/// The tunnel in a column.
///
/// # Errors
/// What is wrong with it.
pub fn teid(columns: &impl Columns, column: Column) -> Result<Teid, String> {
    let text = needed(columns, column)?;
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let teid = number.filter(|&number| number > 0);
    teid.map(Teid::new)
        .ok_or_else(|| format!("{} '{text}' is not 1 to 4294967295 or 0x1 to 0xffffffff", column.name()))
}

fn needed(columns: &impl Columns, column: Column) -> Result<Cow<'_, str>, String> {
    columns.text(column)?.ok_or_else(|| format!("{} is missing", column.name()))
}

fn parse<T: FromStr>(columns: &impl Columns, column: Column, allowed: &str) -> Result<T, String> {
    let text = needed(columns, column)?;
    text.parse().map_err(|_| format!("{} '{text}' is not {allowed}", column.name()))
}

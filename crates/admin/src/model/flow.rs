//! Flows, as a controller pins them.

use crate::flow_list::columns::{Column, Columns};
use scalebricks_elements::gateway::FlowCount;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::net::Ipv4Addr;
use utoipa::ToSchema;

/// Most flows of one call.
pub const MAX_FLOWS: usize = 5_000;

/// Flows with problems that an answer tells of.
pub const MAX_PROBLEMS: usize = 20;

/// A flow, or what names it: the columns of a flow file, of which each call says those that it takes.
///
/// A flow is named by `ue` where UE addresses are the keys, and by `ue`, `remote`, `remote_port`, `ue_port` and `protocol`
/// where five-tuples are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlowRecord {
    /// Address of the UE, IPv4 or IPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub ue: Option<Cell>,
    /// Address of the remote end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub remote: Option<Cell>,
    /// Its port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_port: Option<Cell>,
    /// The UE's port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ue_port: Option<Cell>,
    /// `tcp`, `udp` or a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Cell>,
    /// Number of the handling node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Cell>,
    /// Tunnel address of the base station, IPv4.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub base_station: Option<Cell>,
    /// The tunnel at the gateway's end: a number, or text with one, hexadecimal after `0x`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uplink_teid: Option<Cell>,
    /// The tunnel at the base station's end, in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downlink_teid: Option<Cell>,
    /// The QoS flow, 0 to 63; none or empty if downstream packets carry none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qfi: Option<Cell>,
}

impl FlowRecord {
    /// What stands in a column.
    pub const fn cell(&self, column: Column) -> Option<&Cell> {
        match column {
            Column::Ue => &self.ue,
            Column::Remote => &self.remote,
            Column::RemotePort => &self.remote_port,
            Column::UePort => &self.ue_port,
            Column::Protocol => &self.protocol,
            Column::Node => &self.node,
            Column::BaseStation => &self.base_station,
            Column::UplinkTeid => &self.uplink_teid,
            Column::DownlinkTeid => &self.downlink_teid,
            Column::Qfi => &self.qfi,
        }
        .as_ref()
    }

    /// A record of texts.
    pub fn of(mut text: impl FnMut(Column) -> Option<String>) -> Self {
        let mut cell = |column| text(column).map(Cell::Text);
        Self {
            ue: cell(Column::Ue),
            remote: cell(Column::Remote),
            remote_port: cell(Column::RemotePort),
            ue_port: cell(Column::UePort),
            protocol: cell(Column::Protocol),
            node: cell(Column::Node),
            base_station: cell(Column::BaseStation),
            uplink_teid: cell(Column::UplinkTeid),
            downlink_teid: cell(Column::DownlinkTeid),
            qfi: cell(Column::Qfi),
        }
    }
}

impl Columns for FlowRecord {
    fn text(&self, column: Column) -> Result<Option<Cow<'_, str>>, String> {
        Ok(self.cell(column).map(|cell| match cell {
            Cell::Text(text) => Cow::Borrowed(text.as_str()),
            Cell::Number(number) => Cow::Owned(number.to_string()),
        }))
    }
}

/// What stands in a column: text, or a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A number.
    Number(u64),
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Cell;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or a number from 0 on")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Cell, E> {
                Ok(Cell::Number(number))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Cell, E> {
                Ok(Cell::Text(text.to_owned()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Cell, E> {
                Ok(Cell::Text(text))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// Up to [`MAX_FLOWS`] of something: what is longer is refused where the limit is passed, before it takes memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Few<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
            type Value = Few<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an array of up to {MAX_FLOWS} flows")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Few<T>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    if items.len() == MAX_FLOWS {
                        return Err(A::Error::custom(format!("more than {MAX_FLOWS} flows in one call")));
                    }
                    items.push(item);
                }
                Ok(Few(items))
            }
        }
        deserializer.deserialize_seq(Bounded(PhantomData))
    }
}

/// What is in the log now, and was executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowsAccepted {
    /// Flows of the call that were accepted.
    pub accepted: u64,
    /// Of flows to be deleted, those that were not there.
    pub absent: u64,
    /// Whether all living nodes are known to have applied it; only a call that waits finds out.
    pub is_applied: bool,
}

/// Why flows were not accepted. None of the call was, unless `error` says that the others are done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowsProblem {
    /// In words.
    pub error: String,
    /// The first flows that are wrong, twenty at most.
    #[serde(default)]
    pub flows: Vec<FlowProblem>,
}

/// What is wrong with a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowProblem {
    /// Its place in the call, from 0.
    pub index: u64,
    /// Which field is wrong, and what is allowed there.
    pub error: String,
}

/// A flow, as the owner of its key has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PinnedFlow {
    /// The node that handles the packets of the direction that was asked for: downstream by the UE or the five-tuple, upstream by
    /// the uplink TEID. Both directions are at one node but while the flow moves.
    pub node: u16,
    /// Tunnel address of the base station; none if the configuration has it no more.
    #[schema(value_type = Option<String>)]
    pub base_station: Option<Ipv4Addr>,
    /// The tunnel at the gateway's end.
    pub uplink_teid: u32,
    /// The tunnel at the base station's end.
    pub downlink_teid: u32,
    /// The QoS flow.
    pub qfi: Option<u8>,
    /// What it has carried; none if its handling node did not say.
    #[serde(default)]
    pub carried: Option<Carried>,
}

/// What a flow has carried, as its handling node has it: there and at the nodes it was at before. Counters of a flow that has just
/// moved come after it. Packets and bytes of inner IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Carried {
    /// Packets to the UE.
    pub downstream_packets: u64,
    /// Their bytes.
    pub downstream_bytes: u64,
    /// Packets from the UE.
    pub upstream_packets: u64,
    /// Their bytes.
    pub upstream_bytes: u64,
}

impl From<FlowCount> for Carried {
    fn from(count: FlowCount) -> Self {
        let FlowCount { downstream_packets, downstream_bytes, upstream_packets, upstream_bytes } = count;
        Self { downstream_packets, downstream_bytes, upstream_packets, upstream_bytes }
    }
}

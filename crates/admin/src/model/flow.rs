//! Requests and answers about flows.

use scalebricks_elements::gateway::FlowCount;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::marker::PhantomData;
use std::net::Ipv4Addr;
use utoipa::ToSchema;

/// Most flows in one call.
pub const MAX_FLOWS: usize = 5_000;

/// Most flows with problems that an answer lists.
pub const MAX_PROBLEMS: usize = 20;

/// Up to [`MAX_FLOWS`] items. A longer list is refused as soon as it passes the limit, before it takes memory.
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

/// Changes that are in the log and were executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowsAccepted {
    /// Flows of the call that were accepted.
    pub accepted: u64,
    /// Flows to be deleted that did not exist.
    pub absent: u64,
    /// Whether all living nodes are known to have applied the changes; only a call that waits finds out.
    pub is_applied: bool,
}

/// Why flows were not accepted. No flow of the call was accepted, unless `error` says that the others are done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowsProblem {
    /// The error as text.
    pub error: String,
    /// The first wrong flows, at most twenty.
    #[serde(default)]
    pub flows: Vec<FlowProblem>,
}

/// The problem with a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowProblem {
    /// Index of the flow in the call, from 0.
    pub index: u64,
    /// The wrong field, and the values that are allowed there.
    pub error: String,
}

/// A flow, as stored by the owner of its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PinnedFlow {
    /// The node that handles the packets of the requested direction: downstream for the UE or the five-tuple, upstream
    /// for the uplink TEID. Both directions are at one node, except while the flow moves.
    pub node: u16,
    /// Tunnel address of the base station; none if it is no longer in the configuration.
    #[schema(value_type = Option<String>)]
    pub base_station: Option<Ipv4Addr>,
    /// TEID at the gateway.
    pub uplink_teid: u32,
    /// TEID at the base station.
    pub downlink_teid: u32,
    /// The QoS flow.
    pub qfi: Option<u8>,
    /// Its traffic counters; none if its handling node did not report them.
    #[serde(default)]
    pub carried: Option<Carried>,
}

/// Traffic counters of a flow, at its handling node and at the nodes where it was before. The counters of a flow that
/// has just moved arrive later than the flow. They count inner IP packets and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Carried {
    /// Packets to the UE.
    pub downstream_packets: u64,
    /// Bytes to the UE.
    pub downstream_bytes: u64,
    /// Packets from the UE.
    pub upstream_packets: u64,
    /// Bytes from the UE.
    pub upstream_bytes: u64,
}

impl From<FlowCount> for Carried {
    fn from(count: FlowCount) -> Self {
        let FlowCount { downstream_packets, downstream_bytes, upstream_packets, upstream_bytes } = count;
        Self { downstream_packets, downstream_bytes, upstream_packets, upstream_bytes }
    }
}

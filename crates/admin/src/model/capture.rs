//! Capture requests.

use super::PortRole;
use crate::inspect::CaptureError;
use scalebricks_apps::gateway::filter::Filter;
use scalebricks_elements::gateway::DropReason;
use scalebricks_graph::tap::{DropSelection, Selection};
use scalebricks_types::Teid;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use utoipa::ToSchema;

/// Most bytes kept of a frame: the largest frame.
pub const MAX_SNAP_BYTES: u32 = 65_597;

/// A capture request: frames at ports, packets on edges of the graph, dropped packets, or all of them. All given
/// conditions on addresses and tunnels must hold, for any header of the frame.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CaptureRequest {
    /// The ports; empty: all.
    pub ports: Vec<PortRole>,
    /// Received frames, sent frames, both, or no frames at ports.
    pub direction: Direction,
    /// Whether dropped packets are captured.
    pub drops: bool,
    /// Reasons of captured drops, by the names of their counters; empty: all.
    pub drop_reasons: Vec<String>,
    /// Edges of the graph, by the element and output where they start: `steer.0`.
    pub edges: Vec<String>,
    /// Only packets from or to this address, in the outer packet, the inner packet or an ARP message.
    #[schema(value_type = Option<String>)]
    pub host: Option<IpAddr>,
    /// Only packets in this tunnel.
    pub teid: Option<u32>,
    /// Only packets from or to this UDP port, in the outer or the inner packet.
    pub udp_port: Option<u16>,
    /// Ends after this many frames.
    #[schema(minimum = 1)]
    pub count: Option<u64>,
    /// Ends after this many seconds.
    #[schema(minimum = 1)]
    pub seconds: Option<u32>,
    /// Bytes kept of each frame; default: all.
    #[schema(minimum = 1, maximum = 65597)]
    pub snap_bytes: Option<u32>,
}

/// Direction of frames at a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Received, before the node processes it
    Rx,
    /// Sent
    Tx,
    /// Both
    #[default]
    Both,
    /// Neither: drops or edges only
    None,
}

impl CaptureRequest {
    /// The selection for the data plane.
    ///
    /// # Errors
    /// [`CaptureError::BadRequest`] if it selects nothing, or names an unknown drop reason.
    pub fn selection(&self) -> Result<Selection, CaptureError> {
        let bad = |what: &str| Err(CaptureError::BadRequest(what.to_owned()));
        let mut reasons = Vec::new();
        for name in &self.drop_reasons {
            match DropReason::ALL.iter().find(|reason| reason.name() == name) {
                Some(reason) => reasons.push(reason.name()),
                None => return bad(&format!("no drop reason is called '{name}'")),
            }
        }
        if self.direction == Direction::None && !self.drops && self.edges.is_empty() {
            return bad("the request selects nothing: neither frames at ports nor drops nor edges");
        }
        let mut edges = Vec::new();
        for edge in &self.edges {
            match edge
                .rsplit_once('.')
                .and_then(|(from, output)| Some((from.to_owned(), output.parse().ok()?)))
            {
                Some(edge) => edges.push(edge),
                None => {
                    return bad(&format!(
                        "'{edge}' is not an edge: name an element and its output, as in steer.0"
                    ));
                }
            }
        }
        if self.count == Some(0) || self.seconds == Some(0) {
            return bad("a capture of 0 frames or 0 seconds");
        }
        let snap_bytes = self.snap_bytes.unwrap_or(MAX_SNAP_BYTES);
        if !(1..=MAX_SNAP_BYTES).contains(&snap_bytes) {
            return bad(&format!("snap_bytes is not 1 to {MAX_SNAP_BYTES}"));
        }
        let ports = if self.ports.is_empty() { &PortRole::ALL[..] } else { &self.ports };
        Ok(Selection {
            ports: ports.iter().map(|role| role.port() as usize).collect(),
            received: matches!(self.direction, Direction::Rx | Direction::Both),
            sent: matches!(self.direction, Direction::Tx | Direction::Both),
            edges,
            drops: match (self.drops, reasons.is_empty()) {
                (false, _) => DropSelection::None,
                (true, true) => DropSelection::All,
                (true, false) => DropSelection::Of(reasons),
            },
            filter: Some(Box::new(Filter {
                host: self.host,
                teid: self.teid.map(Teid::new),
                udp_port: self.udp_port,
            })),
            snap_bytes: snap_bytes as usize,
        })
    }
}

//! The four ways to spread one FIB over a cluster (ScaleBricks, Figure 2).

use std::fmt;
use std::str::FromStr;

/// Which tables each node holds, and the path of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// Every node holds the whole FIB; the ingress node finds the handling node in it. One hop.
    FullDuplication,
    /// The node given by a flow's hash stores its location; packets go there first. Up to two hops.
    HashPartition,
    /// Every node holds the whole FIB; each packet goes through a random intermediate node, which does not parse it
    /// (RouteBricks). Up to two hops.
    Vlb,
    /// Every node holds a few bits per flow that name its handling node, which alone holds the FIB entry. One hop.
    ScaleBricks,
}

impl Architecture {
    /// All four, in the order of the figure.
    pub const ALL: [Self; 4] = [Self::FullDuplication, Self::HashPartition, Self::Vlb, Self::ScaleBricks];

    /// The name used in configuration and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FullDuplication => "full-duplication",
            Self::HashPartition => "hash-partition",
            Self::Vlb => "vlb",
            Self::ScaleBricks => "scalebricks",
        }
    }

    /// Whether each node's FIB holds the flows of all nodes: one lookup then finds the handling node and all that it
    /// needs.
    pub const fn holds_all_flows(self) -> bool {
        matches!(self, Self::FullDuplication | Self::Vlb)
    }

    /// Most crossings of the fabric a packet may need.
    pub const fn max_hops(self) -> u8 {
        match self {
            Self::FullDuplication | Self::ScaleBricks => 1,
            Self::HashPartition | Self::Vlb => 2,
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name is not an architecture's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown architecture {0:?}: use full-duplication, hash-partition, vlb or scalebricks")]
pub struct ParseArchitectureError(String);

impl FromStr for Architecture {
    type Err = ParseArchitectureError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|a| a.name() == name);
        known.ok_or_else(|| ParseArchitectureError(name.to_owned()))
    }
}

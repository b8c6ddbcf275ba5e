//! The roles of a node's ports.

use crate::gateway::fabric::mac::OutputPort;
use std::fmt;

/// What a port connects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PortRole {
    /// The Internet.
    Internet,
    /// The base stations.
    BaseStation,
    /// The other nodes.
    Fabric,
}

impl PortRole {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Internet, Self::BaseStation, Self::Fabric];

    /// The name used in configuration and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Internet => "internet",
            Self::BaseStation => "base-station",
            Self::Fabric => "fabric",
        }
    }
}

impl From<OutputPort> for PortRole {
    #[inline(always)]
    fn from(port: OutputPort) -> Self {
        match port {
            OutputPort::Internet => Self::Internet,
            OutputPort::BaseStation => Self::BaseStation,
        }
    }
}

impl fmt::Display for PortRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

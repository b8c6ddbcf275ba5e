//! The words every other crate speaks: node and flow identifiers, flow keys and what of a packet they are made of,
//! the keyed hash, limits on rates, and the envelope in which table updates travel.
//!
//! Nothing here does I/O, allocates per packet, or knows how a table works. A value of one of these types is
//! already checked: constructors return a typed error that names what was wrong, later code trusts the type.

#![forbid(unsafe_code)]

mod delta;
mod hash;
mod ids;
mod key;
mod key_profile;
pub mod mix;
mod nodes;
mod port_blocks;
mod rate;

pub use delta::{Applied, ApplyError, DELTA_VERSION, Delta, DeltaError, MAX_PAYLOAD_BYTES, TableKind};
pub use hash::{HashSeed, KeyHash, KeyHasher};
pub use ids::{
    ClusterSize, FlowIndex, IdError, MAX_NODES, NodeHint, NodeId, PartitionCount, PartitionId, Position, Qfi,
    Teid,
};
pub use key::{FiveTuple, FlowKey, Key16, Key40, KeyParts};
pub use key_profile::{KeyProfile, ParseKeyProfileError};
pub use nodes::NodeSet;
pub use port_blocks::{PortBlocks, PortBlocksError};
pub use rate::{Bucket, Limit, Spent};

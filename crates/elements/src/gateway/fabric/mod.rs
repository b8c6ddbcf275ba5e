//! Between the nodes of a cluster.
//!
//! | module | what it holds |
//! |---|---|
//! | [`mac`] | what a destination MAC says inside the cluster |
//! | [`health`] | whom a node hears and reaches over the fabric, and the ways round what is broken |
//! | [`lease`] | until when a node may forward |
//! | `detour` | VLB: over which third node a packet goes |

pub(super) mod detour;
pub mod health;
pub mod lease;
pub mod mac;

//! Between the nodes of a cluster.
//!
//! | module | what it holds |
//! |---|---|
//! | [`mac`] | what a destination MAC says inside the cluster |
//! | [`health`] | whom a node hears and reaches over the fabric, and the ways round what is broken |
//! | [`lease`] | until when a node may forward |
//! | `intermediate` | VLB: over which third node a packet goes |

pub mod health;
pub(super) mod intermediate;
pub mod lease;
pub mod mac;

//! Communication between the nodes of a cluster.
//!
//! | module | contents |
//! |---|---|
//! | [`mac`] | the meaning of a destination MAC inside the cluster |
//! | [`health`] | which nodes this one hears and reaches over the fabric, and paths around failures |
//! | [`lease`] | until when a node may forward |
//! | `intermediate` | VLB: the random intermediate node |

pub mod health;
pub(super) mod intermediate;
pub mod lease;
pub mod mac;

//! What the elements of clusters share: addresses, live links, and the state of steering.
//!
//! The gateway's nodes are joined by a switch, the nodes of the cluster router by a full mesh of links or a k-ary n-fly
//! (RouteBricks §3). Both write the way of a packet into its destination MAC address.
//!
//! | module | contents |
//! |---|---|
//! | [`mac`] | encoded destination addresses of the cluster router, and the octets shared with the gateway |
//! | [`mesh`] | which neighbours a node can use, and random choices among them |
//! | [`next_hops`] | MAC addresses of next hops by number, shared with control |
//! | `picker` | random numbers of a seed |
//! | `steer` | the loop of elements that choose the next node |
//! | `budget` | token buckets of destinations and links |
//! | `flow_hash`, `flow_table` | flows: their hash, and a bounded table of their paths |

pub(crate) mod budget;
pub(crate) mod flow_hash;
pub(crate) mod flow_table;
pub mod mac;
pub mod mesh;
pub mod next_hops;
pub(crate) mod picker;
pub(crate) mod steer;

//! What the elements of clusters share: addresses, live links, and the state of steering.
//!
//! The gateway's nodes are joined by a switch, the nodes of the cluster router by a full mesh of links or a k-ary n-fly
//! (RouteBricks §3). Both write the way of a packet into its destination MAC address.
//!
//! | module | contents |
//! |---|---|
//! | [`mac`] | encoded destination addresses of the cluster router, and the octets shared with the gateway |
//! | [`cluster_route`] | routes of a cluster router as text |
//! | [`mesh`] | which neighbours a node can use, and random choices among them |
//! | [`next_hops`] | next hops by number and their MAC addresses, shared with control |
//! | [`links`] | hellos on links, and which links of the cluster work |
//! | [`mtus`] | the MTU of each external port of the cluster |
//! | `picker` | random numbers of a seed |
//! | `steer` | the loop of elements that choose the next node |
//! | `budget` | token buckets of destinations and links |
//! | `flow_hash`, `flow_table` | flows: their hash, and a bounded table of their paths |

pub(crate) mod budget;
pub mod cluster_route;
pub(crate) mod flow_hash;
pub(crate) mod flow_table;
pub mod links;
pub mod mac;
pub mod mesh;
pub mod mtus;
pub mod next_hops;
pub(crate) mod picker;
pub(crate) mod steer;

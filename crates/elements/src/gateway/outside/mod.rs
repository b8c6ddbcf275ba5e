//! The outside links, to the Internet and to the base stations.
//!
//! | module | contents |
//! |---|---|
//! | [`adjacency`] | next hops |
//! | [`local_addrs`] | the node's own addresses |
//! | [`down_links`] | ports whose links are known to be down |

pub mod adjacency;
pub mod down_links;
pub mod local_addrs;

//! The gateway: nodes, their slow path, and clusters in memory.

mod appliance;
mod common;
mod fabric;
mod flow_lists;
mod forwarding;
mod graph;
mod hostile;
mod lab;
mod lease;
mod local_answers;
mod local_claims;
mod local_hostile;
mod local_monitor;
mod local_neighbours;
mod lookups;
mod moving_flows;
mod oversize;
mod policy;
mod punts;
mod tap;
mod trace;

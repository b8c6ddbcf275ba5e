//! Requests and answers of the admin interface, as JSON. GET /openapi.json publishes their schema.
//!
//! Units come last in names. Counters start at zero when the node starts. Fields may be added at any time, so clients
//! must ignore unknown ones. Under `/v1` no field is removed or changes its meaning.

mod capture;
mod cluster;
mod counters;
mod device;
mod flow;
mod graph;
pub mod router;
mod stats;
mod status;
pub mod switch;
mod trace;

pub use crate::flow_list::columns::FlowRecord;
pub use capture::{CaptureRequest, Direction, MAX_SNAP_BYTES};
pub use cluster::{ClusterView, DrainRequest, Drained, MemberView, NodeVerdict, StandbyView};
pub use counters::NodeCounters;
pub use device::{DEVICE_COUNTERS, DeviceCounter, DeviceMetric, PortCounters};
pub use flow::{Carried, Few, FlowProblem, FlowsAccepted, FlowsProblem, MAX_FLOWS, MAX_PROBLEMS, PinnedFlow};
pub use graph::{
    ConfigurationProblem, ElementCounts, ElementView, FaultView, GraphView, HandlerAnswer, HandlerValue,
    HandlerView, LinkView, ReplacedView,
};
pub use stats::{
    ControlStats, LeaseView, LogView, MemberFitness, PeerView, PoolView, Stats, WorkerStats, suspended_for,
};
pub use status::{
    FabricPeerView, FlowsView, Health, NeighbourView, NodeState, PortRole, PortView, Problem, ReasonView,
    Status, TableRole, TableView, WorkerView,
};
pub use trace::{
    Dropped, FlowView, Hint, KeyView, Output, OutputKind, Step, Trace, TracePacket, TraceRequest,
};

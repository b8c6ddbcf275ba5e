//! Everything the admin interface says and is asked, as JSON. GET /openapi.json publishes it as a schema.
//!
//! Units stand last in names. Counters count since the node started. A field may be added at any time, so whoever
//! reads must not mind unknown ones; none is removed or changes its meaning under `/v1`.

mod capture;
mod cluster;
mod counters;
mod device;
mod flow;
mod graph;
mod stats;
mod status;
pub mod switch;
mod trace;

pub use capture::{CaptureRequest, Direction, MAX_SNAP_BYTES};
pub use cluster::{ClusterView, DrainRequest, Drained, MemberView, NodeVerdict, StandbyView};
pub use counters::NodeCounters;
pub use device::{DEVICE_COUNTERS, DeviceCounter, DeviceMetric, PortCounters};
pub use flow::{
    Carried, Cell, Few, FlowProblem, FlowRecord, FlowsAccepted, FlowsProblem, MAX_FLOWS, MAX_PROBLEMS,
    PinnedFlow,
};
pub use graph::{
    ConfigurationProblem, ElementCounts, ElementView, FaultView, GraphView, HandlerAnswer, HandlerValue,
    HandlerView, LinkView, ReplacedView,
};
pub use stats::{
    ControlStats, LeaseView, MemberFitness, PeerView, PoolView, Stats, WorkerStats, suspended_for,
};
pub use status::{
    FabricPeerView, FlowsView, Health, NeighbourView, NodeState, PortRole, PortView, Problem, ReasonView,
    Status, TableRole, TableView, WorkerView,
};
pub use trace::{
    Dropped, FlowView, Hint, KeyView, Output, OutputKind, Step, Trace, TracePacket, TraceRequest,
};

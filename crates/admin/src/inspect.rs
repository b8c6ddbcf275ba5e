//! The interface of the admin server to a running node.

use super::graph::ServedGraph;
use super::model::{CaptureRequest, ReasonView, Stats, Status, Trace, TraceRequest};
use scalebricks_graph::tap::Capture;

/// A running node. The server calls it from its only thread: a method must be fast, and must never wait for a packet.
pub trait Inspect: Send + Sync + 'static {
    /// The status of the node.
    fn status(&self) -> Status;

    /// The counters of the node.
    fn stats(&self) -> Stats;

    /// Traces a packet: where it would go, and why. Nothing is sent or counted.
    ///
    /// # Errors
    /// [`TraceError`].
    fn trace(&self, request: &TraceRequest) -> Result<Trace, TraceError>;

    /// Starts a capture. Dropping the stream ends it.
    ///
    /// # Errors
    /// [`CaptureError`].
    fn capture(&self, request: &CaptureRequest) -> Result<CaptureStream, CaptureError>;

    /// The graph of its workers.
    fn graph(&self) -> ServedGraph;

    /// Whether packets are forwarded: false while flows are loading, while the node is unfit, and while it drains.
    fn is_ready(&self) -> bool;

    /// Why packets are not forwarded.
    fn reasons(&self) -> Vec<ReasonView> {
        Vec::new()
    }
}

/// The frames of a running capture.
pub type CaptureStream = Capture;

/// Why a packet could not be traced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The request does not describe a packet.
    #[error("{0}")]
    BadPacket(String),
    /// The tables are still loading.
    #[error("the node is still loading its flows")]
    NotReady,
    /// The trace failed.
    #[error("{0}")]
    Failed(String),
}

/// Why a capture could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// The request selects nothing, or something that does not exist.
    #[error("{0}")]
    BadRequest(String),
    /// Too many captures are running.
    #[error("{0} captures run already, which is the maximum")]
    TooMany(usize),
    /// The ports are not open yet.
    #[error("the node has no ports yet")]
    NotReady,
}

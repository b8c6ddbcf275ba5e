//! What the admin server asks of a running node.

use super::graph::ServedGraph;
use super::model::{CaptureRequest, ReasonView, Stats, Status, Trace, TraceRequest};
use scalebricks_graph::tap::Capture;

/// What a running node says about itself. Called from the server's one thread: an answer must not take long, and
/// must never wait for a packet.
pub trait Inspect: Send + Sync + 'static {
    /// What the node is, and how it is.
    fn status(&self) -> Status;

    /// What the node has counted.
    fn stats(&self) -> Stats;

    /// Where a packet would go, and why. Nothing is sent and nothing is counted.
    ///
    /// # Errors
    /// [`TraceError`].
    fn trace(&self, request: &TraceRequest) -> Result<Trace, TraceError>;

    /// Starts a capture; dropping the stream ends it.
    ///
    /// # Errors
    /// [`CaptureError`].
    fn capture(&self, request: &CaptureRequest) -> Result<CaptureStream, CaptureError>;

    /// The graph that its workers run.
    fn graph(&self) -> ServedGraph;

    /// Whether packets are forwarded: false while flows are loaded, while the node is unfit, and once it drains.
    fn is_ready(&self) -> bool;

    /// Why not.
    fn reasons(&self) -> Vec<ReasonView> {
        Vec::new()
    }
}

/// The frames of a running capture.
pub type CaptureStream = Capture;

/// Why a packet could not be traced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The request makes no packet.
    #[error("{0}")]
    BadPacket(String),
    /// The tables are not loaded yet.
    #[error("the node is still loading its flows")]
    NotReady,
    /// The node could not answer.
    #[error("{0}")]
    Failed(String),
}

/// Why a capture could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// The request selects nothing, or something that is not there.
    #[error("{0}")]
    BadRequest(String),
    /// Too many run already.
    #[error("{0} captures run already, which is the most")]
    TooMany(usize),
    /// The ports are not open.
    #[error("the node has no ports yet")]
    NotReady,
}

//! Requests about flows and the cluster.

use super::{Client, ClientError, MAX_ANSWER_BYTES, encoded};
use crate::flow_list::columns::COLUMNS;
use crate::model::{
    ClusterView, DrainRequest, Drained, FlowRecord, FlowsAccepted, NodeVerdict, PinnedFlow, StandbyView,
};
use hyper::Method;
use hyper::body::Bytes;
use std::io;

/// A call that changes flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowCall {
    /// Pins them, whether they exist or not.
    Pin,
    /// Pins existing flows to other nodes.
    Move,
    /// Deletes them.
    Unpin,
}

impl FlowCall {
    const fn path(self) -> &'static str {
        match self {
            Self::Pin => "/v1/flows",
            Self::Move => "/v1/flows/move",
            Self::Unpin => "/v1/flows/delete",
        }
    }
}

impl Client {
    /// Pins, moves or deletes flows. With `wait` the answer comes when all living nodes have applied the changes, or
    /// after some seconds. `are_new`: none of them replaces a flow with another uplink TEID.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn flows(
        &self,
        call: FlowCall,
        flows: &[FlowRecord],
        wait: bool,
        are_new: bool,
    ) -> Result<FlowsAccepted, ClientError> {
        let options = match (wait, are_new) {
            (false, false) => "",
            (true, false) => "?wait=applied",
            (false, true) => "?new=true",
            (true, true) => "?wait=applied&new=true",
        };
        self.post(&format!("{}{options}", call.path()), &flows)
    }

    /// Finds the flow that a record names.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn flow(&self, name: &FlowRecord) -> Result<PinnedFlow, ClientError> {
        let fields = COLUMNS.iter().zip(name.texts());
        let query = fields.filter_map(|(column, text)| Some(format!("{column}={}", encoded(&text?))));
        self.get(&format!("/v1/flow?{}", query.collect::<Vec<_>>().join("&")))
    }

    /// The state of the cluster.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn cluster(&self) -> Result<ClusterView, ClientError> {
        self.get("/v1/cluster")
    }

    /// Exports all flows of the cluster as a flow file: `sink` gets its bytes as they arrive, and is also called
    /// without bytes now and then. Returns whether the export is complete; it is not if the sink returned `false`.
    ///
    /// # Errors
    /// [`ClientError`], also if the end does not arrive; [`ClientError::Local`] for errors of the sink.
    pub fn export(&self, sink: impl FnMut(&[u8]) -> io::Result<bool>) -> Result<bool, ClientError> {
        self.stream(Method::GET, "/v1/flows", Bytes::new(), sink)
    }

    /// Makes all living nodes compare their tables with the logs: `sink` gets each node's result as it arrives, and is
    /// also called with `None` now and then. Returns whether all results arrived; not if the sink returned `false`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn verify(
        &self,
        differences: u32,
        patience_s: u32,
        mut sink: impl FnMut(Option<NodeVerdict>) -> bool,
    ) -> Result<bool, ClientError> {
        let path = format!("/v1/cluster/verify?differences={differences}&patience_s={patience_s}");
        let mut rest = Vec::new();
        let is_whole = self.stream(Method::POST, &path, Bytes::new(), |bytes| {
            if bytes.is_empty() {
                return Ok(sink(None));
            }
            rest.extend_from_slice(bytes);
            if rest.len() > MAX_ANSWER_BYTES {
                return Err(io::Error::other("a line of the answer is too long"));
            }
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                if !sink(Some(serde_json::from_slice(&line).map_err(io::Error::other)?)) {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        if is_whole && !rest.is_empty() {
            return Err(self.protocol(&"the answer ends within a line"));
        }
        Ok(is_whole)
    }

    /// Lets a drained node get flows again.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn undrain(&self, node: u16) -> Result<DrainRequest, ClientError> {
        self.post("/v1/cluster/undrain", &DrainRequest { node })
    }

    /// Gives up a node that will not return in its present incarnation.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn forget(&self, node: u16) -> Result<DrainRequest, ClientError> {
        self.post("/v1/cluster/forget", &DrainRequest { node })
    }

    /// Sets the node that takes a node's flows when it dies or is drained; `None`: all others.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn set_standby(&self, node: u16, to: Option<u16>) -> Result<StandbyView, ClientError> {
        self.post("/v1/cluster/standby", &StandbyView { node, to })
    }

    /// Drains a node: it gets no new flows, and its flows move to others.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn drain(&self, node: u16, wait: bool) -> Result<Drained, ClientError> {
        let path = if wait { "/v1/cluster/drain?wait=applied" } else { "/v1/cluster/drain" };
        self.post(path, &DrainRequest { node })
    }
}

//! Asks a node about flows and its cluster.

use super::{Client, ClientError};
use crate::admin::model::{ClusterView, DrainRequest, Drained, FlowRecord, FlowsAccepted, PinnedFlow};
use hyper::Method;
use hyper::body::Bytes;

/// A call that brings flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowCall {
    /// Pins them, whether they are there or not.
    Pin,
    /// Pins those that are there to other nodes.
    Move,
    /// Takes them out.
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
    /// Has flows pinned, moved or taken out, all of them or none. With `wait` the answer comes when all living nodes have applied it,
    /// or after some seconds. `are_new`: none of them replaces one with another uplink TEID.
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
        let body = self.body(&flows)?;
        self.json(Method::POST, &format!("{}{options}", call.path()), body)
    }

    /// Where a flow is pinned. It is named by fields and their values.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn flow(&self, fields: &[(&str, &str)]) -> Result<PinnedFlow, ClientError> {
        let query: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        self.json(Method::GET, &format!("/v1/flow?{}", query.join("&")), Bytes::new())
    }

    /// Who is in the cluster.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn cluster(&self) -> Result<ClusterView, ClientError> {
        self.json(Method::GET, "/v1/cluster", Bytes::new())
    }

    /// Has all flows of a node pinned to others.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn drain(&self, node: u16, wait: bool) -> Result<Drained, ClientError> {
        let body = self.body(&DrainRequest { node })?;
        self.json(
            Method::POST,
            if wait { "/v1/cluster/drain?wait=applied" } else { "/v1/cluster/drain" },
            body,
        )
    }
}

/// A value as it may stand in an address (RFC 3986, section 2.3).
fn encoded(value: &str) -> String {
    use std::fmt::Write;
    value.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _never = write!(text, "%{byte:02X}");
        }
        text
    })
}

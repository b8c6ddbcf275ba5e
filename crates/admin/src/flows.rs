//! The interface of the admin server to a node's control plane: flows and the cluster.

mod cluster_ops;
mod export;

use super::model::ClusterView;
use crate::flow_list::columns::FlowParser;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use scalebricks_apps::gateway::{FlowSpec, PinnedState};
use scalebricks_cluster::ControlPlane;
use scalebricks_cluster::plane::{Accepted, ChangeRefusal, RefusedChanges};
use scalebricks_cluster::verify::Verdict;
use scalebricks_control::membership::Standby;
use scalebricks_control::partition::Void;
use scalebricks_control::record::{Change, Session};
use scalebricks_elements::gateway::FlowCount;
use scalebricks_types::{FlowKey, NodeId, Teid};
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// Keys looked up concurrently in one call.
const TOGETHER: usize = 64;

/// An answer that may take long.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, FlowsError>> + Send + 'a>>;

/// A node's control plane. All calls name flows by the key of their downstream packets.
pub trait Flows: Send + Sync + 'static {
    /// Parses flows of this cluster.
    fn parser(&self) -> &FlowParser;

    /// Pins flows, whether they exist or not. Unless they `are_new`, the previous flows are looked up first, so that
    /// the uplink TEID of a replaced flow is deleted with it.
    fn pin(&self, flows: Vec<FlowSpec>, are_new: bool) -> Answer<'_, Accepted>;

    /// Pins existing flows to other nodes. [`FlowsError::Absent`] if one does not exist.
    fn move_to(&self, flows: Vec<(FlowKey, NodeId)>) -> Answer<'_, Accepted>;

    /// Deletes flows, and returns how many did not exist.
    fn unpin(&self, flows: Vec<FlowKey>) -> Answer<'_, (Accepted, usize)>;

    /// Finds a flow by its key of either direction.
    fn find(&self, key: FlowKey) -> Answer<'_, Option<(NodeId, PinnedState)>>;

    /// The traffic counters of a flow at its handling node; `None` if they are not available.
    fn carried(&self, node: NodeId, uplink: Teid) -> Answer<'_, Option<FlowCount>> {
        let _ = (node, uplink);
        Box::pin(async { Ok(None) })
    }

    /// The state of the cluster.
    fn cluster(&self) -> ClusterView;

    /// Drains a node: it gets no new flows, and its flows move to the nodes returned.
    fn drain(&self, node: NodeId) -> Answer<'_, (Accepted, Vec<NodeId>)>;

    /// Lets a node get flows again.
    fn undrain(&self, node: NodeId) -> Answer<'_, ()>;

    /// Gives up a node that will not return in its present incarnation.
    fn forget(&self, node: NodeId) -> Answer<'_, ()>;

    /// Sets the node that takes a node's flows when it dies or is drained.
    fn set_standby(&self, node: NodeId, standby: Standby) -> Answer<'_, ()>;

    /// Exports all flows of the cluster as a flow file, in pieces. The last piece is an error if flows are missing.
    fn export(&self) -> Answer<'_, mpsc::Receiver<io::Result<Bytes>>>;

    /// Makes all living nodes compare their tables with the logs and list up to `most` differences each; `None` for a
    /// node that has not answered within `patience`.
    fn verify(&self, most: u32, patience: Duration) -> Answer<'_, mpsc::Receiver<(NodeId, Option<Verdict>)>>;

    /// Waits until all living nodes have applied the accepted changes.
    fn applied<'a>(&'a self, accepted: &'a Accepted) -> Answer<'a, ()>;
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowsError {
    /// Flows do not exist, by their indexes in the call.
    #[error("flows do not exist")]
    Absent(Vec<usize>),
    /// It contradicts the present state of the cluster.
    #[error("{0}")]
    Conflict(String),
    /// An argument is invalid.
    #[error("{0}")]
    Invalid(String),
    /// No such node.
    #[error("{0} was never in the cluster")]
    NoSuchNode(NodeId),
    /// Some flows were refused. The changes of all others were made.
    #[error("{refused} of {of} flows were refused, the others are done; correct these and send them again")]
    Refused {
        /// The first of them: their indexes in the call, and the reasons.
        flows: Vec<(usize, String)>,
        /// Their number, at least.
        refused: usize,
        /// Number of flows in the call.
        of: usize,
        /// Whether all of them were refused for lack of room.
        is_room: bool,
    },
    /// A handling node has no room for the flows.
    #[error("{0}")]
    Full(String),
    /// More flows than a call may contain.
    #[error("{0}")]
    TooMany(String),
    /// A temporary failure; try again.
    #[error("{0}")]
    Later(String),
}

impl From<RefusedChanges> for FlowsError {
    fn from(refused: RefusedChanges) -> Self {
        let what = refused.to_string();
        match refused {
            RefusedChanges::NodeNotAlive(_)
            | RefusedChanges::Drained(_)
            | RefusedChanges::Suspended(..)
            | RefusedChanges::NoKey => Self::Conflict(what),
            RefusedChanges::TooMany(_) => Self::TooMany(what),
            RefusedChanges::NodeFull(_) => Self::Full(what),
            RefusedChanges::Busy
            | RefusedChanges::NoOwner(_)
            | RefusedChanges::NotNamed(_)
            | RefusedChanges::NotOpen(_)
            | RefusedChanges::NoRoom(..)
            | RefusedChanges::Engine(_)
            | RefusedChanges::Delayed(_)
            | RefusedChanges::Unknown
            | RefusedChanges::Stopping => Self::Later(what),
        }
    }
}

/// [`Flows`] over a node's control plane.
#[derive(Debug, Clone)]
pub struct ControlledFlows {
    node: NodeId,
    plane: Arc<OnceLock<ControlPlane>>,
    parser: Arc<FlowParser>,
    /// Allows one export at a time, as it reads the whole log.
    exports: Arc<Semaphore>,
}

impl ControlledFlows {
    /// Flows through the control plane of this node, which starts when its engine is reached.
    pub fn new(node: NodeId, plane: Arc<OnceLock<ControlPlane>>, parser: FlowParser) -> Self {
        Self { node, plane, parser: Arc::new(parser), exports: Arc::new(Semaphore::new(1)) }
    }

    fn plane(&self) -> Result<&ControlPlane, FlowsError> {
        let later = || FlowsError::Later("the node has not reached its engine yet; see its log".to_owned());
        self.plane.get().ok_or_else(later)
    }

    /// The sessions of keys, in their order.
    async fn sessions(&self, keys: Vec<FlowKey>) -> Result<Vec<Option<Session>>, FlowsError> {
        let asked = stream::iter(keys)
            .map(|key| async move { self.plane()?.session(&key).await.map_err(FlowsError::from) });
        asked.buffered(TOGETHER).try_collect().await
    }
}

/// The result of a call with `of` flows: an error if a change was refused. `flow` returns the index of a change's flow,
/// if it belongs to one, or `None` if the refusal does not matter.
fn decided(
    accepted: Accepted,
    of: usize,
    flow: impl Fn(usize, &ChangeRefusal) -> Option<Option<usize>>,
) -> Result<Accepted, FlowsError> {
    let (mut flows, mut is_room, mut others) = (BTreeMap::new(), true, 0);
    for (place, why) in accepted.refused() {
        match flow(*place, why) {
            None => continue,
            Some(None) => others += 1,
            Some(Some(flow)) => drop(flows.entry(flow).or_insert_with(|| why.to_string())),
        }
        is_room &= why.is_room();
    }
    if flows.is_empty() && others == 0 {
        return Ok(accepted);
    }
    let unlisted = accepted.refused_changes().saturating_sub(accepted.refused().len());
    let refused = (flows.len() + unlisted / 2).clamp(1, of.max(1));
    Err(FlowsError::Refused { flows: flows.into_iter().collect(), refused, of, is_room })
}

/// The key of a session's upstream packets.
const fn uplink_key(session: &Session) -> FlowKey {
    FlowKey::teid(PinnedState::decode(session.value).uplink_teid)
}

impl Flows for ControlledFlows {
    fn parser(&self) -> &FlowParser {
        &self.parser
    }

    fn pin(&self, flows: Vec<FlowSpec>, are_new: bool) -> Answer<'_, Accepted> {
        Box::pin(async move {
            let (mut changes, of) = (Vec::with_capacity(2 * flows.len()), flows.len());
            if !are_new {
                let before = self.sessions(flows.iter().map(|flow| flow.key).collect()).await?;
                let replaced = flows.iter().zip(before).filter_map(|(flow, before)| {
                    let uplink = uplink_key(&before?);
                    (uplink != FlowKey::teid(flow.uplink_teid)).then_some(Change::Delete(uplink))
                });
                // Before the upserts, because flows may have exchanged their TEIDs.
                changes.extend(replaced);
            }
            let first = changes.len();
            for flow in &flows {
                let node = flow.node;
                let upsert = |(key, value)| Change::Upsert(key, Session::new(node, value));
                changes.extend(flow.entries().map(upsert));
            }
            // Deleting the key of a replaced flow may find that it does not exist.
            let flow = |place: usize, why: &ChangeRefusal| match place.checked_sub(first) {
                Some(place) => Some(Some(place / 2)),
                None if *why == ChangeRefusal::Void(Void::Missing) => None,
                None => Some(None),
            };
            decided(self.plane()?.accept(changes).await?, of, flow)
        })
    }

    fn move_to(&self, flows: Vec<(FlowKey, NodeId)>) -> Answer<'_, Accepted> {
        Box::pin(async move {
            let sessions = self.sessions(flows.iter().map(|(key, _)| *key).collect()).await?;
            let (mut changes, mut absent) = (Vec::with_capacity(2 * flows.len()), Vec::new());
            let of = flows.len();
            for (at, ((key, node), session)) in flows.into_iter().zip(sessions).enumerate() {
                let Some(session) = session else {
                    absent.push(at);
                    continue;
                };
                let moved = Session { node, ..session };
                changes.extend([key, uplink_key(&session)].map(|key| Change::Move(key, moved)));
            }
            if absent.is_empty() {
                decided(self.plane()?.accept(changes).await?, of, |place, _| Some(Some(place / 2)))
            } else {
                Err(FlowsError::Absent(absent))
            }
        })
    }

    fn unpin(&self, flows: Vec<FlowKey>) -> Answer<'_, (Accepted, usize)> {
        Box::pin(async move {
            let sessions = self.sessions(flows.clone()).await?;
            let there =
                flows.iter().zip(&sessions).filter_map(|(key, session)| Some((*key, session.as_ref()?)));
            let keys = there.flat_map(|(key, session)| [key, uplink_key(session)]);
            let changes: Vec<Change> = keys.map(Change::Delete).collect();
            let absent = sessions.iter().filter(|session| session.is_none()).count();
            let places: Vec<usize> = (0..flows.len()).filter(|at| sessions[*at].is_some()).collect();
            // Another caller may have deleted it meanwhile.
            let flow = |place: usize, why: &ChangeRefusal| {
                (*why != ChangeRefusal::Void(Void::Missing)).then(|| places.get(place / 2).copied())
            };
            let accepted = self.plane()?.accept(changes).await?;
            Ok((decided(accepted, flows.len(), flow)?, absent))
        })
    }

    fn find(&self, key: FlowKey) -> Answer<'_, Option<(NodeId, PinnedState)>> {
        Box::pin(async move {
            let found = self.plane()?.session(&key).await?;
            Ok(found.map(|session| (session.node, PinnedState::decode(session.value))))
        })
    }

    fn carried(&self, node: NodeId, uplink: Teid) -> Answer<'_, Option<FlowCount>> {
        Box::pin(async move { Ok(self.plane()?.flow_count(node, uplink).await) })
    }

    fn cluster(&self) -> ClusterView {
        self.cluster_view()
    }

    fn drain(&self, node: NodeId) -> Answer<'_, (Accepted, Vec<NodeId>)> {
        Box::pin(self.drain_node(node))
    }

    fn undrain(&self, node: NodeId) -> Answer<'_, ()> {
        Box::pin(self.undrain_node(node))
    }

    fn forget(&self, node: NodeId) -> Answer<'_, ()> {
        Box::pin(self.forget_node(node))
    }

    fn set_standby(&self, node: NodeId, standby: Standby) -> Answer<'_, ()> {
        Box::pin(self.set_standby_of(node, standby))
    }

    fn export(&self) -> Answer<'_, mpsc::Receiver<io::Result<Bytes>>> {
        Box::pin(async move { self.begin_export() })
    }

    fn verify(&self, most: u32, patience: Duration) -> Answer<'_, mpsc::Receiver<(NodeId, Option<Verdict>)>> {
        Box::pin(async move { Ok(self.plane()?.verify(most, patience)) })
    }

    fn applied<'a>(&'a self, accepted: &'a Accepted) -> Answer<'a, ()> {
        Box::pin(async move {
            let is_applied = self.plane()?.applied(accepted).await;
            if is_applied { Ok(()) } else { Err(RefusedChanges::Stopping.into()) }
        })
    }
}

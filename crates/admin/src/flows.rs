//! What the admin server asks of a node's control plane: to pin flows, and who is in the cluster.

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

/// Keys asked for at the same time in one call.
const TOGETHER: usize = 64;

/// An answer that takes its time.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, FlowsError>> + Send + 'a>>;

/// What a node's control plane does with flows. All calls name flows by the key of their downstream packets.
pub trait Flows: Send + Sync + 'static {
    /// What makes flows of columns here.
    fn parser(&self) -> &FlowParser;

    /// Pins flows, whether they are there or not. Unless they `are_new`, what was there is looked up first, so that the uplink
    /// TEID of a flow that is replaced goes with it.
    fn pin(&self, flows: Vec<FlowSpec>, are_new: bool) -> Answer<'_, Accepted>;

    /// Pins flows that are there to other nodes. [`FlowsError::Absent`] if one is not there.
    fn move_to(&self, flows: Vec<(FlowKey, NodeId)>) -> Answer<'_, Accepted>;

    /// Takes flows out, and says how many were not there.
    fn unpin(&self, flows: Vec<FlowKey>) -> Answer<'_, (Accepted, usize)>;

    /// Where a key leads to, of either direction.
    fn find(&self, key: FlowKey) -> Answer<'_, Option<(NodeId, PinnedState)>>;

    /// What a flow has carried, as its handling node has it; `None` if that cannot be had. For what does not count: `None`.
    fn carried(&self, node: NodeId, uplink: Teid) -> Answer<'_, Option<FlowCount>> {
        let _ = (node, uplink);
        Box::pin(async { Ok(None) })
    }

    /// Who is in the cluster.
    fn cluster(&self) -> ClusterView;

    /// Has a node get no flows any more, pins all it has to others, and says to which.
    fn drain(&self, node: NodeId) -> Answer<'_, (Accepted, Vec<NodeId>)>;

    /// Lets a node get flows again.
    fn undrain(&self, node: NodeId) -> Answer<'_, ()>;

    /// Gives a node up that does not come back as it was.
    fn forget(&self, node: NodeId) -> Answer<'_, ()>;

    /// Sets who takes a node's flows when it dies or is drained.
    fn set_standby(&self, node: NodeId, standby: Standby) -> Answer<'_, ()>;

    /// All flows of the cluster as a flow file, piece by piece. The last piece is an error if some are missing.
    fn export(&self) -> Answer<'_, mpsc::Receiver<io::Result<Bytes>>>;

    /// Has all living nodes compare their tables with the logs, each naming the first `told` differences; `None` for a node that has
    /// not answered within `patience`.
    fn verify(&self, told: u32, patience: Duration) -> Answer<'_, mpsc::Receiver<(NodeId, Option<Verdict>)>>;

    /// Waits until all living nodes have applied what was accepted.
    fn applied<'a>(&'a self, accepted: &'a Accepted) -> Answer<'a, ()>;
}

/// Why nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowsError {
    /// Flows that are not there, by their places in the call.
    #[error("flows that are not there")]
    Absent(Vec<usize>),
    /// It cannot be as the cluster is now.
    #[error("{0}")]
    Conflict(String),
    /// It means nothing.
    #[error("{0}")]
    Invalid(String),
    /// There is no such node.
    #[error("{0} was never in the cluster")]
    NoSuchNode(NodeId),
    /// Flows that were not pinned, moved or taken out as asked. All others of the call were.
    #[error("{refused} of {of} flows were refused, the others are done; correct these and send them again")]
    Refused {
        /// The first of them: their places in the call, and why.
        flows: Vec<(usize, String)>,
        /// How many there are, at least.
        refused: usize,
        /// Flows of the call.
        of: usize,
        /// Whether all of them found no room.
        is_room: bool,
    },
    /// A handling node has no room for the flows.
    #[error("{0}")]
    Full(String),
    /// More than one call may bring.
    #[error("{0}")]
    TooMany(String),
    /// It may work if tried again.
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
    /// One export at a time: it reads all of the log.
    exports: Arc<Semaphore>,
}

impl ControlledFlows {
    /// Those of this node, whose control plane begins when its engine can be reached.
    pub fn new(node: NodeId, plane: Arc<OnceLock<ControlPlane>>, parser: FlowParser) -> Self {
        Self { node, plane, parser: Arc::new(parser), exports: Arc::new(Semaphore::new(1)) }
    }

    fn plane(&self) -> Result<&ControlPlane, FlowsError> {
        let later =
            || FlowsError::Later("the node's engine has not been reached yet; see its log".to_owned());
        self.plane.get().ok_or_else(later)
    }

    /// What keys lead to, in their order.
    async fn sessions(&self, keys: Vec<FlowKey>) -> Result<Vec<Option<Session>>, FlowsError> {
        let asked = stream::iter(keys)
            .map(|key| async move { self.plane()?.session(&key).await.map_err(FlowsError::from) });
        asked.buffered(TOGETHER).try_collect().await
    }
}

/// What became of a call with so many flows, if each of their changes was made. `flow` says which flow a change belongs to, if it is
/// one of them, or `None` where it is well that the change was not made.
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
    let untold = accepted.refused_changes().saturating_sub(accepted.refused().len());
    let refused = (flows.len() + untold / 2).clamp(1, of.max(1));
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
                // Before all that is pinned: flows may have exchanged their TEIDs.
                changes.extend(replaced);
            }
            let first = changes.len();
            for flow in &flows {
                let node = flow.node;
                let upsert = |(key, value)| Change::Upsert(key, Session::new(node, value));
                changes.extend(flow.entries().map(upsert));
            }
            // A key that was to go with a flow that is replaced, and is not there, is as it should be.
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
            // Somebody else may have taken it out meanwhile.
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

    fn verify(&self, told: u32, patience: Duration) -> Answer<'_, mpsc::Receiver<(NodeId, Option<Verdict>)>> {
        Box::pin(async move { Ok(self.plane()?.verify(told, patience)) })
    }

    fn applied<'a>(&'a self, accepted: &'a Accepted) -> Answer<'a, ()> {
        Box::pin(async move {
            let is_applied = self.plane()?.applied(accepted).await;
            if is_applied { Ok(()) } else { Err(RefusedChanges::Stopping.into()) }
        })
    }
}

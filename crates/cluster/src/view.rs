//! The record of membership: watched, and changed by compare-and-set. The other records of the cluster are watched with it.

use super::event::Event;
use super::placement::{self, Placed};
use super::plane::{ControlPlane, RefusedChanges, Shared};
use super::shape;
use futures_util::StreamExt;
use scalebricks_control::engine::{Engine, EngineError, Record, Revision, SwapError};
use scalebricks_control::membership::{self, Placement, View};
use scalebricks_control::shape::Shape;
use scalebricks_types::{NodeId, PartitionCount};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Its key.
const KEY: &str = "cluster.view";

/// The records that are watched.
const PREFIX: &str = "cluster.";

/// Between two tries.
const PATIENCE: Duration = Duration::from_millis(200);

/// The record as it is; an empty view if there is none.
pub(super) async fn read(
    engine: &dyn Engine,
    partitions: PartitionCount,
) -> Result<(Option<Revision>, View), EngineError> {
    let Some(record) = engine.record(KEY).await? else { return Ok((None, View::empty(partitions))) };
    let Some(value) = record.value else { return Ok((Some(record.revision), View::empty(partitions))) };
    let view = View::decode(&value).map_err(|error| EngineError::Damaged(error.to_string()))?;
    if view.partitions() != partitions.get() as usize {
        let what = format!("the cluster has {} partitions, not {}", view.partitions(), partitions.get());
        return Err(EngineError::Refused(what));
    }
    Ok((Some(record.revision), view))
}

/// Tells of every change of the record, and of what the controller says of nodes, for ever.
pub(super) async fn watch(engine: Arc<dyn Engine>, events: mpsc::Sender<Event>, shared: Arc<Shared>) {
    loop {
        let mut changes = engine.watch_records(PREFIX);
        while let Some(change) = changes.next().await {
            let record = match change {
                Ok(record) if record.key == placement::KEY => {
                    placed(&record, &shared);
                    continue;
                }
                Ok(record) => record,
                Err(error) => {
                    tracing::warn!(%error, "the cluster's records cannot be watched now");
                    break;
                }
            };
            let (key, revision) = (record.key.as_str(), record.revision);
            let event = match (key, record.value.as_deref()) {
                (KEY, Some(value)) => View::decode(value)
                    .map(|view| Event::Viewed(revision, view))
                    .map_err(|error| error.to_string()),
                (shape::KEY, Some(value)) => Shape::decode(value)
                    .map(|shape| Event::Shaped(revision, shape))
                    .map_err(|error| error.to_string()),
                (KEY | shape::KEY, None) => Err("it was deleted".to_owned()),
                _ => continue,
            };
            match event {
                Ok(event) => {
                    if events.send(event).await.is_err() {
                        return;
                    }
                }
                Err(error) => tracing::error!(key, error, "a record of the cluster is of no use"),
            }
        }
        tokio::time::sleep(PATIENCE).await;
    }
}

/// The controller says something else of nodes.
fn placed(record: &Record, shared: &Shared) {
    let revision = Some(record.revision);
    match record.value.as_deref().map_or_else(|| Ok(Placement::default()), Placement::decode) {
        Ok(placement) => shared.placed(Placed { revision, placement }),
        Err(error) => tracing::error!(%error, "the record is passed over"),
    }
}

/// Others who change the record at the same time, before this one gives up.
const TRIES: usize = 16;

/// Takes a node out of the record, whatever the others hold of it.
async fn forget(
    engine: &dyn Engine,
    partitions: PartitionCount,
    node: NodeId,
) -> Result<(Revision, View), EngineError> {
    for _ in 0..TRIES {
        let (revision, view) = read(engine, partitions).await?;
        let view = view.forgetting(node);
        match engine.swap(KEY, revision, Some(view.encode().into())).await {
            Ok(revision) => return Ok((revision, view)),
            // Another was first, or it may have worked: to do it twice does no harm.
            Err(SwapError::Conflict(_) | SwapError::Unknown(_)) => {}
            Err(SwapError::Invalid(why)) => return Err(EngineError::Refused(why.to_owned())),
        }
    }
    Err(EngineError::Unavailable("too many change the record at the same time".to_owned()))
}

/// Closes the tenures of nodes that are drained, and opens those of nodes that are no more, whatever the others hold of it. The record, if
/// that changed it. What concerns dead nodes is left to the members.
pub(super) async fn settle_tenures(
    engine: &dyn Engine,
    partitions: PartitionCount,
    placed: &Placed,
    shape: Shape,
) -> Result<Option<(Revision, View)>, EngineError> {
    for _ in 0..TRIES {
        let (revision, view) = read(engine, partitions).await?;
        let Placed { placement, revision: placed } = placed;
        let placed = membership::Placed { placement, revision: *placed };
        let next = view.with_tenures(placed, |heir| shape.can_name(heir));
        let Some(next) = next else { return Ok(None) };
        match engine.swap(KEY, revision, Some(next.encode().into())).await {
            Ok(revision) => return Ok(Some((revision, next))),
            // Another was first, or it may have worked: what it says now tells.
            Err(SwapError::Conflict(_) | SwapError::Unknown(_)) => {}
            Err(SwapError::Invalid(why)) => return Err(EngineError::Refused(why.to_owned())),
        }
    }
    Err(EngineError::Unavailable("too many change the record at the same time".to_owned()))
}

impl ControlPlane {
    /// Gives a node up, whether the others can tell that it is dead or not, and does not count on the version that it knew: for one
    /// that does not come back as it was, and where so many died at once that nobody is given up. One that lives after all comes
    /// back by itself, in another life.
    ///
    /// # Errors
    /// [`RefusedChanges::Engine`]: it may be done or not, and can be asked for again; [`RefusedChanges::Stopping`].
    pub async fn forget(&self, node: NodeId) -> Result<(), RefusedChanges> {
        let (engine, partitions) = (Arc::clone(&self.reading.engine), self.shared.partitions);
        let forgotten = self.runtime.spawn(async move { forget(&*engine, partitions, node).await });
        let forgotten = forgotten.await.map_err(|_| RefusedChanges::Stopping)?;
        let (revision, view) = forgotten.map_err(|error| RefusedChanges::Engine(error.to_string()))?;
        tracing::warn!(node = node.get(), "a node is forgotten");
        self.events.send(Event::Viewed(revision, view)).await.map_err(|_| RefusedChanges::Stopping)
    }
}

/// Tries to change the record. Who comes second learns so from the watch.
pub(super) async fn propose(
    engine: Arc<dyn Engine>,
    expected: Option<Revision>,
    view: View,
    events: mpsc::Sender<Event>,
) {
    match engine.swap(KEY, expected, Some(view.encode().into())).await {
        Ok(revision) => {
            tracing::info!(epoch = view.epoch(), alive = view.alive().count(), "membership changed");
            let _ends = events.send(Event::Viewed(revision, view)).await;
        }
        Err(SwapError::Conflict(_)) => {}
        Err(error) => tracing::warn!(%error, "membership cannot be changed now"),
    }
}

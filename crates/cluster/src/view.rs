//! The record of membership: watched, and changed by compare-and-set. The other records of the cluster are watched with it.

use super::event::Event;
use super::placement::{self, Placed};
use super::plane::{ControlPlane, PlaneState, RefusedChanges};
use super::shape;
use futures_util::StreamExt;
use scalebricks_control::codec::Encoded;
use scalebricks_control::engine::{Engine, EngineError, Record, Revision, SwapError};
use scalebricks_control::membership::{self, Placement, View};
use scalebricks_control::shape::Shape;
use scalebricks_types::{NodeId, PartitionCount};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// The record's key.
const KEY: &str = "cluster.view";

/// The records that are watched.
const PREFIX: &str = "cluster.";

/// Time between two attempts.
const PATIENCE: Duration = Duration::from_millis(200);

/// Reads the record; an empty view if there is none.
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

/// Watches the records of the cluster and passes on every change, forever.
pub(super) async fn watch(engine: Arc<dyn Engine>, events: mpsc::Sender<Event>, shared: Arc<PlaneState>) {
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
                    tracing::warn!(%error, "cannot watch the cluster's records");
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
                Err(error) => tracing::error!(key, error, "cannot decode a record of the cluster"),
            }
        }
        tokio::time::sleep(PATIENCE).await;
    }
}

/// The placement record changed.
fn placed(record: &Record, shared: &PlaneState) {
    let revision = Some(record.revision);
    match record.value.as_deref().map_or_else(|| Ok(Placement::default()), Placement::decode) {
        Ok(placement) => shared.placed(Placed { revision, placement }),
        Err(error) => tracing::error!(%error, "the placement record is ignored"),
    }
}

/// Most attempts to change the record while others change it.
const TRIES: usize = 16;

/// Removes a node from the record, whatever other members know of it.
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
            // Another change was first, or this one may have succeeded: doing it twice does no harm.
            Err(SwapError::Conflict(_) | SwapError::Unknown(_)) => {}
            Err(SwapError::Invalid(why)) => return Err(EngineError::Refused(why.to_owned())),
        }
    }
    Err(EngineError::Unavailable("too many concurrent changes of the record".to_owned()))
}

/// Closes the tenures of drained nodes, and opens those of nodes that are not drained any more. Returns the record with these
/// tenures, whether this call or another node has settled them: the caller may not have seen the other node's change yet. The
/// members handle dead nodes.
pub(super) async fn settle_tenures(
    engine: &dyn Engine,
    partitions: PartitionCount,
    placed: &Placed,
    shape: Shape,
) -> Result<(Option<Revision>, View), EngineError> {
    for _ in 0..TRIES {
        let (revision, view) = read(engine, partitions).await?;
        let Placed { placement, revision: placed } = placed;
        let placed = membership::Placed { placement, revision: *placed };
        let next = view.with_tenures(placed, |heir| shape.can_name(heir));
        let Some(next) = next else { return Ok((revision, view)) };
        match engine.swap(KEY, revision, Some(next.encode().into())).await {
            Ok(revision) => return Ok((Some(revision), next)),
            // Another change was first, or this one may have succeeded: read it again.
            Err(SwapError::Conflict(_) | SwapError::Unknown(_)) => {}
            Err(SwapError::Invalid(why)) => return Err(EngineError::Refused(why.to_owned())),
        }
    }
    Err(EngineError::Unavailable("too many concurrent changes of the record".to_owned()))
}

impl ControlPlane {
    /// Removes a node, even if others cannot tell whether it is dead, and ignores the version that it knew: for a node that will not
    /// come back unchanged, or if so many died at once that none is removed. A node that is alive after all joins again by itself,
    /// in another life.
    ///
    /// # Errors
    /// [`RefusedChanges::Engine`]: it may be done, and can be asked for again; [`RefusedChanges::Stopping`].
    pub async fn forget(&self, node: NodeId) -> Result<(), RefusedChanges> {
        let (engine, partitions) = (Arc::clone(&self.reading.engine), self.shared.partitions);
        let forgotten = self.runtime.spawn(async move { forget(&*engine, partitions, node).await });
        let forgotten = forgotten.await.map_err(|_| RefusedChanges::Stopping)?;
        let (revision, view) = forgotten.map_err(|error| RefusedChanges::Engine(error.to_string()))?;
        tracing::warn!(node = node.get(), "a node was removed by an operator");
        self.events.send(Event::Viewed(revision, view)).await.map_err(|_| RefusedChanges::Stopping)
    }
}

/// Tries to change the record. If another node was first, the watch delivers the record.
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
        Err(error) => tracing::warn!(%error, "cannot change the membership record"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_control::version::Version;
    use scalebricks_engine::embedded::{EmbeddedLog, Options};
    use scalebricks_tables::compact::{Params, Structure};

    /// Each node of a cluster settles the tenures when it sees a drain. The one that was asked for the drain may be the
    /// last, and must not answer from what it knew before.
    #[tokio::test]
    async fn tenures_that_another_node_settled_are_returned() {
        let directory = tempfile::tempdir().unwrap();
        let engine = EmbeddedLog::open(directory.path(), Options::default()).unwrap();
        let partitions = PartitionCount::new(4).unwrap();
        let (node, heir) = (NodeId::new(1), NodeId::new(0));
        let view = [node, heir]
            .into_iter()
            .fold(View::empty(partitions), |view, node| view.with(node, 1, Version::NEWEST));
        let created = engine.swap(KEY, None, Some(view.encode().into())).await.unwrap();
        let mut placed = Placed { revision: Some(Revision(created.0 + 1)), placement: Placement::default() };
        placed.placement.set_drained(node, true);
        let shape = Shape::new(Params::for_keys(Structure::SetSep, 10_000, 1, partitions).unwrap());
        let settle = || settle_tenures(&engine, partitions, &placed, shape);
        let first = settle().await.unwrap();
        assert!(first.0 > Some(created) && !first.1.is_open(node));
        assert_eq!(first.1.closures().iter().map(|closure| closure.node).collect::<Vec<_>>(), [node]);
        assert_eq!(settle().await.unwrap(), first, "the second finds it settled");
    }
}

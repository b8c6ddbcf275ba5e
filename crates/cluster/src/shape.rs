//! The record of the table's shape: created by the first node, changed by compare-and-set.

use super::event::Event;
use scalebricks_control::codec::Encoded;
use scalebricks_control::engine::{Engine, EngineError, Revision, SwapError};
use scalebricks_control::shape::Shape;
use scalebricks_tables::compact::Params;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The record's key.
pub(super) const KEY: &str = "cluster.shape";

/// Reads the record, or creates it with this shape.
pub(super) async fn read(engine: &dyn Engine, first: Params) -> Result<(Revision, Shape), EngineError> {
    loop {
        let record = engine.record(KEY).await?;
        let revision = record.as_ref().map(|record| record.revision);
        if let Some(record) = &record
            && let Some(value) = record.value.as_deref()
        {
            let shape = Shape::decode(value).map_err(|error| EngineError::Damaged(error.to_string()))?;
            let (there, here) = (shape.first.partitions().get(), first.partitions().get());
            if there != here {
                let what = format!("the cluster's table has {there} partitions, not {here}");
                return Err(EngineError::Refused(what));
            }
            let (there, here) = (shape.first.structure(), first.structure());
            if there != here {
                let what = format!("the cluster's table is of {there}, not of {here}: set cluster.gpt");
                return Err(EngineError::Refused(what));
            }
            return Ok((record.revision, shape));
        }
        let shape = Shape::new(first);
        match engine.swap(KEY, revision, Some(shape.encode().into())).await {
            Ok(revision) => return Ok((revision, shape)),
            // Another node created it, or this attempt may have: it is read then.
            Err(SwapError::Conflict(_) | SwapError::Unknown(_)) => {}
            Err(SwapError::Invalid(why)) => return Err(EngineError::Refused(why.to_owned())),
        }
    }
}

/// Tries to change the record. If another node was first, the watch delivers the record.
pub(super) async fn propose(
    engine: Arc<dyn Engine>,
    expected: Revision,
    shape: Shape,
    events: mpsc::Sender<Event>,
) -> Result<(), SwapError> {
    let swapped = engine.swap(KEY, Some(expected), Some(shape.encode().into())).await;
    match &swapped {
        Ok(revision) => {
            let (to, is_there) = (shape.next.unwrap_or(shape.now), shape.next.is_none());
            tracing::info!(
                keys = to.keys_per_partition() * u64::from(to.partitions().get()),
                value_bits = to.value_bits(),
                is_there,
                "the shape of the table changed"
            );
            let _ends = events.send(Event::Shaped(*revision, shape)).await;
        }
        Err(SwapError::Conflict(_)) => {}
        Err(error) => tracing::warn!(%error, "cannot change the record of the table's shape"),
    }
    swapped.map(drop)
}

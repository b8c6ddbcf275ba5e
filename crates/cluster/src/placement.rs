//! The placement record: read, and changed by compare-and-set. `view` watches it.

use super::event::Event;
use super::plane::{ControlPlane, RefusedChanges};
use super::view;
use scalebricks_control::codec::Encoded;
use scalebricks_control::engine::{Engine, EngineError, Revision, SwapError};
use scalebricks_control::membership::Placement;
use std::sync::Arc;

/// The record's key.
pub(super) const KEY: &str = "cluster.placement";

/// Most attempts to change the record while others change it.
const TRIES: usize = 16;

/// The record that a node knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Placed {
    pub(super) revision: Option<Revision>,
    pub(super) placement: Placement,
}

/// The record; an empty one if there is none.
pub(super) async fn read(engine: &dyn Engine) -> Result<Placed, EngineError> {
    let Some(record) = engine.record(KEY).await? else { return Ok(Placed::default()) };
    let placement = match record.value {
        None => Placement::default(),
        Some(value) => Placement::decode(&value).map_err(|error| EngineError::Damaged(error.to_string()))?,
    };
    Ok(Placed { revision: Some(record.revision), placement })
}

/// Changes the record, on top of concurrent changes.
async fn change(engine: &dyn Engine, change: impl Fn(&mut Placement)) -> Result<Placed, EngineError> {
    for _ in 0..TRIES {
        let known = read(engine).await?;
        let mut placement = known.placement.clone();
        change(&mut placement);
        if placement == known.placement {
            return Ok(known);
        }
        match engine.swap(KEY, known.revision, Some(placement.encode().into())).await {
            Ok(revision) => return Ok(Placed { revision: Some(revision), placement }),
            // Another change was first, or this one may have succeeded: read it again.
            Err(SwapError::Conflict(_) | SwapError::Unknown(_)) => {}
            Err(error) => return Err(EngineError::Refused(error.to_string())),
        }
    }
    Err(EngineError::Unavailable("too many concurrent changes of the record".to_owned()))
}

impl ControlPlane {
    /// The placement that this node knows.
    pub fn placement(&self) -> Placement {
        self.shared.placed.load().placement.clone()
    }

    /// Changes the placement, and the tenures of nodes whose drain changes. This node acts on it when this returns, other nodes some
    /// milliseconds later.
    ///
    /// # Errors
    /// [`RefusedChanges::Engine`]: it may have been changed, and can be changed again; [`RefusedChanges::Stopping`].
    pub async fn place(
        &self,
        changing: impl Fn(&mut Placement) + Send + Sync + 'static,
    ) -> Result<Placement, RefusedChanges> {
        let (engine, partitions, shape) =
            (Arc::clone(&self.reading.engine), self.shared.partitions, self.shape());
        let changed = self.runtime.spawn(async move {
            let placed = change(&*engine, changing).await?;
            let viewed = view::settle_tenures(&*engine, partitions, &placed, shape).await?;
            Ok::<_, EngineError>((placed, viewed))
        });
        let changed = changed.await.map_err(|_| RefusedChanges::Stopping)?;
        let (placed, viewed) = changed.map_err(|error| RefusedChanges::Engine(error.to_string()))?;
        self.shared.placed(placed.clone());
        if let (Some(revision), view) = viewed {
            self.shared.viewed(&view);
            self.events.send(Event::Viewed(revision, view)).await.map_err(|_| RefusedChanges::Stopping)?;
        }
        Ok(placed.placement)
    }
}

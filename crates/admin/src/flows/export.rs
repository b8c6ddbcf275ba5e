//! Exports all flows of the cluster as a flow file, one partition of the key space at a time.

use super::{ControlledFlows, FlowsError};
use crate::flow_list::columns::{Cell, FlowParser};
use bytes::Bytes;
use scalebricks_apps::gateway::PinnedState;
use scalebricks_cluster::ControlPlane;
use scalebricks_cluster::rib::RibError;
use scalebricks_control::partition::Partition;
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc::{self, Sender};

/// Approximate bytes of a piece.
const PIECE_BYTES: usize = 64 << 10;

/// Pieces that may wait for the reader.
const WAITING: usize = 4;

impl ControlledFlows {
    /// Starts an export. Flows are in the order of their keyed hashes, so two exports of the same flows with the same
    /// secret are equal. Partitions are read one after another. A flow that changes during the export is exported as it
    /// was before or after the change.
    pub(super) fn begin_export(&self) -> Result<mpsc::Receiver<io::Result<Bytes>>, FlowsError> {
        let plane = self.plane()?.clone();
        let place = Arc::clone(&self.exports)
            .try_acquire_owned()
            .map_err(|_| FlowsError::Later("another export is running; try again later".to_owned()))?;
        let parser = Arc::clone(&self.parser);
        let (pieces, receiver) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            if let Err(error) = run(&plane, &parser, &pieces).await {
                tracing::error!(%error, "the export of the cluster's flows is incomplete");
                let _gone = pieces.send(Err(io::Error::other(error.to_string()))).await;
            }
            drop(place);
        });
        Ok(receiver)
    }
}

async fn run(
    plane: &ControlPlane,
    parser: &Arc<FlowParser>,
    pieces: &Sender<io::Result<Bytes>>,
) -> Result<(), RibError> {
    let mut without_station = 0;
    if pieces.send(Ok(parser.header().into())).await.is_err() {
        return Ok(());
    }
    for partition in plane.partitions() {
        let rib = plane.rib(partition).await?;
        let (parser, pieces) = (Arc::clone(parser), pieces.clone());
        let written = tokio::task::spawn_blocking(move || write(&rib, &parser, &pieces)).await;
        match written.map_err(|_| RibError::Stopping)? {
            Some(without) => without_station += without,
            None => return Ok(()),
        }
    }
    if without_station > 0 {
        tracing::warn!(
            flows = without_station,
            "exported flows whose base stations are no longer in the configuration"
        );
    }
    Ok(())
}

/// Writes the flows of a partition, and returns how many lack their base station; `None` if the reader is gone.
fn write(rib: &Partition, parser: &FlowParser, pieces: &Sender<io::Result<Bytes>>) -> Option<u64> {
    let mut without_station = 0;
    let mut piece = String::with_capacity(PIECE_BYTES + 256);
    for (key, session) in rib.sessions() {
        let state = PinnedState::decode(session.value);
        let Some(record) = parser.record(&key, session.node, &state) else { continue };
        without_station += u64::from(record.base_station == Cell::Absent);
        piece += &parser.file_line(&record);
        if piece.len() >= PIECE_BYTES {
            pieces.blocking_send(Ok(std::mem::take(&mut piece).into())).ok()?;
        }
    }
    if !piece.is_empty() {
        pieces.blocking_send(Ok(piece.into())).ok()?;
    }
    Some(without_station)
}

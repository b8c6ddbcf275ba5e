//! All flows of the cluster as a flow file, a partition of the key space at a time.

use super::{ControlledFlows, FlowsError};
use crate::flow_list::lines::{FlowLines, Written};
use bytes::Bytes;
use scalebricks_apps::gateway::PinnedState;
use scalebricks_cluster::ControlPlane;
use scalebricks_cluster::rib::RibError;
use scalebricks_control::partition::Partition;
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc::{self, Sender};

/// Bytes of a piece, about.
const PIECE_BYTES: usize = 64 << 10;

/// Pieces that wait for whoever reads them.
const WAITING: usize = 4;

impl ControlledFlows {
    /// Begins an export. Flows come in the order of their keyed hashes, so two exports of the same flows under the same secret
    /// are equal. Partitions are read one after the other: flows that change meanwhile are as they were before or after.
    pub(super) fn begin_export(&self) -> Result<mpsc::Receiver<io::Result<Bytes>>, FlowsError> {
        let plane = self.plane()?.clone();
        let place = Arc::clone(&self.exports).try_acquire_owned().map_err(|_| {
            FlowsError::Later("the node exports its flows to somebody else just now; try again".to_owned())
        })?;
        let lines = FlowLines::new(self.parser.profile(), self.parser.base_stations());
        let (pieces, receiver) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            if let Err(error) = run(&plane, lines, &pieces).await {
                tracing::error!(%error, "an export of the cluster's flows ends too early");
                let _gone = pieces.send(Err(io::Error::other(error.to_string()))).await;
            }
            drop(place);
        });
        Ok(receiver)
    }
}

async fn run(
    plane: &ControlPlane,
    lines: FlowLines,
    pieces: &Sender<io::Result<Bytes>>,
) -> Result<(), RibError> {
    let mut without_station = 0;
    if pieces.send(Ok(lines.header().into())).await.is_err() {
        return Ok(());
    }
    for partition in plane.partitions() {
        let rib = plane.rib(partition).await?;
        let (lines, pieces) = (lines.clone(), pieces.clone());
        let written = tokio::task::spawn_blocking(move || write(&rib, &lines, &pieces)).await;
        match written.map_err(|_| RibError::Stopping)? {
            Some(without) => without_station += without,
            None => return Ok(()),
        }
    }
    if without_station > 0 {
        tracing::warn!(
            flows = without_station,
            "exported without their base stations, which the configuration has no more"
        );
    }
    Ok(())
}

/// Writes a partition's flows, and says how many of them lack their base station; `None` if nobody reads any more.
fn write(rib: &Partition, lines: &FlowLines, pieces: &Sender<io::Result<Bytes>>) -> Option<u64> {
    let mut without_station = 0;
    let mut piece = String::with_capacity(PIECE_BYTES + 256);
    for (key, session) in rib.sessions() {
        let state = PinnedState::decode(session.value);
        if lines.write(&key, session.node, &state, &mut piece) == Written::WithoutStation {
            without_station += 1;
        }
        if piece.len() >= PIECE_BYTES {
            pieces.blocking_send(Ok(std::mem::take(&mut piece).into())).ok()?;
        }
    }
    if !piece.is_empty() {
        pieces.blocking_send(Ok(piece.into())).ok()?;
    }
    Some(without_station)
}

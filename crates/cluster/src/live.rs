//! Runs a control plane from the start of a node until the mesh ends.

use crate::inbox::Inbox;
use crate::leasing::Leasing;
use crate::mesh::{Event, Events, Mesh};
use crate::mesh_link::MeshLink;
use crate::plane::{ControlPlane, PeerLink, PlaneConfig};
use crate::shared_tables::SharedTables;
use scalebricks_control::codec::Encoded;
use scalebricks_control::engine::Engine;
use scalebricks_control::membership::Beat;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Time between two attempts to reach the engine at the start.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Runs a node's control plane over this engine and this mesh, until the mesh ends. `plane` is set as soon as the engine can be used.
pub async fn live(
    config: PlaneConfig,
    engine: Arc<dyn Engine>,
    mesh: Arc<Mesh>,
    mut events: Events,
    plane: &OnceLock<ControlPlane>,
    tables: SharedTables,
    leasing: Option<Leasing>,
) {
    let to_others = MeshLink::start(&mesh);
    let mut way_in = None;
    let started = loop {
        let link = |inbox: Inbox| -> Arc<dyn PeerLink> {
            let received = Arc::clone(&inbox.beats);
            way_in = Some(inbox);
            Arc::new(to_others.hearing_by(received))
        };
        match ControlPlane::start(config.clone(), Arc::clone(&engine), tables.clone(), link).await {
            Ok(started) => break started,
            Err(error) => tracing::warn!(%error, "cannot use the engine yet"),
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    };
    tracing::info!("the control plane has started");
    started.carry_counters(tables).await;
    if let Some(leasing) = leasing {
        started.keep_lease(leasing).await;
    }
    let _once = plane.set(started);
    let Some(inbox) = way_in else { return };
    while let Some(event) = events.next().await {
        let Event::Message { from, payload } = event else {
            sign(&inbox, event);
            continue;
        };
        // A message waits for room; heartbeats do not wait behind it.
        let mut came = pin!(inbox.came(from, payload));
        loop {
            tokio::select! {
                is_open = &mut came => {
                    if !is_open {
                        return;
                    }
                    break;
                }
                Some(event) = events.next_sign() => sign(&inbox, event),
            }
        }
    }
}

/// Handles an event other than a message.
fn sign(inbox: &Inbox, event: Event) {
    match event {
        Event::Beat { from, payload, sent_after } => match Beat::decode(&payload) {
            Ok(beat) => inbox.beat_sent_after(from, beat, sent_after.into()),
            Err(error) => tracing::debug!(from = from.get(), %error, "cannot decode heartbeat"),
        },
        Event::Connected { peer } => tracing::info!(peer = peer.get(), "connected"),
        Event::Disconnected { peer } => tracing::warn!(peer = peer.get(), "disconnected"),
        Event::Message { .. } => {}
    }
}

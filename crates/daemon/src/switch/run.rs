//! `scalebricks switch run`: a switch as a daemon.
//!
//! ```text
//! configuration ─▶ names ─▶ ports ─▶ workers ─▶ ready
//!                    ▲                            │
//!                    └── SIGHUP, by difference    └── SIGTERM, SIGINT: stop
//! ```

use super::admin;
use super::load::Configuration;
use super::log::LogHandle;
use super::running::Running;
use crate::error::ProcessError;
use crate::runtime::devices::{self, Devices, Half, PortRequest};
use crate::runtime::service;
use crate::runtime::workers::{Workers, turn};
use scalebricks_admin::model::NodeState;
use scalebricks_console::status;
use scalebricks_dpdk::{Eal, Mbuf, Pool};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Runs a switch until it is asked to stop.
///
/// # Errors
/// [`ProcessError`]: a wrong configuration, ports that cannot be opened, or wrong names.
pub fn run(config: &Path) -> Result<u8, ProcessError> {
    let started = Instant::now();
    // First, so that no signal is lost during the start.
    let mut signals = service::signals().map_err(ProcessError::Signals)?;
    let configuration = Configuration::read(config)?;
    let table = configuration.table()?;
    let switch = Arc::new(Running::new(configuration, table, started));
    let file = &switch.configuration.file;
    let wanted = wanted(&switch.configuration)?;
    if let Some(control) = switch.configuration.control() {
        let log = LogHandle::start(&control, file, switch.names.clone())?;
        let _once = switch.log.set(log);
    } else {
        switch.reload()?;
    }
    let opened = devices::open(&file.dpdk, file.workers.count(), &wanted, |_, _| true, &switch.other_vlan);
    let Devices { eal, by_port, workers: ports, pool } =
        opened.map_err(|error| ProcessError::Ports(error.to_string()))?;
    let admin = admin::serve(&switch)?;
    let workers = start_workers(&switch, eal, ports, pool)?;
    switch.set_state(NodeState::Ready);
    tracing::info!(
        names = switch.names.lock().len(),
        kind = file.names.kind.word(),
        admin = %admin.socket().display(),
        "ready"
    );
    service::ready(&mut signals, "waiting for the names of the log", || switch.has_all_names());
    service::wait(&mut signals, || reload(&switch));
    switch.set_state(NodeState::Draining);
    workers.stop();
    drop((admin, by_port));
    tracing::info!(uptime_s = started.elapsed().as_secs(), "stopped");
    Ok(status::SUCCESS)
}

/// The ports to open.
fn wanted(configuration: &Configuration) -> Result<Vec<PortRequest<'_>>, ProcessError> {
    let ports = configuration.file.ports.iter().zip(configuration.devices()?);
    Ok(ports.map(|(port, device)| PortRequest { device, vlan: port.vlan, mtu: port.mtu }).collect())
}

/// Reads the names again. A bad file changes nothing.
fn reload(switch: &Running) {
    match switch.reload() {
        Ok(None) => tracing::info!("names come from the log: there is no file to read"),
        Ok(Some(done)) => tracing::info!(
            added = done.added,
            altered = done.altered,
            removed = done.removed,
            kept = done.kept,
            "names reloaded"
        ),
        Err(error) => tracing::error!(%error, "the names were not changed"),
    }
}

fn start_workers(
    switch: &Running,
    eal: Eal,
    halves: Vec<Vec<Half>>,
    pool: Pool,
) -> Result<Workers, ProcessError> {
    let (file, start) = (&switch.configuration.file.workers, Instant::now());
    let mut workers = Workers::new(eal);
    for (at, halves) in halves.into_iter().enumerate() {
        let queues = halves.into_iter().map(|half| {
            let (rx, tx) = half.split();
            (Box::new(rx) as _, Box::new(tx) as _)
        });
        let mut worker = switch.worker::<Mbuf>(queues, Box::new(pool))?;
        let (idle, core) = (file.idle, file.cores.get(at).copied());
        workers
            .start(core, move |control| turn(&mut worker, idle, start, control))
            .map_err(ProcessError::Thread)?;
    }
    Ok(workers)
}

//! `scalebricks router node`: a node of a cluster router as a daemon.
//!
//! ```text
//! configuration ─▶ ports and links ─▶ worker ─▶ log, sources of routes ─▶ ready
//!                                                 ▲                        │
//!                    SIGHUP, by difference ───────┘                        └── SIGTERM, SIGINT: stop
//! ```

use super::admin;
use super::control::ControlSide;
use super::load::Configuration;
use super::running::{Running, link_device, port_device};
use crate::error::ProcessError;
use crate::replica;
use crate::runtime::devices::{self, Half, PortRequest};
use crate::runtime::service;
use crate::runtime::workers::{Workers, turn};
use scalebricks_admin::model::NodeState;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_console::status;
use scalebricks_dpdk::{Eal, Mbuf, Pool};
use scalebricks_graph::Clock;
use scalebricks_wire::MacAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Runs a node until it is asked to stop.
///
/// # Errors
/// [`ProcessError`]: a wrong configuration, or ports that cannot be opened.
pub fn run(config: &Path) -> Result<u8, ProcessError> {
    let started = Instant::now();
    // First, so that no signal is lost during the start.
    let mut signals = service::signals().map_err(ProcessError::Signals)?;
    let configuration = Configuration::read(config)?;
    let control = configuration.control();
    let engine = replica::engine(&control.engine, &control.name)?;
    let node = Arc::new(Running::new(configuration, started)?);
    let file = &node.configuration.file;
    let ports = file.ports.iter().map(|port| (port.device.as_str(), port.vlan));
    let links = file.links.iter().map(|link| (link.device.as_str(), link.vlan));
    let wanted: Vec<PortRequest<'_>> =
        ports.chain(links).map(|(device, vlan)| PortRequest { device, vlan, mtu: file.mtu }).collect();
    let opened = devices::open(&file.dpdk, 1, &wanted, |_, _| true, &node.other_vlan);
    let devices::Devices { eal, by_port, workers: halves, pool } =
        opened.map_err(|error| ProcessError::Ports(error.to_string()))?;
    let own = by_port.iter().map(|device| MacAddr(device.info().mac));
    let macs: Vec<MacAddr> = file.ports.iter().zip(own).map(|(port, own)| port.mac.unwrap_or(own)).collect();
    let workers = start_worker(&node, eal, halves, &macs, pool)?;
    let beside = |path: &Path| node.configuration.beside(path);
    let control = ControlSide::start(engine, file, beside, node.routes.clone(), node.alive())?;
    let _once = node.control.set(control);
    let admin = admin::serve(&node)?;
    node.set_state(NodeState::Ready);
    tracing::info!(
        node = file.id.get(),
        nodes = file.size.get(),
        ports = file.ports.len(),
        steering = file.steering.name(),
        admin = %admin.socket().display(),
        "ready"
    );
    service::ready(&mut signals, "waiting for the routes of the log", || node.has_all_routes());
    service::wait(&mut signals, || reload(&node));
    node.set_state(NodeState::Draining);
    workers.stop();
    drop((admin, by_port));
    tracing::info!(uptime_s = started.elapsed().as_secs(), "stopped");
    Ok(status::SUCCESS)
}

/// Reads the static routes again. A bad file changes nothing.
fn reload(node: &Running) {
    match node.control.get().map(ControlSide::reload) {
        None | Some(Ok(None)) => tracing::info!("there is no file of static routes to read"),
        Some(Ok(Some(()))) => tracing::info!("the static routes were read; the difference is being logged"),
        Some(Err(error)) => tracing::error!(%error, "the static routes were not changed"),
    }
}

fn start_worker(
    node: &Running,
    eal: Eal,
    halves: Vec<Vec<Half>>,
    macs: &[MacAddr],
    pool: Pool,
) -> Result<Workers, ProcessError> {
    let (file, start) = (&node.configuration.file, Instant::now());
    let ports = (0..file.ports.len()).map(port_device);
    let names = ports.chain(file.links.iter().map(|link| link_device(link.node)));
    let mut devices = Devices::new(Clock::Wall);
    for (name, half) in names.zip(halves.into_iter().flatten()) {
        let (receives, sends) = half.split();
        devices.receive(Some(&name), ReceiveBinding::Port(Box::new(receives) as _));
        devices.send(&name, SendBinding::Port(Box::new(sends) as _));
    }
    let mut worker = node.worker::<Mbuf>(devices, macs, Box::new(pool))?;
    let (idle, core) = (file.workers.idle, file.workers.cores.first().copied());
    let mut workers = Workers::new(eal);
    workers
        .start(core, move |control| turn(&mut worker, idle, start, control))
        .map_err(ProcessError::Thread)?;
    Ok(workers)
}

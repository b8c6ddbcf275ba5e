//! `scalebricks node run`: a gateway node as a daemon.
//!
//! ```text
//! configuration ─▶ flows ─▶ tables ─▶ ports ─▶ workers ─▶ ready
//!                    ▲                                      │
//!                    └── SIGHUP, by difference              └── SIGTERM, SIGINT: drain, stop
//! ```

use super::config::Role;
use super::errors::Errors;
use super::fabric;
use super::health::{self, HealthView};
use super::links::{self, OpenPorts, PortDevice};
use super::load::Configuration;
use super::preflight::local_config;
use super::running::{Hardware, LinkState, Running};
use super::slow_path::SlowPath;
use super::source::{Source, control_plane};
use super::takeover;
use super::worker::Worker;
use crate::error::ProcessError;
use crate::runtime::service;
use crate::runtime::workers::Workers;
use scalebricks_admin::flow_list::columns::FlowParser;
use scalebricks_admin::flows::{ControlledFlows, Flows};
use scalebricks_admin::model::{NodeState, PoolView, PortCounters, PortView};
use scalebricks_admin::server::AdminServer;
use scalebricks_apps::gateway::{FlowList, Node, NodePorts};
use scalebricks_cluster::leasing::Leasing;
use scalebricks_console::{Console, status};
use scalebricks_dpdk::{Eal, Mbuf, Pool};
use scalebricks_elements::gateway::local::LocalStack;
use scalebricks_elements::gateway::{Identifications, Lease, NodeConfig, OutsideMacs, Policy};
use scalebricks_graph::tap::Taps;
use scalebricks_wire::MacAddr;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Runs a node until it is asked to stop.
///
/// # Errors
/// [`ProcessError`]: a wrong configuration, ports that cannot be opened, tables that refuse the flows.
pub fn run(config: &Path, console: &Console) -> Result<u8, ProcessError> {
    let started = Instant::now();
    // First, so that no signal is lost during the start.
    let mut signals = service::signals().map_err(ProcessError::Signals)?;
    let configuration = Configuration::read(config)?;
    let appliance = configuration.appliance()?;
    let flows = configuration.flows(console)?;
    let file = &configuration.file;
    let workers = file.workers.count();
    let lease = Arc::new(if file.control.is_some() {
        Lease::none().to_be_filled().counted_from(started)
    } else {
        Lease::unlimited()
    });
    let fabric = fabric::health(file);
    let tables = match configuration.control() {
        None => {
            let expected = flows.len();
            let mut tables =
                FlowList::new(&file.layout(), file.id, workers, expected).map_err(ProcessError::Tables)?;
            tables.change_to(&flows, |_| {}).map_err(ProcessError::Load)?;
            tracing::info!(flows = expected, elapsed_ms = elapsed_ms(started), "flows loaded");
            Source::List(Box::new(Mutex::new(tables)))
        }
        Some(control) => {
            let (times, lease) = (control.lease, Arc::clone(&lease));
            let leasing = Leasing { times, lease, fabric: fabric.clone(), start: started.into() };
            Source::Control(Box::new(control_plane(&configuration, &control, leasing)?))
        }
    };
    drop(flows);

    let OpenPorts { eal, by_role: devices, workers: ports, pool, other_vlan } =
        links::open(file).map_err(|error| ProcessError::Ports(error.to_string()))?;
    let macs = macs(&configuration, &devices);
    let local = local_config(&configuration, macs);
    local.check().map_err(|error| ProcessError::Local(error.to_string()))?;
    let local = LocalStack::new(local, started.elapsed());
    let owners = tables.owners();
    let slow_path = Arc::new(SlowPath::with_errors(local, Errors::new(lease, owners)));
    let sizes = tables.sizes();
    let node = node_config(&configuration, appliance, macs, &slow_path);
    let cores = (0..workers).map(|at| (file.workers.cores.get(at).copied(), Arc::default())).collect();
    let running = Arc::new(Running {
        node: node.clone(),
        slow_path,
        fabric,
        workers: cores,
        hardware: Box::new(Devices {
            by_role: devices,
            pool,
            other_vlan,
            configuration: configuration.clone(),
        }),
        taps: Taps::default(),
        started,
        tables,
        configuration,
        state: AtomicU8::new(NodeState::Loading as u8),
        flows: Mutex::default(),
        graphs: Arc::default(),
        health: HealthView::default(),
        down: Arc::default(),
    });
    running.loaded(sizes);
    let file = &running.configuration.file;
    let admin = AdminServer::start_with(
        &running.configuration.admin(),
        Arc::<Running>::clone(&running),
        pinned_flows(&running),
    )?;
    let takeover = takeover::start(&running).map_err(ProcessError::Thread)?;
    let refresh = fabric::start_refresh(&running).map_err(ProcessError::Thread)?;
    let workers = start_workers(&running, eal, ports, &node, pool)?;
    let health = health::watch::start(&running).map_err(ProcessError::Thread)?;
    let began = Instant::now();
    if let Source::Control(_) = &running.tables {
        tracing::info!("ports are open; waiting for the cluster's flows");
    }
    let is_ready =
        service::ready(&mut signals, "waiting for the cluster's flows", || running.may_become_ready());
    if is_ready {
        running.set_state(NodeState::Ready);
        log_ready(&running, began);
    }
    service::wait(&mut signals, || reload(&running, console));
    running.set_state(NodeState::Draining);
    tracing::info!(drain_ms = file.drain_ms, "draining");
    service::drain(&mut signals, Duration::from_millis(file.drain_ms.into()));
    // Stopped before the workers, which it observes.
    drop(health);
    workers.stop();
    drop((admin, takeover, refresh));
    tracing::info!(uptime_s = started.elapsed().as_secs(), "stopped");
    Ok(status::SUCCESS)
}

/// Logs that the node is ready; `began`: when its ports were open.
fn log_ready(running: &Running, began: Instant) {
    let (file, sizes) = (&running.configuration.file, running.tables.sizes());
    if let Source::Control(_) = &running.tables {
        tracing::info!(
            flows_here = sizes.tables.flows_here,
            elapsed_ms = elapsed_ms(began),
            "caught up with the cluster"
        );
    }
    tracing::info!(
        node = file.id.get(),
        architecture = %file.architecture,
        flows = sizes.flows,
        flows_here = sizes.tables.flows_here,
        admin = %file.admin.display(),
        elapsed_ms = elapsed_ms(running.started),
        "ready"
    );
}

fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The interface that pins flows; `None` if flows come from a file.
fn pinned_flows(running: &Running) -> Option<Arc<dyn Flows>> {
    let Source::Control(daemon) = &running.tables else { return None };
    let file = &running.configuration.file;
    let parser = FlowParser::new(file.profile, file.size, &file.base_stations);
    Some(Arc::new(ControlledFlows::new(file.id, daemon.later(), parser)))
}

/// Reads the flow file again and applies the differences. A bad file changes nothing.
fn reload(running: &Running, console: &Console) {
    let began = Instant::now();
    let flows = match running.configuration.flows(console) {
        Ok(flows) => flows,
        Err(error) => {
            tracing::error!(%error, "the flows were not changed");
            return;
        }
    };
    match running.tables.change_to(&flows) {
        Ok(None) => tracing::info!("flows come from the control plane: there is no file to read"),
        Ok(Some(changes)) => tracing::info!(
            added = changes.added,
            changed = changes.changed,
            removed = changes.removed,
            kept = changes.kept,
            elapsed_ms = elapsed_ms(began),
            "flows reloaded"
        ),
        Err(error) => {
            tracing::error!(%error, "the flows were reloaded in part; the next reload continues");
        }
    }
    running.loaded(running.tables.sizes());
}

fn start_workers(
    running: &Running,
    eal: Eal,
    ports: Vec<NodePorts<Mbuf>>,
    node: &NodeConfig,
    pool: Pool,
) -> Result<Workers, ProcessError> {
    let mut workers = Workers::new(eal);
    for (at, ports) in ports.into_iter().enumerate() {
        let (core, stats) = running.workers[at].clone();
        let mut turned = Node::new(node.clone(), running.tables.node_tables(at), ports, Box::new(pool));
        turned.set_taps(&running.taps);
        turned.set_lease(Arc::clone(running.slow_path.lease()));
        turned.set_down_links(Arc::clone(&running.down));
        if let Some(health) = &running.fabric {
            turned.set_fabric_health(Arc::clone(health));
        }
        let ledger = Arc::new(Mutex::new(turned.ledger().clone()));
        running.graphs.add(turned.worker(), ledger);
        let mut worker = Worker {
            node: turned,
            buffers: Box::new(pool),
            slow_path: Arc::clone(&running.slow_path),
            stats,
            idle: running.configuration.file.workers.idle,
            keeps_time: at == 0,
            start: running.started,
            mark: running.tables.mark(at),
        };
        workers.start(core, move |control| worker.run(control)).map_err(ProcessError::Thread)?;
    }
    Ok(workers)
}

/// The MAC addresses of the outside links.
fn macs(configuration: &Configuration, devices: &[PortDevice; 3]) -> OutsideMacs {
    let mac = |wanted: Role| {
        let given =
            configuration.file.ports.iter().find(|port| port.role == wanted).and_then(|port| port.mac);
        let own = devices.iter().find(|device| device.role == wanted);
        given.or_else(|| own.map(|own| MacAddr(own.device.info().mac))).unwrap_or_default()
    };
    OutsideMacs {
        internet: mac(Role::Internet),
        base_station: mac(Role::BaseStation),
        router: MacAddr::default(),
    }
}

fn node_config(
    configuration: &Configuration,
    appliance: Option<Arc<str>>,
    macs: OutsideMacs,
    slow_path: &SlowPath,
) -> NodeConfig {
    let file = &configuration.file;
    let internet = file.ports.iter().filter(|port| port.role == Role::Internet);
    let addresses: Vec<IpAddr> =
        internet.flat_map(|port| &port.addresses).map(|(address, _)| *address).collect();
    // Random, so that a restarted process does not reuse its last numbers.
    let start = RandomState::new().hash_one(file.id.get()) as u32;
    NodeConfig {
        appliance,
        id: file.id,
        size: file.size,
        policy: Policy {
            key_profile: file.profile,
            verify_ipv4_checksum: file.verify_ipv4_checksum,
            oversize: file.oversize,
            base_station_mtu: file.base_station_mtu,
            gateway_address: file.gateway,
            gateway_address_v6: file.gateway_v6,
        },
        seed: file.seed,
        macs,
        addresses: addresses.into(),
        adjacencies: slow_path.adjacencies(),
        identifications: Arc::new(Identifications::new(file.id, file.size, start)),
    }
}

/// The devices behind a node's ports.
struct Devices {
    by_role: [PortDevice; 3],
    pool: Pool,
    other_vlan: Arc<AtomicU64>,
    configuration: Configuration,
}

impl Hardware for Devices {
    fn links(&self) -> Vec<LinkState> {
        let ports = self.by_role.iter().zip(&self.configuration.file.ports);
        let state = |(link, port): (&PortDevice, &super::config::Port)| LinkState {
            port: link.role.port(),
            device: port.device.clone(),
            is_up: link.device.link().ok().map(|link| link.up),
        };
        ports.map(state).collect()
    }

    fn ports(&self) -> Vec<PortView> {
        let ports = self.by_role.iter().zip(&self.configuration.file.ports);
        ports
            .map(|(link, port)| {
                let info = link.device.info();
                let state = link.device.link().ok();
                PortView {
                    role: link.role,
                    device: port.device.clone(),
                    driver: info.driver.clone(),
                    mac: port.mac.unwrap_or(MacAddr(info.mac)).to_string(),
                    addresses: port.addresses.iter().map(|(ip, len)| format!("{ip}/{len}")).collect(),
                    is_link_up: state.is_some_and(|link| link.up),
                    speed_mbps: state.and_then(|link| link.speed_mbps),
                }
            })
            .collect()
    }

    fn counters(&self) -> Vec<PortCounters> {
        let counters = |link: &PortDevice| {
            let stats = link.device.stats().ok()?;
            Some(PortCounters {
                role: link.role,
                rx_packets: stats.rx_packets,
                rx_bytes: stats.rx_bytes,
                rx_missed: stats.rx_missed,
                rx_errors: stats.rx_errors,
                rx_no_buffer: stats.rx_no_buffer,
                rx_shared: stats.rx_shared,
                rx_unusable: stats.rx_unusable,
                tx_packets: stats.tx_packets,
                tx_bytes: stats.tx_bytes,
                tx_errors: stats.tx_errors,
            })
        };
        self.by_role.iter().filter_map(counters).collect()
    }

    fn pool(&self) -> PoolView {
        PoolView { free: self.pool.available().into(), in_use: self.pool.in_use().into() }
    }

    fn dropped(&self) -> BTreeMap<String, u64> {
        BTreeMap::from([("other_vlan".to_owned(), self.other_vlan.load(Ordering::Relaxed))])
    }
}

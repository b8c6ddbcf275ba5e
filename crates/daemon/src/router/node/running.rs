//! A running node: its routes, its tables, and the state that it reports.

use super::control::ControlSide;
use super::feeder::SharedStatus;
use super::load::Configuration;
use super::routes::SharedRoutes;
use super::routes::connected::FeederKind;
use super::routes::tables::{HopSink, RouteTables};
use crate::error::ProcessError;
use crate::replica::LogProgress;
use scalebricks_admin::graph::ServedGraph;
use scalebricks_admin::model::NodeState;
use scalebricks_admin::model::router::{
    FeederView, LinkView, MAX_ROUTES, NextHopView, PathView, RouteView, RouterView, RoutesRequest, RoutesView,
};
use scalebricks_apps::click::devices::Devices;
use scalebricks_apps::directory::Directory;
use scalebricks_apps::router::node::{NodeConfig, NodeLink, NodePort, NodeTables};
use scalebricks_apps::router::server::Interface;
use scalebricks_click::values::Prefix as InterfacePrefix;
use scalebricks_control::routes::{Exit, IpPrefix, RoutePaths, RouteRib};
use scalebricks_elements::fabric::links::{HelloTimes, Links};
use scalebricks_elements::fabric::mtus::Mtus;
use scalebricks_elements::fabric::next_hops::{Neighbour, NextHops};
use scalebricks_graph::{Registry, Worker};
use scalebricks_io::{PacketBuf, PacketSource};
use scalebricks_tables::lpm::{Address, Lpm, Params, Prefix};
use scalebricks_types::{NodeId, NodeSet};
use scalebricks_wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

/// Routes in one answer, unless the caller asks for another number.
const ROUTES: usize = 100;

/// Most ICMP errors of each kind per second.
const ERRORS_PER_SECOND: u32 = 100;

/// The device of an external port, in the graph.
pub fn port_device(port: usize) -> String {
    format!("port{port}")
}

/// The device of a link, in the graph.
pub fn link_device(node: NodeId) -> String {
    format!("node{}", node.get())
}

/// A running node.
#[derive(Debug)]
pub struct Running {
    /// Its configuration.
    pub configuration: Configuration,
    /// Its routes.
    pub routes: SharedRoutes,
    /// What its graph shares with control.
    pub tables: NodeTables,
    /// The log and the sources of routes.
    pub control: OnceLock<ControlSide>,
    /// Frames dropped because they have another VLAN tag or none.
    pub other_vlan: Arc<AtomicU64>,
    graphs: Arc<Directory>,
    state: AtomicU8,
    started: Instant,
}

impl Running {
    /// Creates a node in the state `Loading`, with empty tables.
    ///
    /// # Errors
    /// [`ProcessError::Local`] if the number of the node is wrong.
    pub fn new(configuration: Configuration, started: Instant) -> Result<Self, ProcessError> {
        let file = &configuration.file;
        let wrong = |error: &dyn std::fmt::Display| ProcessError::Local(error.to_string());
        let links = Links::new(file.id, file.size, file.secret, HelloTimes::default());
        let next_hops = Arc::new(NextHops::new(usize::from(u16::MAX)));
        let mtus = Mtus::new(file.size);
        let ports = || (0..64).filter_map(scalebricks_elements::fabric::mac::ExternalPort::new);
        for node in file.size.nodes() {
            for port in ports() {
                mtus.set(node, port, file.mtu);
            }
        }
        let tables = NodeTables {
            routes: Arc::new(Lpm::new(Params::FAST)),
            routes6: Arc::new(Lpm::new(Params::SMALL)),
            next_hops: Arc::clone(&next_hops),
            links: Arc::new(links.map_err(|error| wrong(&error))?),
            mtus: Arc::new(mtus),
        };
        let mut alive = NodeSet::EMPTY;
        alive.insert(file.id);
        let published = RouteTables::new(
            file.id,
            Arc::clone(&tables.routes),
            Arc::clone(&tables.routes6),
            sink(next_hops),
        );
        Ok(Self {
            routes: SharedRoutes::new(alive, published),
            configuration,
            tables,
            control: OnceLock::new(),
            other_vlan: Arc::default(),
            graphs: Arc::default(),
            state: AtomicU8::new(0),
            started,
        })
    }

    /// The nodes that packets of this node reach.
    pub fn alive(&self) -> impl Fn() -> NodeSet + Send + 'static {
        let links = Arc::clone(&self.tables.links);
        move || links.reachable()
    }

    /// Creates the worker of the node. `devices` binds [`port_device`] and [`link_device`]; `macs` are the addresses of the
    /// ports. Its counters are part of the [view](Self::served_graph).
    ///
    /// # Errors
    /// [`ProcessError::Local`] if the graph cannot be built or its devices cannot be opened.
    pub fn worker<P: PacketBuf + 'static>(
        &self,
        mut devices: Devices<P>,
        macs: &[MacAddr],
        buffers: Box<dyn PacketSource<P> + Send>,
    ) -> Result<Worker<P>, ProcessError> {
        let wrong = |what: String| ProcessError::Local(what);
        let registry: Registry<P> = scalebricks_elements::registry();
        let config = self.node_config(macs)?;
        let (mut graph, ledger) =
            config.graph(&self.tables, &registry).map_err(|error| wrong(error.to_string()))?;
        graph.open(&mut devices).map_err(|errors| {
            wrong(errors.iter().map(|(name, why)| format!("{name}: {why}")).collect::<Vec<_>>().join("; "))
        })?;
        let worker = Worker::new(graph, buffers, ());
        self.graphs.add(&worker, Arc::new(Mutex::new(ledger)));
        Ok(worker)
    }

    /// The node as the data path describes it.
    fn node_config(&self, macs: &[MacAddr]) -> Result<NodeConfig, ProcessError> {
        let file = &self.configuration.file;
        let port = |(at, (port, mac)): (usize, (&super::config::Port, &MacAddr))| {
            let four = port.addresses.iter().find_map(|&(address, length)| match address {
                IpAddr::V4(address) => Some(InterfacePrefix { address, length }),
                IpAddr::V6(_) => None,
            });
            let ip6 = port.addresses.iter().find_map(|&(address, length)| match address {
                IpAddr::V6(address) => Some((address, length)),
                IpAddr::V4(_) => None,
            });
            let ip = four.ok_or_else(|| ProcessError::Local(format!("port {at} has no IPv4 address")))?;
            let interface = Interface { device: port_device(at), ip, mac: *mac, ip6 };
            Ok(NodePort { interface, mtu: file.mtu })
        };
        let ports =
            file.ports.iter().zip(macs).enumerate().map(port).collect::<Result<Vec<_>, ProcessError>>()?;
        let links =
            file.links.iter().map(|link| NodeLink { node: link.node, device: link_device(link.node) });
        Ok(NodeConfig {
            id: file.id,
            size: file.size,
            rate: file.port_rate * ports.len() as u64,
            ports,
            links: links.collect(),
            link_rate: (file.link_rate > 0).then_some(file.link_rate),
            steering: file.steering,
            queue: file.queue,
            burst: None,
            seed: seed(),
            errors_per_second: ERRORS_PER_SECOND,
        })
    }

    /// The graph of its worker, for the admin server.
    pub fn served_graph(&self) -> ServedGraph {
        ServedGraph::new(Arc::clone(&self.graphs), &self.configuration.path, self.started)
    }

    /// Its state.
    pub fn state(&self) -> NodeState {
        let at = usize::from(self.state.load(Ordering::Relaxed)); // nothing is published with it
        NodeState::ALL.get(at).copied().unwrap_or(NodeState::Draining)
    }

    /// Sets its state.
    pub fn set_state(&self, state: NodeState) {
        let at = NodeState::ALL.iter().position(|&other| other == state).unwrap_or_default();
        self.state.store(at as u8, Ordering::Relaxed); // one of three
    }

    /// Whether it has all routes of the log, and the log has its ports' networks.
    pub fn has_all_routes(&self) -> bool {
        self.control.get().is_some_and(ControlSide::has_all_routes)
    }

    /// Whether it forwards and has all routes.
    pub fn is_ready(&self) -> bool {
        self.state() == NodeState::Ready && self.has_all_routes()
    }

    /// Its status.
    pub fn view(&self) -> RouterView {
        let file = &self.configuration.file;
        let unknown = || LogProgress { position: 0, has_caught_up: false, reloads: 0, fault: None };
        let log = self.control.get().map_or_else(unknown, ControlSide::progress);
        let feeders = self.control.get().map(ControlSide::feeders).unwrap_or_default();
        let table_bytes = self.tables.routes.table_bytes() + self.tables.routes6.table_bytes();
        let state = self.routes.lock();
        RouterView {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: file.id.get(),
            nodes: file.size.get() as u16, // at most 256
            steering: file.steering.name().to_owned(),
            state: self.state(),
            is_ready: self.state() == NodeState::Ready && self.has_all_routes(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            position: log.position,
            fault: log.fault,
            log_reloads: log.reloads,
            prefixes: state.rib.len() as u64,
            routes_ipv4: state.tables.v4().len() as u64,
            routes_ipv6: state.tables.v6().len() as u64,
            missing_routes: state.tables.missing() as u64,
            refused_prefixes: state.counts.refused,
            refused_next_hops: state.counts.without_number,
            next_hops: state.rib.next_hop_count() as u64,
            own_next_hops: state.tables.own_hops().len() as u64,
            resolved_next_hops: self.tables.next_hops.len() as u64,
            table_bytes: table_bytes as u64,
            alive: state.rib.alive().iter().map(NodeId::get).collect(),
            walks: state.walks,
            last_walk_ms: u64::try_from(state.last_walk.as_millis()).unwrap_or(u64::MAX),
            feeders: feeders.iter().map(feeder).collect(),
            other_vlan: self.other_vlan.load(Ordering::Relaxed),
        }
    }

    /// Routes with all their paths.
    ///
    /// # Errors
    /// What is wrong with the request.
    pub fn routes(&self, asked: &RoutesRequest) -> Result<RoutesView, String> {
        let state = self.routes.lock();
        if let Some(text) = &asked.address {
            let address: IpAddr = text.parse().map_err(|_| format!("{text:?} is not an address"))?;
            let found = longest(&state.rib, address).map(|paths| route(&state.rib, paths));
            return Ok(RoutesView { routes: found.into_iter().collect(), has_more: false });
        }
        let after = asked.after.as_deref().map(prefix).transpose()?;
        let limit = asked.limit.map_or(ROUTES, |limit| limit as usize).clamp(1, MAX_ROUTES);
        let mut paths = state.rib.paths_from(after);
        let routes = paths.by_ref().take(limit).map(|paths| route(&state.rib, paths)).collect();
        Ok(RoutesView { routes, has_more: paths.next().is_some() })
    }

    /// The next hops of this node.
    pub fn next_hops(&self) -> Vec<NextHopView> {
        let state = self.routes.lock();
        let hops = state.tables.own_hops().iter().map(|(number, (port, address))| NextHopView {
            number: *number,
            port: port.get(),
            address: address.to_string(),
            mac: self.tables.next_hops.get(*number).map(|mac| mac.to_string()),
        });
        hops.collect()
    }

    /// The links of this node.
    pub fn links(&self) -> Vec<LinkView> {
        let (map, reachable) = (self.tables.links.map(), self.tables.links.reachable());
        let links = self.configuration.file.links.iter().map(|link| LinkView {
            node: link.node.get(),
            device: link.device.clone(),
            is_up: map.is_up(link.node),
            is_reachable: reachable.contains(link.node),
            reaches: map.row(link.node).iter().map(NodeId::get).collect(),
        });
        links.collect()
    }
}

/// Defines the next hops of this node, which its worker then resolves.
fn sink(next_hops: Arc<NextHops>) -> HopSink {
    Box::new(move |number, neighbour| {
        let neighbour = neighbour.map(|(port, address)| Neighbour { port, address });
        if let Err(error) = next_hops.define(number, neighbour) {
            tracing::error!(number, %error, "cannot use a next hop");
        }
    })
}

/// A secret seed of random choices, another one each time.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

fn prefix(text: &str) -> Result<IpPrefix, String> {
    let parsed =
        if text.contains(':') { text.parse().map(IpPrefix::V6) } else { text.parse().map(IpPrefix::V4) };
    parsed.map_err(|error| error.to_string())
}

/// The longest prefix with a selected path that contains an address.
fn longest(rib: &RouteRib, address: IpAddr) -> Option<RoutePaths<'_>> {
    fn of<A: Address>(
        rib: &RouteRib,
        address: A,
        family: fn(Prefix<A>) -> IpPrefix,
    ) -> Option<RoutePaths<'_>> {
        let prefixes = (0..=A::BITS).rev().filter_map(|length| Prefix::of(address, length).ok());
        prefixes.map(family).find_map(|prefix| rib.paths(prefix).filter(|paths| paths.selected().is_some()))
    }
    match address {
        IpAddr::V4(address) => of::<Ipv4Addr>(rib, address, IpPrefix::V4),
        IpAddr::V6(address) => of::<Ipv6Addr>(rib, address, IpPrefix::V6),
    }
}

fn route(rib: &RouteRib, paths: RoutePaths<'_>) -> RouteView {
    let mut selected = paths.selected();
    let path =
        |(path, feeder): (scalebricks_control::routes::Path, scalebricks_control::routes::FeederId)| {
            let Exit { node, port, next_hop } = path.exit;
            PathView {
                node: node.get(),
                port,
                next_hop: next_hop.map(|hop| hop.to_string()),
                number: rib.number(path.exit).unwrap_or_default(),
                preference: path.preference,
                feeder: FeederKind::name_of(feeder),
                // Several sources may have the same exit; the first one's path is the selected one.
                is_selected: selected.take_if(|exit| *exit == path.exit).is_some(),
            }
        };
    let text = match paths.prefix {
        IpPrefix::V4(prefix) => prefix.to_string(),
        IpPrefix::V6(prefix) => prefix.to_string(),
    };
    RouteView { prefix: text, paths: paths.paths().map(path).collect() }
}

fn feeder(status: &SharedStatus) -> FeederView {
    let status = status.lock().clone();
    FeederView {
        name: status.name.to_owned(),
        state: status.state,
        routes: status.routes,
        unresolved: status.unresolved,
        surplus: status.surplus,
        logged: status.logged,
        messages: status.counts.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect(),
        last_error: status.last_error,
        fault: status.fault,
    }
}

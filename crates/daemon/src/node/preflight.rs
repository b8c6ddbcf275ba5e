//! What a start of a node refuses, found out without starting it.
//!
//! | `scalebricks node run` | here |
//! |---|---|
//! | reads the configuration and the flows | before, by [`Configuration`] |
//! | fills its tables | the same tables are filled and dropped |
//! | reads the cluster key, secrets, files for TLS | the same functions |
//! | gives addresses and routes to the slow path | the same configuration, with a made-up MAC address for a device that has its own |
//! | listens for other nodes, and for the admin interface | the addresses are bound and released |
//! | opens devices, starts threads | not looked at |

use super::NodeError;
use super::config::Role;
use super::load::Configuration;
use crate::node::control_plane::{self, DaemonError};
use scalebricks_admin::server::{Limits, Listen};
use scalebricks_apps::gateway::{FlowList, FlowSpec};
use scalebricks_elements::gateway::local::{Interface, LocalConfig, Route};
use scalebricks_elements::gateway::{OutputPort, OutsideMacs};
use scalebricks_wire::MacAddr;

/// In place of a device's own address.
const SOME_MAC: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);

/// Checks all that a start would refuse, except devices. What depends on this machine (its addresses, ports in use, directories of
/// sockets) is checked only if the node `is_here`. While the node runs, its own ports count as free.
///
/// # Errors
/// All problems there are, as one [`NodeError::Refused`].
pub(super) fn check(
    configuration: &Configuration,
    flows: &[FlowSpec],
    is_here: bool,
) -> Result<(), NodeError> {
    let mut problems = Vec::new();
    let mut keep = |result: Result<(), NodeError>| problems.extend(result.err());
    keep(check_slow_path(configuration));
    let listens = listen(configuration).check(is_here);
    let is_running = listens.as_ref().is_ok_and(|is_running| *is_running);
    keep(listens.map(drop).map_err(|error| NodeError::Admin(error.to_string())));
    if configuration.node.control.is_some() {
        for error in check_control(configuration, is_here, is_running) {
            keep(Err(error.into()));
        }
    } else {
        keep(check_tables(configuration, flows));
    }
    if problems.is_empty() { Ok(()) } else { Err(NodeError::Refused(problems)) }
}

fn check_tables(configuration: &Configuration, flows: &[FlowSpec]) -> Result<(), NodeError> {
    let file = &configuration.node;
    let tables = FlowList::new(&file.layout(), file.id, file.workers.count(), flows.len());
    tables.map_err(NodeError::Tables)?.change_to(flows, |_| {}).map_err(NodeError::Load)?;
    Ok(())
}

fn check_slow_path(configuration: &Configuration) -> Result<(), NodeError> {
    let mac = |wanted: Role| {
        let port = configuration.node.ports.iter().find(|port| port.role == wanted);
        port.and_then(|port| port.mac).unwrap_or(SOME_MAC)
    };
    let (internet, base_station) = (mac(Role::Internet), mac(Role::BaseStation));
    let macs = OutsideMacs { internet, base_station, router: MacAddr::default() };
    let local = local_config(configuration, macs);
    local.check().map_err(|error| NodeError::Local(error.to_string()))
}

fn check_control(configuration: &Configuration, is_here: bool, is_running: bool) -> Vec<DaemonError> {
    let file = &configuration.node;
    let Some(control) = configuration.control() else { return Vec::new() };
    let mut problems = control_plane::check_files(&control);
    problems.extend(control_plane::params(&control, file.gpt, file.size).err().map(DaemonError::from));
    if is_here {
        problems.extend(control_plane::check_listen(control.listen, is_running).err());
    }
    problems
}

/// Where the admin interface listens; files are found beside the configuration.
pub(super) fn listen(configuration: &Configuration) -> Listen {
    let file = &configuration.node;
    let tcp = file.admin_tcp.as_ref().map(|tcp| tcp.at(|file| configuration.beside(file)));
    Listen { socket: configuration.beside(&file.admin), tcp, limits: Limits::default() }
}

/// The addresses and routes of the outside links.
pub(super) fn local_config(configuration: &Configuration, macs: OutsideMacs) -> LocalConfig {
    let file = &configuration.node;
    let interface = |wanted: Role, mac| {
        let port = file.ports.iter().find(|port| port.role == wanted);
        let (addresses, mtu) = port.map(|port| (port.addresses.clone(), port.mtu)).unwrap_or_default();
        Interface { mac, addresses, mtu }
    };
    let routes = file.routes.iter().map(|route| Route {
        port: match route.port {
            Role::BaseStation => OutputPort::BaseStation,
            Role::Internet | Role::Fabric => OutputPort::Internet,
        },
        to: route.to,
        via: route.via.clone(),
    });
    LocalConfig {
        internet: interface(Role::Internet, macs.internet),
        base_station: interface(Role::BaseStation, macs.base_station),
        routes: routes.collect(),
        base_stations: configuration.stations(),
        gateway: file.gateway,
        gateway_v6: file.gateway_v6,
        limits: scalebricks_elements::gateway::local::LocalLimits::default(),
    }
}

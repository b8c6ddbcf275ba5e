//! Checks everything that a start of a node refuses, without starting it.
//!
//! | `scalebricks node run` | here |
//! |---|---|
//! | reads the configuration and the flows | done before, by [`Configuration`] |
//! | fills its tables | fills and drops the same tables |
//! | reads the cluster key, secrets, files for TLS | calls the same functions |
//! | gives addresses and routes to the slow path | checks the same configuration, with a placeholder for the MAC address of a device |
//! | listens for other nodes, and for the admin interface | binds and releases the addresses |
//! | opens devices, starts threads | not checked |

use super::config::Role;
use super::load::Configuration;
use crate::error::ProcessError;
use crate::node::control_plane::{self, DaemonError};
use scalebricks_apps::gateway::{FlowList, FlowSpec};
use scalebricks_elements::gateway::local::{Interface, LocalConfig, Route};
use scalebricks_elements::gateway::{OutputPort, OutsideMacs};
use scalebricks_wire::MacAddr;

/// Placeholder for a device's own address.
const PLACEHOLDER_MAC: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);

/// Checks everything that a start would refuse, except devices. Properties of this machine (its addresses, ports in
/// use, directories of sockets) are checked only if the node `is_here`. While the node runs, its own ports count as
/// free.
///
/// # Errors
/// All problems, as one [`ProcessError::Refused`].
pub(super) fn check(
    configuration: &Configuration,
    flows: &[FlowSpec],
    is_here: bool,
) -> Result<(), ProcessError> {
    let mut problems = Vec::new();
    let mut keep = |result: Result<(), ProcessError>| problems.extend(result.err());
    keep(check_slow_path(configuration));
    keep(configuration.appliance().map(drop));
    let listens = configuration.admin().check(is_here);
    let is_running = listens.as_ref().is_ok_and(|is_running| *is_running);
    keep(listens.map(drop).map_err(ProcessError::from));
    if configuration.file.control.is_some() {
        for error in check_control(configuration, is_here, is_running) {
            keep(Err(error.into()));
        }
    } else {
        keep(check_tables(configuration, flows));
    }
    if problems.is_empty() { Ok(()) } else { Err(ProcessError::Refused(problems)) }
}

fn check_tables(configuration: &Configuration, flows: &[FlowSpec]) -> Result<(), ProcessError> {
    let file = &configuration.file;
    let tables = FlowList::new(&file.layout(), file.id, file.workers.count(), flows.len());
    tables.map_err(ProcessError::Tables)?.change_to(flows, |_| {}).map_err(ProcessError::Load)?;
    Ok(())
}

fn check_slow_path(configuration: &Configuration) -> Result<(), ProcessError> {
    let mac = |wanted: Role| {
        let port = configuration.file.ports.iter().find(|port| port.role == wanted);
        port.and_then(|port| port.mac).unwrap_or(PLACEHOLDER_MAC)
    };
    let (internet, base_station) = (mac(Role::Internet), mac(Role::BaseStation));
    let macs = OutsideMacs { internet, base_station, router: MacAddr::default() };
    let local = local_config(configuration, macs);
    local.check().map_err(|error| ProcessError::Local(error.to_string()))
}

fn check_control(configuration: &Configuration, is_here: bool, is_running: bool) -> Vec<DaemonError> {
    let file = &configuration.file;
    let Some(control) = configuration.control() else { return Vec::new() };
    let mut problems = control_plane::check_files(&control);
    problems.extend(control_plane::params(&control, file.gpt, file.size).err().map(DaemonError::from));
    if is_here {
        problems.extend(control_plane::check_listen(control.listen, is_running).err());
    }
    problems
}

/// The addresses and routes of the outside links.
pub(super) fn local_config(configuration: &Configuration, macs: OutsideMacs) -> LocalConfig {
    let file = &configuration.file;
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
        base_stations: file.base_stations.clone(),
        gateway: file.gateway,
        gateway_v6: file.gateway_v6,
        limits: scalebricks_elements::gateway::local::LocalLimits::default(),
    }
}

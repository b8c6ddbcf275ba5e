//! The machines of a scenario: namespaces, cables, addresses, routes.

use crate::testbed::LabError;
use crate::testbed::exec::Cmd;
use crate::testbed::site::{Role, Site};
use crate::testbed::state::router_namespace;
use std::net::IpAddr;

/// Builds the machines of a scenario, by short names.
#[derive(Debug, Clone, Copy)]
pub struct Machines<'a>(pub Site<'a>);

impl Machines<'_> {
    /// A machine's namespace.
    pub fn namespace(&self, machine: &str) -> String {
        router_namespace(self.0.name, machine)
    }

    /// Adds a machine.
    ///
    /// # Errors
    /// As [`Site::namespace`].
    pub fn add(&self, machine: &str, role: Role) -> Result<(), LabError> {
        self.0.namespace(&self.namespace(machine), role)
    }

    /// Lays a cable between two interfaces, each with its machine.
    ///
    /// # Errors
    /// The error of a command.
    pub fn cable(&self, a: (&str, &str), b: (&str, &str), mtu: u16) -> Result<(), LabError> {
        let (at_a, at_b) = (self.namespace(a.0), self.namespace(b.0));
        self.0.cable((&at_a, a.1), (&at_b, b.1), mtu)
    }

    /// Adds addresses with their prefix lengths to an interface.
    ///
    /// # Errors
    /// The error of a command.
    pub fn addresses(&self, machine: &str, interface: &str, addresses: &[&str]) -> Result<(), LabError> {
        addresses.iter().try_for_each(|address| {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            self.ip(machine, &format!("addr add {address} dev {interface}{nodad}"))
        })
    }

    /// Sets routes: each a destination (`default`, or a prefix) and its next hop.
    ///
    /// # Errors
    /// The error of a command.
    pub fn routes(&self, machine: &str, routes: &[(&str, &str)]) -> Result<(), LabError> {
        routes.iter().try_for_each(|(to, via)| {
            let family = if via.contains(':') { "-6 " } else { "" };
            self.ip(machine, &format!("{family}route add {to} via {via}"))
        })
    }

    /// A machine that is a bridge with these ports, which other machines' cables lead to.
    ///
    /// # Errors
    /// The error of a command.
    pub fn bridge(&self, machine: &str, name: &str, ports: &[&str]) -> Result<(), LabError> {
        self.ip(machine, &format!("link add name {name} type bridge stp_state 0 mcast_snooping 0"))?;
        for port in ports {
            self.ip(machine, &format!("link set dev {port} master {name}"))?;
        }
        self.ip(machine, &format!("link set dev {name} up"))
    }

    /// Runs `ip` for a machine.
    ///
    /// # Errors
    /// As [`Cmd::run`].
    pub fn ip(&self, machine: &str, line: &str) -> Result<(), LabError> {
        self.0.ip(&self.namespace(machine), line)
    }

    /// Runs a command at a machine; its standard output, or what it wrote instead.
    ///
    /// # Errors
    /// [`LabError::Interrupted`], or a program that cannot be started.
    pub fn ask(&self, machine: &str, line: &str) -> Result<String, LabError> {
        let done = Cmd::new(line).inside(&self.namespace(machine)).finish(self.0.interrupt)?;
        Ok(format!("{}{}", done.text(), done.stderr))
    }

    /// Makes hosts forget the path MTUs that they learned. A host also tells its peer of them, in the size of its segments.
    ///
    /// # Errors
    /// The error of a command.
    pub fn forget_path_mtus(&self, hosts: &[&str]) -> Result<(), LabError> {
        hosts.iter().try_for_each(|host| {
            self.ip(host, "route flush cache")?;
            self.ip(host, "-6 route flush cache")
        })
    }

    /// The path MTU that a host has learned for an address, if it is below that of the interface.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn path_mtu(&self, machine: &str, to: IpAddr) -> Result<Option<u16>, LabError> {
        let shown = self.ask(machine, &format!("ip route get {to}"))?;
        let mut words = shown.split_ascii_whitespace().skip_while(|word| *word != "mtu");
        Ok(words.nth(1).and_then(|mtu| mtu.parse().ok()))
    }
}

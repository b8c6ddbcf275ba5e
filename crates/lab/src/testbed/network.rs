//! The lab's network: namespaces, cables, bridges. Built from a plan, then checked and routed.

mod cuts;
mod ingress;

pub use cuts::ControlEnd;
pub use ingress::Entry;

use super::LabError;
use super::context::LabContext;
use super::exec::Cmd;
use super::plan::{HOST_V4, HOST_V6, INTERNET_MTU, NodePort, Plan, STATION, TUN};
use super::site::Role;
use std::fmt::Write as _;
use std::net::IpAddr;

/// Offloads that must be disabled at every end of a cable, and similar ones, in the words of `ethtool -k`.
const MUST_BE_OFF: [&str; 11] = [
    "rx-checksumming",
    "tx-checksumming",
    "scatter-gather",
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
    "tx-udp-segmentation",
    "rx-gro-list",
    "rx-udp-gro-forwarding",
    "tx-vlan-offload",
    "rx-vlan-offload",
];

/// Packets that the TUN queues while the base station has no core.
const TUN_QUEUE: u32 = 10_000;

/// A cable from an interface in a namespace to a port of a bridge.
#[derive(Debug, Clone)]
struct Cable {
    namespace: String,
    interface: &'static str,
    port: String,
    bridge: NodePort,
}

impl LabContext<'_> {
    /// Builds the network. After an error, the caller removes what was already built.
    ///
    /// # Errors
    /// [`LabError::Rights`] if namespaces cannot be created; else the error of a command.
    pub fn build(&self) -> Result<(), LabError> {
        self.plan.namespaces().iter().try_for_each(|namespace| self.namespace(namespace))?;
        let switch = self.plan.switch();
        for link in NodePort::ALL {
            let (bridge, mtu) = (link.bridge(), link.mtu());
            self.ip(&switch, &format!("link add name {bridge} type bridge stp_state 0 mcast_snooping 0"))?;
            self.ip(&switch, &format!("link set {bridge} mtu {mtu} up"))?;
        }
        self.cables().iter().try_for_each(|cable| self.lay(cable))?;
        self.fabric()?;
        if self.plan.is_controlled {
            self.control()?;
        }
        let inet = self.plan.inet();
        self.ip(&inet, &format!("addr add {HOST_V4}/24 dev inet0"))?;
        self.ip(&inet, &format!("addr add {HOST_V6}/64 dev inet0 nodad"))?;
        self.ip(&self.plan.ran(), &format!("addr add {STATION}/24 dev ran0"))?;
        self.enter(Entry::All)
    }

    fn namespace(&self, namespace: &str) -> Result<(), LabError> {
        let has_hosts =
            [self.plan.inet(), self.plan.ran(), self.plan.ue()].iter().any(|host| host == namespace);
        self.site().namespace(namespace, if has_hosts { Role::Host } else { Role::Bare })
    }

    fn cables(&self) -> Vec<Cable> {
        let cable = |namespace, interface, port: &str, bridge| Cable {
            namespace,
            interface,
            port: port.to_owned(),
            bridge,
        };
        let mut cables = vec![
            cable(self.plan.inet(), "inet0", "i-host", NodePort::Internet),
            cable(self.plan.ran(), "ran0", "r-bs", NodePort::Ran),
        ];
        for node in self.plan.size.nodes() {
            for port in NodePort::ALL {
                cables.push(cable(self.plan.node(node), port.interface(), &port.bridge_port(node), port));
            }
        }
        cables
    }

    fn lay(&self, cable: &Cable) -> Result<(), LabError> {
        let Cable { namespace, interface, port, bridge } = cable;
        let switch = self.plan.switch();
        self.site().cable((namespace, interface), (&switch, port), bridge.mtu())?;
        self.ip(&switch, &format!("link set {port} addrgenmode none master {}", bridge.bridge()))
    }

    /// Sets the MAC addresses of the nodes' interfaces, and the forwarding entries of the fabric. The fabric does not learn and
    /// does not flood: it drops frames without an entry, which the checks notice. Entries are sticky, because even a static
    /// entry moves to a learning port that receives from its address.
    fn fabric(&self) -> Result<(), LabError> {
        let mut entries = String::new();
        for node in self.plan.size.nodes() {
            for port in NodePort::ALL {
                let (mac, interface) = (Plan::mac(node, port), port.interface());
                let line = format!("link set {interface} address {mac} addrgenmode none");
                self.ip(&self.plan.node(node), &line)?;
            }
            let port = NodePort::Fabric.bridge_port(node);
            let own = std::iter::once(Plan::mac(node, NodePort::Fabric));
            for mac in own.chain(self.plan.fabric_addresses(node)) {
                // Writing to a String cannot fail.
                let _ = writeln!(entries, "fdb add {mac} dev {port} master static sticky");
            }
            let off = "learning off flood off mcast_flood off bcast_flood off";
            let _ = writeln!(entries, "link set dev {port} {off}");
        }
        Cmd::new("bridge -batch -").inside(&self.plan.switch()).input(entries).run(self.interrupt).map(drop)
    }

    /// Moves the base station's TUN to the phones' namespace, and sets the phones' addresses and routes.
    ///
    /// # Errors
    /// The error of a command.
    pub fn phones(&self) -> Result<(), LabError> {
        let (ran, ue) = (self.plan.ran(), self.plan.ue());
        self.ip(&ran, &format!("link set {TUN} netns {ue}"))?;
        self.site().disable_offloads(&ue, TUN)?;
        let line = format!("link set {TUN} mtu {INTERNET_MTU} txqueuelen {TUN_QUEUE} addrgenmode none up");
        self.ip(&ue, &line)?;
        for phone in self.plan.ues() {
            self.ip(&ue, &format!("addr add {}/32 dev {TUN}", phone.v4()))?;
            self.ip(&ue, &format!("addr add {}/128 dev {TUN} nodad", phone.v6()))?;
        }
        self.ip(&ue, &format!("route add default dev {TUN}"))?;
        self.ip(&ue, &format!("-6 route add default dev {TUN}"))
    }

    /// The MAC address that the Internet host or the base station has for a neighbour; `None` if it has none.
    ///
    /// # Errors
    /// The error of a command.
    pub fn neighbour(&self, port: NodePort, address: IpAddr) -> Result<Option<String>, LabError> {
        let namespace = if port == NodePort::Internet { self.plan.inet() } else { self.plan.ran() };
        let shown = Cmd::new(&format!("ip -n {namespace} neigh show {address}")).run(self.interrupt)?;
        let mut words = shown.split_ascii_whitespace().skip_while(|word| *word != "lladdr");
        Ok(words.nth(1).map(str::to_owned))
    }

    /// Adds an interface to a bridge, which does not learn from it.
    ///
    /// # Errors
    /// The error of a command.
    pub fn join(&self, interface: &str, port: NodePort) -> Result<(), LabError> {
        let switch = self.plan.switch();
        self.ip(&switch, &format!("link set {interface} mtu {} master {}", port.mtu(), port.bridge()))?;
        self.bridge(&format!("link set dev {interface} learning off"))?;
        self.ip(&switch, &format!("link set {interface} up"))
    }

    /// Checks that all offloads are off, and that the kernel has no address on a node's port.
    ///
    /// # Errors
    /// [`LabError::Setup`] names the first that is wrong.
    pub fn check(&self) -> Result<(), LabError> {
        let mut ends = vec![(self.plan.ue(), TUN.to_owned())];
        for Cable { namespace, interface, port, .. } in self.cables() {
            ends.extend([(self.plan.switch(), port), (namespace, interface.to_owned())]);
        }
        for (namespace, interface) in ends {
            let shown =
                Cmd::new(&format!("ethtool -k {interface}")).inside(&namespace).run(self.interrupt)?;
            if let Some(feature) = offloaded(&shown) {
                return Err(LabError::Setup(format!("{interface} of {namespace}: {feature} is on")));
            }
        }
        for namespace in self.plan.size.nodes().map(|node| self.plan.node(node)) {
            let shown = Cmd::new(&format!("ip -n {namespace} -o addr show")).run(self.interrupt)?;
            let is_of_port =
                |line: &&str| ![" lo ", " ctl ", " log "].iter().any(|other| line.contains(other));
            if let Some(line) = shown.lines().find(is_of_port) {
                let line = line.trim();
                return Err(LabError::Setup(format!(
                    "{namespace}: the kernel has an address on a node's port: {line}"
                )));
            }
        }
        Ok(())
    }

    fn ip(&self, namespace: &str, line: &str) -> Result<(), LabError> {
        self.site().ip(namespace, line)
    }

    fn bridge(&self, line: &str) -> Result<(), LabError> {
        Cmd::new(&format!("bridge {line}")).inside(&self.plan.switch()).run(self.interrupt).map(drop)
    }
}

/// The first offload that is on in the output of `ethtool -k`.
fn offloaded(shown: &str) -> Option<&str> {
    let mut settings = shown.lines().filter_map(|line| line.trim().split_once(": "));
    let is_on = |(name, state): &(&str, &str)| MUST_BE_OFF.contains(name) && state.starts_with("on");
    settings.find(is_on).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = "Features for inet0:\nrx-checksumming: off\ntx-checksumming: off\n\ttx-checksum-ipv4: off [fixed]\n\
                        generic-receive-offload: off\nhighdma: on\n";

    #[test]
    fn an_offload_that_is_on_is_found() {
        assert_eq!(offloaded(SHOWN), None);
        let planted = SHOWN.replace("tx-checksumming: off", "tx-checksumming: on");
        assert_eq!(offloaded(&planted), Some("tx-checksumming"));
        assert_eq!(offloaded("rx-gro-list: on\n"), Some("rx-gro-list"));
    }
}

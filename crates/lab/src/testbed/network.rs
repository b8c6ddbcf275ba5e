//! The lab's network: namespaces, cables, bridges. Built from a plan, checked, routed, removed.

mod cuts;
mod entries;

pub use cuts::ControlEnd;
pub use entries::Entry;

use super::LabError;
use super::exec::Cmd;
use super::plan::{HOST_V4, HOST_V6, INTERNET_MTU, Link, Plan, STATION, TUN, TUNNEL_MTU};
use scalebricks_console::Interrupt;
use std::fmt::Write as _;
use std::net::IpAddr;

/// What must be off at every end of a cable, in the words of `ethtool -K`: the kernel leaves checksums to a device that
/// does not compute them, and hands over packets larger than any frame.
const OFFLOADS: [&str; 8] = ["rx", "tx", "sg", "tso", "gso", "gro", "rxvlan", "txvlan"];

/// The same in the words of `ethtool -k`, and what else would do the like.
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

/// Packets that wait in the TUN while the base station has no core.
const TUN_QUEUE: u32 = 10_000;

/// Builds and changes the network.
#[derive(Debug, Clone, Copy)]
pub struct Network<'a> {
    /// Of which lab.
    pub plan: &'a Plan,
    /// Whether to go on.
    pub interrupt: &'a Interrupt,
}

/// An end of a cable.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    namespace: String,
    interface: String,
}

/// A cable: an end outside, a port of a bridge.
#[derive(Debug, Clone)]
struct Cable {
    outside: End,
    port: String,
    bridge: &'static str,
    mtu: u16,
}

impl Network<'_> {
    /// Makes all of it. After a failure, the caller removes what was already made.
    ///
    /// # Errors
    /// [`LabError::Rights`] where namespaces cannot be made; else what a command said.
    pub fn build(&self) -> Result<(), LabError> {
        for namespace in self.plan.namespaces() {
            self.namespace(&namespace)?;
        }
        for link in Link::ALL {
            let bridge = link.bridge();
            self.ip(
                &self.plan.switch(),
                &format!("link add name {bridge} type bridge stp_state 0 mcast_snooping 0"),
            )?;
            self.ip(&self.plan.switch(), &format!("link set {bridge} mtu {} up", link.mtu()))?;
        }
        let cables = self.cables();
        cables.iter().try_for_each(|cable| self.lay(cable))?;
        self.fabric()?;
        if self.plan.is_controlled {
            self.control()?;
        }
        self.addresses()
    }

    fn namespace(&self, namespace: &str) -> Result<(), LabError> {
        Cmd::new("ip netns add").arg(namespace).run(self.interrupt).map_err(|error| match error {
            LabError::Failed { said, .. } if said.contains("File exists") => {
                LabError::Exists { name: self.plan.name.clone() }
            }
            LabError::Failed { said, .. } => LabError::Rights { said },
            other => other,
        })?;
        let has_hosts =
            [self.plan.inet(), self.plan.ran(), self.plan.ue()].iter().any(|host| host == namespace);
        let mut settings = vec!["net.ipv4.ip_forward=0".to_owned()];
        for scope in ["all", "default"] {
            settings.push(format!("net.ipv4.conf.{scope}.rp_filter=0"));
            if has_hosts {
                // No waiting for duplicate addresses, no asking for routers.
                settings.push(format!("net.ipv6.conf.{scope}.accept_dad=0"));
                settings.push(format!("net.ipv6.conf.{scope}.accept_ra=0"));
            } else {
                settings.push(format!("net.ipv6.conf.{scope}.disable_ipv6=1"));
            }
        }
        if has_hosts {
            settings.push("net.ipv4.fib_multipath_hash_policy=1".to_owned());
            settings.push("net.ipv6.fib_multipath_hash_policy=1".to_owned());
        }
        Cmd::new("sysctl -qw").words(&settings.join(" ")).inside(namespace).run(self.interrupt)?;
        self.ip(namespace, "link set lo up")
    }

    fn cables(&self) -> Vec<Cable> {
        let end = |namespace: String, interface: &str| End { namespace, interface: interface.to_owned() };
        let mut cables = vec![
            Cable {
                outside: end(self.plan.inet(), "inet0"),
                port: "i-host".to_owned(),
                bridge: Link::Internet.bridge(),
                mtu: INTERNET_MTU,
            },
            Cable {
                outside: end(self.plan.ran(), "ran0"),
                port: "r-bs".to_owned(),
                bridge: Link::Ran.bridge(),
                mtu: TUNNEL_MTU,
            },
        ];
        for node in self.plan.size.nodes() {
            for link in Link::ALL {
                let outside = end(self.plan.node(node), link.at_node());
                cables.push(Cable { outside, port: link.port(node), bridge: link.bridge(), mtu: link.mtu() });
            }
        }
        cables
    }

    fn lay(&self, cable: &Cable) -> Result<(), LabError> {
        let Cable { outside: End { namespace, interface }, port, bridge, mtu } = cable;
        let switch = self.plan.switch();
        Cmd::new(&format!(
            "ip link add name {interface} mtu {mtu} netns {namespace} type veth peer name {port} mtu {mtu} netns {switch}"
        ))
        .run(self.interrupt)?;
        self.ip(&switch, &format!("link set {port} addrgenmode none master {bridge}"))?;
        for end in [End { namespace: switch, interface: port.clone() }, cable.outside.clone()] {
            self.no_offloads(&end)?;
            self.ip(&end.namespace, &format!("link set {} up", end.interface))?;
        }
        Ok(())
    }

    fn no_offloads(&self, end: &End) -> Result<(), LabError> {
        let off = OFFLOADS.map(|name| format!("{name} off")).join(" ");
        let command = Cmd::new(&format!("ethtool -K {} {off}", end.interface)).inside(&end.namespace);
        // It complains of what is not there to be turned off; what counts is what is on afterwards.
        command.finish(self.interrupt).map(drop)
    }

    /// Own addresses of the nodes' interfaces, and what the fabric sends where. It learns nothing and floods nothing: a
    /// frame for an address without an entry goes nowhere, and is missed. Entries are sticky: even a static one moves to
    /// a port that learns and hears the address there.
    fn fabric(&self) -> Result<(), LabError> {
        let mut entries = String::new();
        for node in self.plan.size.nodes() {
            for link in Link::ALL {
                let mac = Plan::mac(node, link);
                let namespace = self.plan.node(node);
                self.ip(&namespace, &format!("link set {} address {mac} addrgenmode none", link.at_node()))?;
            }
            let port = Link::Fabric.port(node);
            let own = std::iter::once(Plan::mac(node, Link::Fabric));
            for mac in own.chain(self.plan.fabric_addresses(node)) {
                // Writing to a String cannot fail.
                let _ = writeln!(entries, "fdb add {mac} dev {port} master static sticky");
            }
            let _ = writeln!(
                entries,
                "link set dev {port} learning off flood off mcast_flood off bcast_flood off"
            );
        }
        Cmd::new("bridge -batch -").inside(&self.plan.switch()).input(entries).run(self.interrupt).map(drop)
    }

    fn addresses(&self) -> Result<(), LabError> {
        let inet = self.plan.inet();
        self.ip(&inet, &format!("addr add {HOST_V4}/24 dev inet0"))?;
        self.ip(&inet, &format!("addr add {HOST_V6}/64 dev inet0 nodad"))?;
        self.ip(&self.plan.ran(), &format!("addr add {STATION}/24 dev ran0"))?;
        self.enter(Entry::All)
    }

    /// Puts the base station's TUN where the phones are, and gives them their addresses.
    ///
    /// # Errors
    /// What a command said.
    pub fn phones(&self) -> Result<(), LabError> {
        let (ran, ue) = (self.plan.ran(), self.plan.ue());
        self.ip(&ran, &format!("link set {TUN} netns {ue}"))?;
        self.no_offloads(&End { namespace: ue.clone(), interface: TUN.to_owned() })?;
        self.ip(
            &ue,
            &format!("link set {TUN} mtu {INTERNET_MTU} txqueuelen {TUN_QUEUE} addrgenmode none up"),
        )?;
        for phone in self.plan.ues() {
            self.ip(&ue, &format!("addr add {}/32 dev {TUN}", phone.v4()))?;
            self.ip(&ue, &format!("addr add {}/128 dev {TUN} nodad", phone.v6()))?;
        }
        self.ip(&ue, &format!("route add default dev {TUN}"))?;
        self.ip(&ue, &format!("-6 route add default dev {TUN}"))
    }

    /// The MAC address that the host of an outside link has for a neighbour; `None` if it has none, or there is no such host.
    ///
    /// # Errors
    /// What a command said.
    pub fn neighbour(&self, link: Link, address: IpAddr) -> Result<Option<String>, LabError> {
        let namespace = match link {
            Link::Internet => self.plan.inet(),
            Link::Ran => self.plan.ran(),
            Link::Fabric => return Ok(None),
        };
        let told = Cmd::new(&format!("ip -n {namespace} neigh show {address}")).run(self.interrupt)?;
        let mut words = told.split_ascii_whitespace().skip_while(|word| *word != "lladdr");
        Ok(words.nth(1).map(str::to_owned))
    }

    /// Makes an interface a port of a bridge, which believes nothing of what it says of itself.
    ///
    /// # Errors
    /// What a command said.
    pub fn join(&self, interface: &str, link: Link) -> Result<(), LabError> {
        let switch = self.plan.switch();
        self.ip(&switch, &format!("link set {interface} mtu {} master {}", link.mtu(), link.bridge()))?;
        Cmd::new(&format!("bridge link set dev {interface} learning off"))
            .inside(&switch)
            .run(self.interrupt)?;
        self.ip(&switch, &format!("link set {interface} up"))
    }

    /// Asserts that no end of a cable offloads anything, and that no interface of a node has an address.
    ///
    /// # Errors
    /// [`LabError::Setup`] names the first that does.
    pub fn check(&self) -> Result<(), LabError> {
        let tun = End { namespace: self.plan.ue(), interface: TUN.to_owned() };
        let mut ends = vec![tun];
        for cable in self.cables() {
            ends.push(End { namespace: self.plan.switch(), interface: cable.port });
            ends.push(cable.outside);
        }
        for End { namespace, interface } in ends {
            let told = Cmd::new(&format!("ethtool -k {interface}")).inside(&namespace).run(self.interrupt)?;
            if let Some(feature) = offloaded(&told) {
                let what = format!("{interface} of {namespace}: {feature} is on");
                return Err(LabError::Setup { what });
            }
        }
        for node in self.plan.size.nodes() {
            let namespace = self.plan.node(node);
            let told = Cmd::new(&format!("ip -n {namespace} -o addr show")).run(self.interrupt)?;
            if let Some(line) =
                told.lines().find(|line| ![" lo ", " ctl ", " log "].iter().any(|own| line.contains(own)))
            {
                let what =
                    format!("{namespace}: the kernel has an address on a node's port: {}", line.trim());
                return Err(LabError::Setup { what });
            }
        }
        Ok(())
    }

    fn ip(&self, namespace: &str, line: &str) -> Result<(), LabError> {
        Cmd::new(&format!("ip -n {namespace} {line}")).run(self.interrupt).map(drop)
    }
}

/// The first offload that is on, in what `ethtool -k` says.
fn offloaded(told: &str) -> Option<&str> {
    let mut settings = told.lines().filter_map(|line| line.trim().split_once(": "));
    let is_on = |(name, state): &(&str, &str)| MUST_BE_OFF.contains(name) && state.starts_with("on");
    settings.find(is_on).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = "Features for inet0:\nrx-checksumming: off\ntx-checksumming: off\n\ttx-checksum-ipv4: off [fixed]\n\
                        generic-receive-offload: off\nhighdma: on\n";

    #[test]
    fn an_offload_that_is_on_is_found() {
        assert_eq!(offloaded(TOLD), None);
        let planted = TOLD.replace("tx-checksumming: off", "tx-checksumming: on");
        assert_eq!(offloaded(&planted), Some("tx-checksumming"));
        assert_eq!(offloaded("rx-gro-list: on\n"), Some("rx-gro-list"));
    }
}

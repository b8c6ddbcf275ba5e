//! One server as a router: configurations in the Click language, for any number of ports.
//!
//! A configuration comes in two forms. [`Form::Click`] is made of single elements; the graph builder adds a shortcut past
//! them for ordinary IPv4 packets, which changes nothing but the speed. [`Form::Fused`] is the
//! same graph with an [`IPRoute`](scalebricks_elements::IPRoute) behind each port: it forwards ordinary packets in one
//! loop, and leaves all others to the same elements. `examples/router` has the configurations of two ports.

use scalebricks_click::values::{Mac, Names, Prefix, Value};
use scalebricks_tables::lpm;
use scalebricks_wire::MacAddr;
use scalebricks_wire::nd::link_local;
use std::fmt::Write;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// Most ports of a server.
pub const PORTS: usize = 64;

/// How packets pass through the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// Single elements.
    Click,
    /// Ordinary packets in one loop, by value.
    #[default]
    Fused,
}

/// Why there is no such configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// The text is not an interface.
    #[error("expected NAME=IP/LENGTH,MAC[,IPV6/LENGTH], not {0:?}")]
    Interface(String),
    /// The name cannot be written in a configuration.
    #[error("the name of a device has letters, digits, `_`, `-`, `.` and `:`, unlike {0:?}")]
    Name(String),
    /// The file's name cannot be written in a configuration.
    #[error("the name of a file may not have quotes, backslashes or line breaks: {0:?}")]
    File(String),
    /// The name cannot be written in a configuration.
    #[error("the name of an association has letters, digits, `_`, `-`, `.` and `:`, unlike {0:?}")]
    Association(String),
    /// There is no association for one direction.
    #[error("a tunnel needs associations to send by and to receive by")]
    Associations,
    /// Packets between the ends of tunnels are IPv4.
    #[error("the outside of tunnels is IPv4: {0} may not have an IPv6 address")]
    OutsideIp6(String),
    /// There are IPv6 routes, but no IPv6 address.
    #[error("IPv6 routes need an IPv6 address of the interface inside")]
    Routes6,
    /// There are too few or too many ports.
    #[error("a router has 2 to {PORTS} ports, not {0}")]
    Ports(usize),
    /// Two ports have the same device.
    #[error("two ports are {0}")]
    Twice(String),
}

/// A port of an IP router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The device.
    pub device: String,
    /// The address in the network, and its length.
    pub ip: Prefix,
    /// The MAC address.
    pub mac: MacAddr,
    /// The IPv6 address, and the length of the network's prefix.
    pub ip6: Option<(Ipv6Addr, u8)>,
}

/// The device's name, if it can be written in a configuration.
fn device(name: &str) -> Result<&str, ServerError> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    let is_name = !name.is_empty() && name.chars().all(is_part);
    if is_name { Ok(name) } else { Err(ServerError::Name(name.to_owned())) }
}

impl FromStr for Interface {
    type Err = ServerError;

    /// `NAME=IP/LENGTH,MAC[,IPV6/LENGTH]`.
    fn from_str(text: &str) -> Result<Self, ServerError> {
        let wrong = || ServerError::Interface(text.to_owned());
        let (name, values) = text.split_once('=').ok_or_else(wrong)?;
        let mut values = values.split(',').map(str::trim);
        let ip = values.next().and_then(|ip| Prefix::read(ip, &Names::none())).ok_or_else(wrong)?;
        let mac = values.next().and_then(|mac| Mac::read(mac, &Names::none())).ok_or_else(wrong)?;
        let six = |text: &str| {
            let (address, length) = text.split_once('/')?;
            let (address, length) = (address.parse().ok()?, length.parse().ok()?);
            lpm::Prefix::<Ipv6Addr>::of(address, length).ok().map(|_| (address, length))
        };
        let ip6 = values.next().map(|text| six(text).ok_or_else(wrong)).transpose()?;
        if values.next().is_some() {
            return Err(wrong());
        }
        Ok(Self { device: device(name)?.to_owned(), ip, mac: MacAddr(mac.0), ip6 })
    }
}

/// Text that is written line by line; writing to a string cannot fail.
macro_rules! line {
    ($text:ident, $($format:tt)*) => {{ let _ = writeln!($text, $($format)*); }};
}
pub(super) use line;

/// A file's name, if it can be written between quotes.
pub(super) fn quoted(file: &str) -> Result<&str, ServerError> {
    if file.contains(['"', '\\', '\n', '\r']) { Err(ServerError::File(file.to_owned())) } else { Ok(file) }
}

pub(super) fn check<'a>(devices: impl Iterator<Item = &'a str>) -> Result<usize, ServerError> {
    let mut seen: Vec<&str> = Vec::new();
    for name in devices {
        if seen.contains(&device(name)?) {
            return Err(ServerError::Twice(name.to_owned()));
        }
        seen.push(name);
    }
    if (2..=PORTS).contains(&seen.len()) { Ok(seen.len()) } else { Err(ServerError::Ports(seen.len())) }
}

/// Minimal forwarding: what arrives at port i leaves by port j, untouched. Ports are pairs; of an odd number, the last
/// three form a ring.
///
/// # Errors
/// [`ServerError`].
pub fn forward(devices: &[String], form: Form) -> Result<String, ServerError> {
    let ports = check(devices.iter().map(String::as_str))?;
    let mut text = String::from("// Minimal forwarding: port i to a fixed port j.\n\n");
    let (burst, input) = match form {
        Form::Click => ("", ""),
        Form::Fused => (", BURST 128", "[1] "),
    };
    for (at, device) in devices.iter().enumerate() {
        line!(text, "to{} :: ToDevice({device});", at + 1);
    }
    for (at, device) in devices.iter().enumerate() {
        let is_ring = ports % 2 == 1 && at >= ports - 3;
        let to = if !is_ring {
            at ^ 1
        } else if at == ports - 1 {
            ports - 3
        } else {
            at + 1
        };
        line!(text, "from{} :: FromDevice({device}{burst}) -> {input}to{};", at + 1, to + 1);
    }
    Ok(text)
}

/// An IP router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpRouter {
    /// Its ports. Routes with output N leave by the Nth, counted from 1.
    pub ports: Vec<Interface>,
    /// A file with IPv4 routes, `PREFIX GATEWAY OUTPUT` per line.
    pub routes: Option<String>,
    /// A file with IPv6 routes.
    pub routes6: Option<String>,
    /// Longest packet.
    pub mtu: u16,
}

impl IpRouter {
    /// The configuration.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn configuration(&self, form: Form) -> Result<String, ServerError> {
        let ports = check(self.ports.iter().map(|port| port.device.as_str()))?;
        let mut text = String::new();
        line!(
            text,
            "// An IP router, IPv4 and IPv6. Routes have these outputs: 0 is the router itself, N is port N, {} answers that",
            ports + 1
        );
        line!(text, "// there is no route, {} drops what is never forwarded.\n", ports + 2);
        for (name, file) in [("ROUTES", &self.routes), ("ROUTES6", &self.routes6)] {
            let Some(file) = file else { continue };
            line!(text, "define(${name} \"{}\");", quoted(file)?);
        }
        line!(text, "// Sources of IPv6 errors, by the paint: the port where a packet arrived.");
        line!(text, "define($SOURCES6 port1 {});", self.all("port"));
        self.addresses(&mut text);
        self.queues(&mut text);
        self.routing4(&mut text);
        self.routing6(&mut text);
        for at in 0..ports {
            self.sending(at, &mut text);
        }
        for at in 0..ports {
            self.receiving(at, form, &mut text);
        }
        Ok(text)
    }

    fn addresses(&self, text: &mut String) {
        for (at, Interface { ip, mac, ip6, .. }) in self.ports.iter().enumerate() {
            let ip6 = ip6.map_or_else(|| link_local(*mac), |(address, _)| address);
            line!(text, "AddressInfo(port{} {}/{} {ip6} {mac});", at + 1, ip.address, ip.length);
        }
    }

    /// What frames leave by: a queue and next hops for each port.
    fn queues(&self, text: &mut String) {
        line!(text, "\nother :: Discard;\nnever :: Discard;\nhere :: Discard;\n");
        for (at, Interface { device, .. }) in self.ports.iter().enumerate() {
            let n = at + 1;
            line!(text, "out{n} :: Queue(1000) -> to{n} :: ToDevice({device}, BURST 128);");
            line!(text, "arp{n} :: ARPQuerier(port{n}) -> out{n};");
            line!(text, "nd{n} :: IP6NDSolicitor(port{n}, port{n}) -> out{n};");
        }
    }

    /// Names of all ports with this prefix.
    fn all(&self, prefix: &str) -> String {
        let names = (1..=self.ports.len()).map(|port| format!("{prefix}{port}"));
        names.collect::<Vec<_>>().join(" ")
    }

    /// What arrives at a port.
    fn receiving(&self, at: usize, form: Form, text: &mut String) {
        let (n, port) = (at + 1, &self.ports[at]);
        let device = &port.device;
        line!(
            text,
            "\n// Port {n} receives: ARP requests, ARP replies, neighbour solicitations and advertisements, IPv4, IPv6, others."
        );
        match form {
            Form::Click => {
                line!(text, "from{n} :: FromDevice({device}, BURST 128) -> class{n} :: Classifier(");
            }
            Form::Fused => {
                line!(text, "from{n} :: FromDevice({device}, BURST 128)");
                line!(
                    text,
                    "    -> fast{n} :: IPRoute({n}, port{n}, routes, {}, routes6, {},",
                    self.all("arp"),
                    self.all("nd")
                );
                line!(
                    text,
                    "                        INTERFACES {}, BADADDRS ::1, MTU {})",
                    self.all("port"),
                    self.mtu
                );
                line!(text, "    -> class{n} :: Classifier(");
            }
        }
        line!(
            text,
            "    12/0806 20/0001, 12/0806 20/0002, 12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/0800, 12/86dd, -);"
        );
        if form == Form::Fused {
            (1..=self.ports.len()).for_each(|to| line!(text, "fast{n}[{to}] -> [1] to{to};"));
        }
        line!(text, "class{n}[0] -> ARPResponder(port{n}) -> out{n};");
        line!(text, "class{n}[1] -> [1] arp{n};");
        line!(
            text,
            "class{n}[2] -> IP6NDAdvertiser(port{n}:ip6 {} port{n}:eth) -> out{n};",
            link_local(port.mac)
        );
        line!(text, "class{n}[3] -> [1] nd{n};");
        line!(text, "class{n}[4] -> HostEtherFilter(port{n}, DROP_OTHER true) -> Paint({n}) -> ip;");
        line!(text, "class{n}[5] -> HostEtherFilter(port{n}, DROP_OTHER true) -> Paint({n}) -> ip6;");
        line!(text, "class{n}[6] -> other;");
    }

    fn routing4(&self, text: &mut String) {
        let (none, never) = (self.ports.len() + 1, self.ports.len() + 2);
        line!(text, "\n// All IPv4 packets pass here. The paint is the port where a packet arrived.");
        line!(
            text,
            "ip :: Strip(14)\n    -> CheckIPHeader(INTERFACES {})\n    -> routes :: DirectIPLookup(",
            self.all("port")
        );
        for (at, Interface { ip, .. }) in self.ports.iter().enumerate() {
            let (network, n) = (ip.network(), at + 1);
            line!(text, "        {}/32 0,", ip.address);
            if ip.length < 31 {
                line!(text, "        {network}/32 {never}, {}/32 {never},", network | !ip.mask());
            }
            if ip.length < 32 {
                line!(text, "        {network}/{} {n},", ip.length);
            }
        }
        line!(
            text,
            "        0.0.0.0/8 {never}, 127.0.0.0/8 {never}, 169.254.0.0/16 {never}, 224.0.0.0/3 {never}, 0.0.0.0/0 {none}{});",
            if self.routes.is_some() { ", FILE $ROUTES" } else { "" }
        );
        line!(text, "routes[0] -> ping :: ICMPPingResponder -> routes;\nping[1] -> here;");
        line!(text, "routes[{none}] -> ICMPError(port1, unreachable, net) -> routes;");
        line!(text, "routes[{never}] -> never;");
    }

    fn routing6(&self, text: &mut String) {
        let (none, never) = (self.ports.len() + 1, self.ports.len() + 2);
        line!(text, "\n// All IPv6 packets pass here.");
        line!(
            text,
            "ip6 :: Strip(14)\n    -> CheckIP6Header(BADADDRS ::1)\n    -> routes6 :: LookupIP6Route("
        );
        for (at, Interface { ip6, mac, .. }) in self.ports.iter().enumerate() {
            line!(text, "        {}/128 0,", link_local(*mac));
            let Some((address, length)) = *ip6 else { continue };
            line!(text, "        {address}/128 0,");
            let network = lpm::Prefix::of(address, length);
            if let (Ok(network), true) = (network, length < 128) {
                line!(text, "        {network} {},", at + 1);
            }
        }
        line!(
            text,
            "        ::/127 {never}, fe80::/10 {never}, ff00::/8 {never}, ::/0 {none}{});",
            if self.routes6.is_some() { ", FILE $ROUTES6" } else { "" }
        );
        line!(text, "routes6[0] -> ping6 :: ICMP6PingResponder -> routes6;\nping6[1] -> here;");
        line!(text, "routes6[{none}] -> ICMP6Error(port1, unreachable, 0, PAINTED $SOURCES6) -> routes6;");
        line!(text, "routes6[{never}] -> never;");
    }

    /// What leaves by a port.
    fn sending(&self, at: usize, text: &mut String) {
        let (n, mtu) = (at + 1, self.mtu);
        line!(
            text,
            "\n// Towards port {n}: redirects, options, source address of errors, TTL, fragments; hop limit and size."
        );
        line!(
            text,
            "routes[{n}] -> DropBroadcasts -> same{n} :: PaintTee({n}) -> options{n} :: IPGWOptions(port{n})"
        );
        line!(
            text,
            "    -> FixIPSrc(port{n}) -> ttl{n} :: DecIPTTL -> fragments{n} :: IPFragmenter({mtu}) -> arp{n};"
        );
        line!(text, "same{n}[1] -> ICMPError(port{n}, redirect, host) -> routes;");
        line!(text, "options{n}[1] -> ICMPError(port{n}, parameterproblem) -> routes;");
        line!(text, "ttl{n}[1] -> ICMPError(port{n}, timeexceeded) -> routes;");
        line!(text, "fragments{n}[1] -> ICMPError(port{n}, unreachable, needfrag, PMTU {mtu}) -> routes;");
        line!(
            text,
            "routes6[{n}] -> DropBroadcasts -> limit{n} :: DecIP6HLIM -> size{n} :: CheckLength({mtu}) -> nd{n};"
        );
        line!(text, "limit{n}[1] -> ICMP6Error(port{n}, timeexceeded, PAINTED $SOURCES6) -> routes6;");
        line!(text, "size{n}[1] -> ICMP6Error(port{n}, toobig, PMTU {mtu}, PAINTED $SOURCES6) -> routes6;");
    }
}

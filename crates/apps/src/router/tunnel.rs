//! One server as the end of ESP tunnels: a router between a network inside and a network outside, where nothing
//! leaves in clear and nothing enters but through a tunnel. The outside is IPv4. The inside is IPv4, and IPv6 if port 1 has
//! an IPv6 address; IPv6 packets pass element by element in both forms.
//!
//! Packets from inside, and those that came through a tunnel, share one table of routes. Output 1 is inside. What leads to
//! output 2 is encrypted, or dropped if no association is for it; the encrypted packet then follows the same routes, and is
//! dropped if they lead inside. So a wrong route cannot bypass encryption.

use super::server::{Form, Interface, ServerError, check, line, quoted};
use scalebricks_tables::lpm;
use scalebricks_wire::nd::link_local;
use std::fmt::Write;
use std::net::Ipv6Addr;

/// The most that encryption adds to a packet, bytes: outer IPv6 and UDP headers, and ESP with AES-CBC.
const AROUND: u16 = 40 + 8 + 8 + 16 + 17 + 12;

/// The end of tunnels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelEnd {
    /// The port inside, port 1.
    pub inside: Interface,
    /// The port outside, port 2.
    pub outside: Interface,
    /// The file with the security associations.
    pub keys: String,
    /// The names of associations to send by, in order of preference.
    pub sends: Vec<String>,
    /// The names of associations to receive by.
    pub receives: Vec<String>,
    /// A file with routes, `PREFIX GATEWAY OUTPUT` per line. Without one, everything else leads outside, and the far ends
    /// must be neighbours.
    pub routes: Option<String>,
    /// A file with IPv6 routes; everything else leads outside without one. Port 1 must have an IPv6 address.
    pub routes6: Option<String>,
    /// Longest packet inside.
    pub mtu: u16,
}

impl TunnelEnd {
    /// The configuration.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn configuration(&self, form: Form) -> Result<String, ServerError> {
        let Self { inside, outside, mtu, .. } = self;
        check([inside, outside].into_iter().map(|port| port.device.as_str()))?;
        let [sends, receives] = [names(&self.sends)?, names(&self.receives)?];
        if outside.ip6.is_some() {
            return Err(ServerError::OutsideIp6(outside.device.clone()));
        }
        if self.routes6.is_some() && inside.ip6.is_none() {
            return Err(ServerError::Routes6);
        }
        let mut text = String::new();
        line!(
            text,
            "// An end of ESP tunnels. Port 1 is inside, port 2 outside. Routes have these outputs: 0 is the router"
        );
        line!(
            text,
            "// itself, 1 is inside, 2 is what has to be encrypted, 3 answers that there is no route, 4 drops what is never"
        );
        line!(text, "// forwarded.\n");
        line!(text, "define($KEYS \"{}\");", quoted(&self.keys)?);
        for (name, routes) in [("ROUTES", &self.routes), ("ROUTES6", &self.routes6)] {
            let Some(routes) = routes else { continue };
            line!(text, "define(${name} \"{}\");", quoted(routes)?);
        }
        let file = if self.routes.is_some() { ", FILE $ROUTES" } else { "" };
        for (n, Interface { ip, mac, ip6, .. }) in [(1, inside), (2, outside)] {
            let ip6 = ip6.map_or_else(String::new, |(address, _)| format!("{address} "));
            line!(text, "AddressInfo(port{n} {}/{} {ip6}{mac});", ip.address, ip.length);
        }
        line!(text, "\nother :: Discard;\nnever :: Discard;\nhere :: Discard;\n");
        for (n, port) in [(1, inside), (2, outside)] {
            line!(text, "out{n} :: Queue(1000) -> to{n} :: ToDevice({});", port.device);
            line!(text, "arp{n} :: ARPQuerier(port{n}) -> out{n};");
        }
        self.routing(file, &mut text);
        line!(
            text,
            "\n// What is routed outside is encrypted; the encrypted packets have routes of their own."
        );
        let fast = |eth: &str, port: u8, outer: &str| {
            format!(
                ",\n        ETH {eth}:eth, PORT {port}, ROUTES routes{outer}, ARP arp1 arp2, INTERFACES port1 port2"
            )
        };
        let (to, from) = match form {
            Form::Click => (String::new(), String::new()),
            Form::Fused => {
                (fast("port1", 2, ", OUTER outer"), format!("{}, MTU {mtu}", fast("port2", 1, "")))
            }
        };
        line!(
            text,
            "routes[2] -> DropBroadcasts -> ttl2 :: DecIPTTL -> encap :: IPsecEncap($KEYS, {sends}{to})"
        );
        line!(
            text,
            "    -> outer :: RadixIPLookup({}/{} 2, 0.0.0.0/0 0{file});",
            outside.ip.network(),
            outside.ip.length
        );
        line!(text, "outer[2] -> arp2;\nouter[0] -> lost :: Discard;\nouter[1] -> lost;");
        line!(text, "ttl2[1] -> ICMPError(port1, timeexceeded) -> routes;");
        let pmtu = mtu.saturating_sub(AROUND);
        let (big, opened) = if inside.ip6.is_some() {
            line!(text, "encap[1] -> big :: Classifier(0/4?, 0/6?);");
            ("big[0]", "opened :: Classifier(0/4?, 0/6?, -) -> ip;\nopened[1] -> ip6;\nopened[2] -> other")
        } else {
            ("encap[1]", "ip")
        };
        line!(text, "{big} -> ICMPError(port1, unreachable, needfrag, PMTU {pmtu}) -> routes;");
        if let Some(ip6) = inside.ip6 {
            self.routing6(ip6, pmtu, &mut text);
        }
        line!(text, "\n// What comes through a tunnel is routed as what comes from inside.");
        line!(
            text,
            "decap :: IPsecDecap($KEYS, {receives}{from})\n    -> {opened};\ndecap[1] -> clear :: Discard;"
        );
        for (n, port) in [(1, inside), (2, outside)] {
            receiving(n, port, form, &mut text);
        }
        Ok(text)
    }

    /// The routes of packets from inside and from tunnels.
    fn routing(&self, file: &str, text: &mut String) {
        let Self { inside, outside, mtu, .. } = self;
        let none = if self.routes.is_some() { 3 } else { 2 };
        line!(text, "\n// Packets from inside and from tunnels.");
        line!(text, "ip :: CheckIPHeader(INTERFACES port1 port2)\n    -> routes :: DirectIPLookup(");
        for (output, Interface { ip, .. }) in [(1, inside), (2, outside)] {
            let network = ip.network();
            line!(text, "        {}/32 0,", ip.address);
            if ip.length < 31 {
                line!(text, "        {network}/32 4, {}/32 4,", network | !ip.mask());
            }
            if ip.length < 32 {
                line!(text, "        {network}/{} {output},", ip.length);
            }
        }
        line!(
            text,
            "        0.0.0.0/8 4, 127.0.0.0/8 4, 169.254.0.0/16 4, 224.0.0.0/3 4, 0.0.0.0/0 {none}{file});"
        );
        line!(text, "routes[0] -> ping :: ICMPPingResponder -> routes;\nping[1] -> here;");
        line!(
            text,
            "routes[1] -> DropBroadcasts -> options1 :: IPGWOptions(port1) -> FixIPSrc(port1) -> ttl1 :: DecIPTTL"
        );
        line!(text, "    -> fragments1 :: IPFragmenter({mtu}) -> arp1;");
        line!(text, "options1[1] -> ICMPError(port1, parameterproblem) -> routes;");
        line!(text, "ttl1[1] -> ICMPError(port1, timeexceeded) -> routes;");
        line!(text, "fragments1[1] -> ICMPError(port1, unreachable, needfrag, PMTU {mtu}) -> routes;");
        line!(text, "routes[3] -> ICMPError(port1, unreachable, net) -> routes;\nroutes[4] -> never;");
    }

    /// The routes of IPv6 packets from inside and from tunnels.
    fn routing6(&self, (address, length): (Ipv6Addr, u8), pmtu: u16, text: &mut String) {
        let Self { inside, mtu, routes6, .. } = self;
        let (none, file) = if routes6.is_some() { (3, ", FILE $ROUTES6") } else { (2, "") };
        line!(text, "\n// IPv6 packets from inside and from tunnels.");
        line!(text, "nd1 :: IP6NDSolicitor(port1, port1) -> out1;");
        line!(text, "ip6 :: CheckIP6Header(BADADDRS ::1)\n    -> routes6 :: LookupIP6Route(");
        line!(text, "        {}/128 0, {address}/128 0,", link_local(inside.mac));
        if let (Ok(network), true) = (lpm::Prefix::of(address, length), length < 128) {
            line!(text, "        {network} 1,");
        }
        line!(text, "        ::/127 4, fe80::/10 4, ff00::/8 4, ::/0 {none}{file});");
        line!(text, "routes6[0] -> ping6 :: ICMP6PingResponder -> routes6;\nping6[1] -> here;");
        line!(
            text,
            "routes6[1] -> DropBroadcasts -> limit1 :: DecIP6HLIM -> size1 :: CheckLength({mtu}) -> nd1;"
        );
        line!(text, "routes6[2] -> DropBroadcasts -> limit2 :: DecIP6HLIM -> encap;");
        line!(
            text,
            "limit1[1] -> expired6 :: ICMP6Error(port1, timeexceeded) -> routes6;\nlimit2[1] -> expired6;"
        );
        line!(text, "size1[1] -> ICMP6Error(port1, toobig, PMTU {mtu}) -> routes6;");
        line!(
            text,
            "big[1] -> CheckIP6Header(BADADDRS ::1) -> ICMP6Error(port1, toobig, PMTU {pmtu}) -> routes6;"
        );
        line!(text, "routes6[3] -> ICMP6Error(port1, unreachable, 0) -> routes6;\nroutes6[4] -> never;");
    }
}

/// What arrives at a port.
fn receiving(n: u8, port: &Interface, form: Form, text: &mut String) {
    let device = &port.device;
    let six = if port.ip6.is_some() { "12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/86dd, " } else { "" };
    let kinds = if six.is_empty() { "" } else { "neighbour solicitations and advertisements, IPv6, " };
    line!(text, "\n// Port {n} receives: ARP requests, ARP replies, IPv4, {kinds}others.");
    match form {
        Form::Click => line!(text, "from{n} :: FromDevice({device})\n    -> class{n} :: Classifier("),
        Form::Fused => {
            let element = if n == 1 { "encap" } else { "decap" };
            line!(text, "from{n} :: FromDevice({device}, BURST 128) -> [1] {element};");
            line!(text, "{element}[3] -> [1] to{};", 3 - n);
            line!(text, "{element}[2]\n    -> class{n} :: Classifier(");
        }
    }
    line!(text, "    12/0806 20/0001, 12/0806 20/0002, 12/0800, {six}-);");
    line!(text, "class{n}[0] -> ARPResponder(port{n}) -> out{n};\nclass{n}[1] -> [1] arp{n};");
    let to = if n == 1 { "ip" } else { "CheckIPHeader(INTERFACES port1 port2) -> decap" };
    line!(text, "class{n}[2] -> HostEtherFilter(port{n}, DROP_OTHER true) -> Strip(14) -> {to};");
    if six.is_empty() {
        line!(text, "class{n}[3] -> other;");
    } else {
        let local = link_local(port.mac);
        line!(text, "class{n}[3] -> IP6NDAdvertiser(port{n}:ip6 {local} port{n}:eth) -> out{n};");
        line!(text, "class{n}[4] -> [1] nd{n};");
        line!(text, "class{n}[5] -> HostEtherFilter(port{n}, DROP_OTHER true) -> Strip(14) -> ip6;");
        line!(text, "class{n}[6] -> other;");
    }
}

/// Names of associations, as arguments.
fn names(names: &[String]) -> Result<String, ServerError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    match names.iter().find(|name| name.is_empty() || !name.chars().all(is_plain)) {
        Some(wrong) => Err(ServerError::Association(wrong.clone())),
        None if names.is_empty() => Err(ServerError::Associations),
        None => Ok(names.join(", ")),
    }
}

//! One server as the end of ESP tunnels: an IPv4 router between a network inside and a network outside, where nothing
//! leaves in clear and nothing enters but through a tunnel.
//!
//! Packets from inside, and those that came through a tunnel, share one table of routes. Output 1 is inside. What leads to
//! output 2 is encrypted, or dropped if no association is for it; the encrypted packet then follows the same routes, and is
//! dropped if they lead inside. So a wrong route cannot bypass encryption.

use super::server::{Form, Interface, ServerError, check, line, quoted};
use std::fmt::Write;

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
        let mut text = String::new();
        line!(
            text,
            "// An end of ESP tunnels, IPv4. Port 1 is inside, port 2 outside. Routes have these outputs: 0 is the router"
        );
        line!(
            text,
            "// itself, 1 is inside, 2 is what has to be encrypted, 3 answers that there is no route, 4 drops what is never"
        );
        line!(text, "// forwarded.\n");
        line!(text, "define($KEYS \"{}\");", quoted(&self.keys)?);
        if let Some(routes) = &self.routes {
            line!(text, "define($ROUTES \"{}\");", quoted(routes)?);
        }
        let file = if self.routes.is_some() { ", FILE $ROUTES" } else { "" };
        for (n, Interface { ip, mac, .. }) in [(1, inside), (2, outside)] {
            line!(text, "AddressInfo(port{n} {}/{} {mac});", ip.address, ip.length);
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
        line!(
            text,
            "encap[1] -> ICMPError(port1, unreachable, needfrag, PMTU {}) -> routes;",
            mtu.saturating_sub(AROUND)
        );
        line!(text, "\n// What comes through a tunnel is routed as what comes from inside.");
        line!(
            text,
            "decap :: IPsecDecap($KEYS, {receives}{from})\n    -> ip;\ndecap[1] -> clear :: Discard;"
        );
        for (n, port) in [(1, inside), (2, outside)] {
            receiving(n, &port.device, form, &mut text);
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
}

/// What arrives at a port.
fn receiving(n: u8, device: &str, form: Form, text: &mut String) {
    line!(text, "\n// Port {n} receives: ARP requests, ARP replies, IPv4, others.");
    match form {
        Form::Click => line!(text, "from{n} :: FromDevice({device})\n    -> class{n} :: Classifier("),
        Form::Fused => {
            let element = if n == 1 { "encap" } else { "decap" };
            line!(text, "from{n} :: FromDevice({device}, BURST 128) -> [1] {element};");
            line!(text, "{element}[3] -> [1] to{};", 3 - n);
            line!(text, "{element}[2]\n    -> class{n} :: Classifier(");
        }
    }
    line!(text, "    12/0806 20/0001, 12/0806 20/0002, 12/0800, -);");
    line!(text, "class{n}[0] -> ARPResponder(port{n}) -> out{n};\nclass{n}[1] -> [1] arp{n};");
    let to = if n == 1 { "ip" } else { "CheckIPHeader(INTERFACES port1 port2) -> decap" };
    line!(text, "class{n}[2] -> HostEtherFilter(port{n}, DROP_OTHER true) -> Strip(14) -> {to};");
    line!(text, "class{n}[3] -> other;");
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

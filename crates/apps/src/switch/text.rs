//! Names and actions as text: what operators write and read.
//!
//! | kind | a name |
//! |---|---|
//! | `mac` | `02:00:00:00:00:01` |
//! | `ipv4`, `ipv6` | `192.0.2.1`, `2001:db8::1` |
//! | `tuple` | `192.0.2.1:1234>198.51.100.7:80/tcp`, `[2001:db8::1]:5353>[2001:db8::2]:53/udp`, `192.0.2.1>192.0.2.9/icmp`; with the input port before it: `left@192.0.2.1…` |
//! | `bytes` | `0x` and hexadecimal digits, or the text itself |
//!
//! An action is `forward PORT`, `route PORT NEXT-HOP-MAC SOURCE-MAC`, `drop` or `flood`.

use scalebricks_elements::flat::name::MAX_NAME_BYTES;
use scalebricks_elements::flat::{Action, FlatName, FlatTuple, MAX_PORTS, NameBytes, NameKind, PortNo};
use scalebricks_types::FiveTuple;
use scalebricks_wire::{MacAddr, protocol};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

/// Why a text is not a valid name or action, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct TextError {
    /// Offset of the wrong part.
    pub at: usize,
    /// What is wrong and what is allowed.
    pub what: String,
}

fn wrong<T>(at: usize, what: impl Into<String>) -> Result<T, TextError> {
    Err(TextError { at, what: what.into() })
}

/// The names of a switch's ports, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortNames(Vec<String>);

/// Why port names are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortNamesError {
    /// Not a single word, or not usable as a file name.
    #[error("'{0}' is not a name of 1 to 32 letters, digits, '-' and '_'")]
    Word(String),
    /// Two ports with the same name.
    #[error("'{0}' occurs twice")]
    Twice(String),
    /// More ports than a switch may have.
    #[error("{0} ports exceed the maximum of {MAX_PORTS}")]
    Many(usize),
}

impl PortNames {
    /// Whether a port may have this name.
    pub fn is_name(text: &str) -> bool {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=32).contains(&text.len()) && text.bytes().all(is_letter)
    }

    /// Creates the names.
    ///
    /// # Errors
    /// [`PortNamesError`].
    pub fn new(names: Vec<String>) -> Result<Self, PortNamesError> {
        if names.len() > MAX_PORTS {
            return Err(PortNamesError::Many(names.len()));
        }
        for (at, name) in names.iter().enumerate() {
            if !Self::is_name(name) {
                return Err(PortNamesError::Word(name.clone()));
            }
            if names[..at].contains(name) {
                return Err(PortNamesError::Twice(name.clone()));
            }
        }
        Ok(Self(names))
    }

    /// All names.
    pub fn all(&self) -> &[String] {
        &self.0
    }

    /// A port's name.
    pub fn name(&self, port: PortNo) -> &str {
        self.0.get(port.index()).map_or("?", String::as_str)
    }

    /// The port with this name.
    pub fn port(&self, name: &str) -> Option<PortNo> {
        self.0.iter().position(|other| other == name).and_then(PortNo::new)
    }

    fn parse(&self, text: &str, at: usize) -> Result<PortNo, TextError> {
        match self.port(text) {
            Some(port) => Ok(port),
            None => wrong(at, format!("no port is named '{text}'; there are {}", self.0.join(", "))),
        }
    }
}

/// A MAC address: six pairs of hexadecimal digits, separated by colons.
pub fn parse_mac(text: &str) -> Option<MacAddr> {
    let mut octets = [0; 6];
    let mut parts = text.split(':');
    for octet in &mut octets {
        let part = parts.next()?;
        let is_pair = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        *octet = u8::from_str_radix(part, 16).ok().filter(|_| is_pair)?;
    }
    parts.next().is_none().then_some(MacAddr(octets))
}

/// Parses a name of this kind.
///
/// # Errors
/// [`TextError`].
pub fn parse_name(text: &str, kind: NameKind, ports: &PortNames) -> Result<FlatName, TextError> {
    let name = match kind {
        NameKind::Mac => match parse_mac(text) {
            Some(mac) if mac.is_multicast() => {
                return wrong(0, format!("{mac} is a group address; frames to groups are always flooded"));
            }
            Some(mac) => FlatName::Mac(mac),
            None => return wrong(0, format!("'{text}' is not a MAC address like 02:00:00:00:00:01")),
        },
        NameKind::Ipv4 => match text.parse() {
            Ok(address) => FlatName::Ipv4(address),
            Err(_) => return wrong(0, format!("'{text}' is not an IPv4 address")),
        },
        NameKind::Ipv6 => match text.parse() {
            Ok(address) => FlatName::Ipv6(address),
            Err(_) => return wrong(0, format!("'{text}' is not an IPv6 address")),
        },
        NameKind::Tuple { with_port } => FlatName::Tuple(parse_tuple(text, with_port, ports)?),
        NameKind::Bytes(_) => FlatName::Bytes(parse_bytes(text)?),
    };
    if !name.is_of(kind) {
        return wrong(0, "not as long as names are in frames of this switch");
    }
    Ok(name)
}

fn parse_bytes(text: &str) -> Result<NameBytes, TextError> {
    let bytes = match text.strip_prefix("0x") {
        None => NameBytes::new(text.as_bytes()),
        Some(digits) => {
            if let Some(at) = digits.bytes().position(|byte| !byte.is_ascii_hexdigit()) {
                return wrong(at + 2, "not a hexadecimal digit");
            }
            if digits.len() % 2 == 1 {
                return wrong(0, "an odd number of hexadecimal digits");
            }
            let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or_default() as u8; // below 16
            let pairs = digits.as_bytes().as_chunks::<2>().0;
            NameBytes::new(
                &pairs.iter().map(|&[high, low]| value(high) << 4 | value(low)).collect::<Vec<u8>>(),
            )
        }
    };
    bytes.or_else(|_| wrong(0, format!("a name has 1 to {MAX_NAME_BYTES} bytes")))
}

fn parse_tuple(text: &str, with_port: bool, ports: &PortNames) -> Result<FlatTuple, TextError> {
    let (in_port, start) = match (with_port, text.split_once('@')) {
        (true, Some((port, _))) => (Some(ports.parse(port, 0)?), port.len() + 1),
        (true, None) => {
            return wrong(0, "names of this switch begin with the input port and '@': left@192.0.2.1:1>…");
        }
        (false, Some(_)) => {
            return wrong(0, "names of this switch have no input port (names.with_port is not set)");
        }
        (false, None) => (None, 0),
    };
    let example = "not a tuple like 192.0.2.1:1234>198.51.100.7:80/tcp";
    let rest = &text[start..];
    let (Some((src, to)), Some((_, protocol))) = (rest.split_once('>'), rest.rsplit_once('/')) else {
        return wrong(start, example);
    };
    let Some(dst) = to.strip_suffix(protocol).and_then(|to| to.strip_suffix('/')) else {
        return wrong(start, example);
    };
    let dst_at = start + src.len() + 1;
    let protocol_at = dst_at + dst.len() + 1;
    let Some(number) = protocol_number(protocol) else {
        return wrong(
            protocol_at,
            format!("'{protocol}' is not tcp, udp, sctp, udplite, icmp, icmpv6 or a number below 256"),
        );
    };
    let end = |text: &str, at: usize| -> Result<(IpAddr, u16), TextError> {
        if !protocol::has_ports(number) {
            let address = text.parse().map(|address| (address, 0));
            return address
                .or_else(|_| wrong(at, format!("'{text}' is not an IP address; {protocol} has no ports")));
        }
        match text.parse::<SocketAddr>() {
            Ok(SocketAddr::V6(v6)) if v6.scope_id() != 0 => wrong(at, "an address with a zone"),
            Ok(socket) => Ok((socket.ip(), socket.port())),
            Err(_) => wrong(at, format!("'{text}' is not like 192.0.2.1:80 or [2001:db8::1]:80")),
        }
    };
    let ((src, src_port), (dst, dst_port)) = (end(src, start)?, end(dst, dst_at)?);
    let tuple = FiveTuple { src, dst, protocol: number, src_port, dst_port };
    match FlatTuple::new(in_port, tuple) {
        Some(tuple) => Ok(tuple),
        None => wrong(dst_at, "the two addresses are of different families"),
    }
}

const PROTOCOLS: [(&str, u8); 6] = [
    ("tcp", protocol::TCP),
    ("udp", protocol::UDP),
    ("sctp", protocol::SCTP),
    ("udplite", protocol::UDP_LITE),
    ("icmp", protocol::ICMPV4),
    ("icmpv6", protocol::ICMPV6),
];

fn protocol_number(text: &str) -> Option<u8> {
    let named = PROTOCOLS.iter().find(|(name, _)| *name == text);
    let number = || text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    named.map(|&(_, number)| number).or_else(number)
}

/// Parses an action.
///
/// # Errors
/// [`TextError`].
pub fn parse_action(text: &str, ports: &PortNames) -> Result<Action, TextError> {
    let place = |word: &str| word.as_ptr().addr() - text.as_ptr().addr(); // a part of the text
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let mac = |word: &str| match parse_mac(word) {
        Some(mac) if !mac.is_multicast() => Ok(mac),
        Some(mac) => wrong(place(word), format!("{mac} is a group address")),
        None => wrong(place(word), format!("'{word}' is not a MAC address like 02:00:00:00:00:01")),
    };
    match *words {
        ["drop"] => Ok(Action::Drop),
        ["flood"] => Ok(Action::Flood),
        ["forward", port] => Ok(Action::Forward(ports.parse(port, place(port))?)),
        ["route", port, next_hop, source] => Ok(Action::Route {
            port: ports.parse(port, place(port))?,
            next_hop: mac(next_hop)?,
            source: mac(source)?,
        }),
        _ => wrong(
            words.first().map_or(0, |word| place(word)),
            format!(
                "'{text}' is not 'forward PORT', 'route PORT NEXT-HOP-MAC SOURCE-MAC', 'drop' or 'flood'"
            ),
        ),
    }
}

/// A name in the format of [`parse_name`].
pub fn name_text(name: &FlatName, ports: &PortNames) -> String {
    match name {
        FlatName::Mac(mac) => mac.to_string(),
        FlatName::Ipv4(address) => address.to_string(),
        FlatName::Ipv6(address) => address.to_string(),
        FlatName::Tuple(tuple) => tuple_text(tuple, ports),
        FlatName::Bytes(bytes) => bytes_text(bytes.get()),
    }
}

fn bytes_text(bytes: &[u8]) -> String {
    // Characters that a file's line can hold literally.
    let is_plain = |&byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b',' | b'"');
    match str::from_utf8(bytes) {
        Ok(text) if bytes.iter().all(is_plain) && !text.starts_with("0x") && !text.starts_with('#') => {
            text.to_owned()
        }
        _ => bytes.iter().fold("0x".to_owned(), |mut text, byte| {
            let _memory_takes_it = write!(text, "{byte:02x}");
            text
        }),
    }
}

fn tuple_text(tuple: &FlatTuple, ports: &PortNames) -> String {
    let &FiveTuple { src, dst, protocol: number, src_port, dst_port } = tuple.tuple();
    let in_port = tuple.in_port().map_or_else(String::new, |port| format!("{}@", ports.name(port)));
    let named = PROTOCOLS.iter().find(|(_, other)| *other == number);
    let protocol = named.map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned());
    if protocol::has_ports(number) {
        let (src, dst) = (SocketAddr::new(src, src_port), SocketAddr::new(dst, dst_port));
        format!("{in_port}{src}>{dst}/{protocol}")
    } else {
        format!("{in_port}{src}>{dst}/{protocol}")
    }
}

/// An action in the format of [`parse_action`].
pub fn action_text(action: &Action, ports: &PortNames) -> String {
    match action {
        Action::Forward(port) => format!("forward {}", ports.name(*port)),
        Action::Route { port, next_hop, source } => {
            format!("route {} {next_hop} {source}", ports.name(*port))
        }
        Action::Drop => "drop".to_owned(),
        Action::Flood => "flood".to_owned(),
    }
}

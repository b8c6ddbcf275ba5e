//! Names of protocols, ports, TCP flags and ICMP types: those of Click's manual page of `IPClassifier`.

use super::ast::Transport;

const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmp6", 58),
    ("sctp", 132),
    ("udplite", 136),
];

/// Ports that have the same name in both protocols.
const PORTS: &[(&str, u16)] = &[
    ("echo", 7),
    ("discard", 9),
    ("daytime", 13),
    ("chargen", 19),
    ("ssh", 22),
    ("domain", 53),
    ("dns", 53),
    ("sunrpc", 111),
    ("ntp", 123),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("irc", 194),
    ("https", 443),
];
const TCP_PORTS: &[(&str, u16)] = &[
    ("ftp-data", 20),
    ("ftp", 21),
    ("telnet", 23),
    ("smtp", 25),
    ("finger", 79),
    ("www", 80),
    ("http", 80),
    ("pop3", 110),
    ("auth", 113),
    ("nntp", 119),
    ("bgp", 179),
    ("imap3", 220),
    ("imaps", 993),
    ("pop3s", 995),
];
const UDP_PORTS: &[(&str, u16)] =
    &[("bootps", 67), ("bootpc", 68), ("tftp", 69), ("rip", 520), ("route", 520), ("gtpu", 2152)];

const FLAGS: &[(&str, u8)] = &[("fin", 1), ("syn", 2), ("rst", 4), ("psh", 8), ("ack", 16), ("urg", 32)];

const ICMP_TYPES: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("unreachable", 3),
    ("sourcequench", 4),
    ("redirect", 5),
    ("echo", 8),
    ("routeradvert", 9),
    ("routersolicit", 10),
    ("timeexceeded", 11),
    ("parameterproblem", 12),
    ("timestamp", 13),
    ("timestamp-reply", 14),
    ("inforeq", 15),
    ("inforeq-reply", 16),
    ("maskreq", 17),
    ("maskreq-reply", 18),
];

fn find<T: Copy>(list: &[(&str, T)], name: &str) -> Option<T> {
    list.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// A protocol: a number, "TCP or UDP", or "any".
pub(super) fn transport(name: &str) -> Option<Transport> {
    match name {
        "tcpudp" => Some(Transport::TcpOrUdp),
        "transp" => Some(Transport::Any),
        _ => find(PROTOCOLS, name).map(Transport::Number),
    }
}

/// A port of one of the two protocols, or of either if they agree.
pub(super) fn port(name: &str, of: Option<Transport>) -> Option<u16> {
    let tcp = || find(PORTS, name).or_else(|| find(TCP_PORTS, name));
    let udp = || find(PORTS, name).or_else(|| find(UDP_PORTS, name));
    match of {
        Some(Transport::Number(6)) => tcp(),
        Some(Transport::Number(17)) => udp(),
        None | Some(Transport::TcpOrUdp) => tcp().or_else(udp),
        Some(_) => None,
    }
}

/// A TCP flag.
pub(super) fn flag(name: &str) -> Option<u8> {
    find(FLAGS, name)
}

/// An ICMP type.
pub(crate) fn icmp_type(name: &str) -> Option<u8> {
    find(ICMP_TYPES, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_another_one_with_the_other_protocol() {
        for (name, port) in TCP_PORTS {
            assert!(find(UDP_PORTS, name).or(find(PORTS, name)).is_none_or(|other| other == *port), "{name}");
        }
        assert!(UDP_PORTS.iter().all(|(name, _)| find(PORTS, name).is_none()));
    }

    #[test]
    fn names_are_those_of_their_protocol() {
        assert_eq!([port("www", None), port("www", Some(Transport::Number(17)))], [Some(80), None]);
        assert_eq!(
            [port("rip", Some(Transport::TcpOrUdp)), port("rip", Some(Transport::Number(6)))],
            [Some(520), None]
        );
        assert_eq!(port("ssh", Some(Transport::Number(1))), None);
        assert_eq!((transport("tcp"), transport("nothing")), (Some(Transport::Number(6)), None));
        assert_eq!((flag("syn"), icmp_type("echo"), icmp_type("syn")), (Some(2), Some(8), None));
    }
}

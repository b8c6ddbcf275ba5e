//! Frames on the bridges, captured by `dumpcap` and parsed by `tshark`, which shares no code with this project.

use super::LabError;
use super::context::LabContext;
use super::exec::Cmd;
use super::nodes::Process;
use super::plan::{HTTP_PORT, NodePort, Plan};
use super::site::Site;
use scalebricks_console::Interrupt;
use scalebricks_types::NodeId;
use scalebricks_wire::MacAddr;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time that tshark may take.
pub const READ: Duration = Duration::from_secs(180);

/// Preferences of tshark. A packet is captured at several places, which are not retransmissions.
const PREFERENCES: [&str; 5] = [
    "ip.check_checksum:TRUE",
    "udp.check_checksum:TRUE",
    "tcp.check_checksum:TRUE",
    "tcp.desegment_tcp_streams:FALSE",
    "tcp.analyze_sequence_numbers:FALSE",
];

/// The fields that tshark prints of each frame, in this order.
const FIELDS: [&str; 18] = [
    "frame.number",
    "frame.interface_name",
    "eth.src",
    "eth.dst",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "gtp.message",
    "gtp.teid",
    "gtp.ext_hdr.pdu_ses_con.qos_flow_id",
    "ip.checksum.status",
    "udp.checksum.status",
    "tcp.checksum.status",
    "icmp.checksum.status",
    "icmpv6.checksum.status",
    "_ws.malformed",
    "tcp.checksum",
];

/// The field for malformed frames, and those before it for checksums.
const MALFORMED: usize = 16;
const CHECKSUMS: std::ops::Range<usize> = 11..MALFORMED;
/// The status of the TCP checksum, and the checksum itself.
const TCP: (usize, usize) = (13, 17);
/// Zero in ones' complement, as Linux writes it for every protocol. It is correct by RFC 1071, but tshark accepts only 0x0000 for
/// TCP, and reports one packet in 65,536 as wrong.
const ZERO: &str = "0xffff";

/// A running capture at some interfaces of a namespace.
#[derive(Debug)]
pub struct Dump {
    process: Process,
    file: PathBuf,
}

impl Dump {
    /// Starts a capture.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn start(
        site: Site<'_>,
        name: &str,
        namespace: &str,
        interfaces: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, LabError> {
        let mut command = Cmd::new("dumpcap -q -B 16");
        for interface in interfaces {
            command = command.arg("-i").arg(interface);
        }
        let file = site.path(format!("{name}.pcapng"));
        let command = command.arg("-w").arg(file.to_string_lossy()).inside(namespace);
        let process = site.start(name, &command)?.await_word("File: ", site.interrupt)?;
        Ok(Self { process, file })
    }

    /// Ends the capture; its file.
    ///
    /// # Errors
    /// [`LabError::Setup`] if frames are missing.
    pub fn finish(self) -> Result<PathBuf, LabError> {
        // dumpcap still writes the last frames.
        std::thread::sleep(Duration::from_millis(500));
        let log = self.process.stop()?;
        match log.lines().find(|line| has_dropped(line)) {
            Some(line) => Err(LabError::Setup(format!("the capture is incomplete: {line}"))),
            None => Ok(self.file),
        }
    }
}

/// A running capture at all ports of the bridges that lead to nodes.
#[derive(Debug)]
pub struct Capture(Dump);

/// A frame, as printed by tshark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its number in the capture.
    pub number: u64,
    /// The node's port at the end of the cable.
    pub link: NodePort,
    /// The node.
    pub node: NodeId,
    /// The source address.
    pub src: MacAddr,
    /// The destination address.
    pub dst: MacAddr,
    /// Addresses of the outermost IP packet.
    pub outer: Option<(IpAddr, IpAddr)>,
    /// Addresses of the innermost IP packet: the tunnelled one, if it is a G-PDU.
    pub inner: Option<(IpAddr, IpAddr)>,
    /// Its GTP-U message.
    pub gtpu: Option<Gtpu>,
    /// What is wrong with it, if anything.
    pub problem: Option<String>,
    /// Checksums that tshark verified as correct.
    pub right: usize,
}

/// A GTP-U message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gtpu {
    /// Its type.
    pub message: u8,
    /// Its TEID.
    pub teid: u32,
    /// The QoS flow of its container.
    pub qfi: Option<u8>,
}

impl Capture {
    /// Starts a capture.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn start(context: LabContext<'_>, name: &str) -> Result<Self, LabError> {
        let nodes = context.plan.size.nodes();
        let ports = nodes.flat_map(|node| NodePort::ALL.map(|port| port.bridge_port(node)));
        Dump::start(context.site(), name, &context.plan.switch(), ports).map(Self)
    }

    /// Ends the capture and parses it.
    ///
    /// # Errors
    /// [`LabError::Setup`] if frames are missing, or the output of tshark cannot be parsed.
    pub fn finish(self, plan: &Plan, interrupt: &Interrupt) -> Result<Vec<Seen>, LabError> {
        read(&self.0.finish()?, plan, interrupt)
    }
}

/// `Packets received/dropped on interface 'f-n0': 12/3 (pcap:3/dumpcap:0/…)`.
fn has_dropped(line: &str) -> bool {
    let counts =
        line.strip_prefix("Packets received/dropped on interface ").and_then(|rest| rest.rsplit_once(": "));
    let dropped = counts.and_then(|(_, counts)| counts.split_ascii_whitespace().next()?.split_once('/'));
    dropped.is_some_and(|(_, dropped)| dropped != "0")
}

fn read(file: &Path, plan: &Plan, interrupt: &Interrupt) -> Result<Vec<Seen>, LabError> {
    // The content of files is random, so tshark must not dissect it.
    let mut tshark = Cmd::new("tshark -n -T fields -E separator=; -E occurrence=a -E aggregator=,")
        .arg("-d")
        .arg(format!("tcp.port=={HTTP_PORT},data"));
    for preference in PREFERENCES {
        tshark = tshark.arg("-o").arg(preference);
    }
    for field in FIELDS {
        tshark = tshark.arg("-e").arg(field);
    }
    let output = tshark.arg("-r").arg(file.to_string_lossy()).limit(READ).run(interrupt)?;
    let failed = |line: &str| LabError::Setup(format!("cannot parse the output of tshark: {line}"));
    output.lines().map(|line| seen(line, plan).ok_or_else(|| failed(line))).collect()
}

/// Parses a line of tshark.
fn seen(line: &str, plan: &Plan) -> Option<Seen> {
    let fields: [&str; FIELDS.len()] = line.split(';').collect::<Vec<_>>().try_into().ok()?;
    let mut ports = plan.size.nodes().flat_map(|node| NodePort::ALL.map(|port| (port, node)));
    let (link, node) = ports.find(|(port, node)| port.bridge_port(*node) == fields[1])?;
    let values = |field: usize| fields[field].split(',').filter(|value| !value.is_empty());
    let addresses = |field: usize| values(field).map(str::parse).collect::<Result<Vec<IpAddr>, _>>().ok();
    let pairs = |src, dst| Some(addresses(src)?.into_iter().zip(addresses(dst)?).collect::<Vec<_>>());
    let (v4, v6) = (pairs(4, 5)?, pairs(6, 7)?);
    let first = |field| values(field).next().map(number);
    // Each of these fields has a number, or is empty.
    let (message, teid, qfi) = (first(8), first(9), first(10));
    let gtpu = match message {
        None => None,
        // A message type is an octet, and a QFI has six bits.
        Some(message) => Some(Gtpu {
            message: message? as u8,
            teid: teid??,
            qfi: qfi.map_or(Some(None), |qfi| Some(Some(qfi? as u8)))?,
        }),
    };
    // The outer packet is IPv4 in this lab; a second packet is the tunnelled one.
    let outer = v4.first().or(v6.first()).copied();
    let inner = match gtpu {
        Some(_) => v6.first().or(v4.get(1)).copied(),
        None => outer,
    };
    let is_zero = |place: usize| fields[TCP.1].split(',').nth(place) == Some(ZERO);
    let is_bad = |field: usize| {
        let mut all = fields[field].split(',').enumerate();
        all.any(|(place, status)| matches!(status, "0" | "Bad") && !(field == TCP.0 && is_zero(place)))
    };
    let bad = CHECKSUMS.clone().find(|&field| is_bad(field));
    let problem = match bad {
        _ if !fields[MALFORMED].is_empty() => Some("malformed".to_owned()),
        Some(field) => Some(format!("{} is bad", FIELDS[field])),
        None => None,
    };
    let is_right = |status: &&str| matches!(*status, "1" | "Good");
    let right = fields[CHECKSUMS].iter().flat_map(|field| field.split(',')).filter(is_right).count();
    let (src, dst) = (mac(fields[2])?, mac(fields[3])?);
    Some(Seen { number: fields[0].parse().ok()?, link, node, src, dst, outer, inner, gtpu, problem, right })
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn mac(text: &str) -> Option<MacAddr> {
    let octets = text.split(':').map(|octet| u8::from_str_radix(octet, 16).ok());
    octets.collect::<Option<Vec<u8>>>()?.try_into().ok().map(MacAddr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnelled_packet_is_parsed_with_its_content() {
        let line = "7;r-n2;02:5a:00:00:00:01;02:5a:00:00:01:02;10.9.0.1;10.255.0.1;2001:db8:45:1::1;2001:db8::1;0xff;\
                    0x00010001;9;1;3;1;;;;0x1234";
        let seen = seen(line, &Plan::sample()).unwrap();
        assert_eq!((seen.number, seen.link, seen.node), (7, NodePort::Ran, NodeId::new(2)));
        assert_eq!(seen.gtpu, Some(Gtpu { message: 255, teid: 0x10001, qfi: Some(9) }));
        assert_eq!(seen.inner.unwrap().0, "2001:db8:45:1::1".parse::<IpAddr>().unwrap());
        assert_eq!(seen.outer.unwrap().1, "10.255.0.1".parse::<IpAddr>().unwrap());
        assert_eq!((seen.problem, seen.right), (None, 2));
    }

    #[test]
    fn wrong_checksums_and_malformed_packets_are_problems() {
        let line = |status: &str, malformed: &str| {
            format!(
                "7;i-n0;02:5a:00:00:00:01;02:5a:00:00:01:02;192.0.2.1;10.45.0.1;;;;;;1;;{status};;;{malformed};0x1234,0xffff"
            )
        };
        let problem = |status, malformed| seen(&line(status, malformed), &Plan::sample()).unwrap().problem;
        assert_eq!(problem("1", ""), None);
        assert_eq!(problem("Bad", "").as_deref(), Some("tcp.checksum.status is bad"));
        assert_eq!(problem("0,1", "").as_deref(), Some("tcp.checksum.status is bad"));
        assert_eq!(problem("1,0", ""), None, "zero may be 0xffff");
        assert_eq!(problem("1", "Malformed").as_deref(), Some("malformed"));
        let right = |status| seen(&line(status, ""), &Plan::sample()).unwrap().right;
        assert_eq!((right("1"), right("2"), right("Good,0")), (2, 1, 2), "with that of the IPv4 header");
        assert_eq!(seen("1;2", &Plan::sample()), None);
    }

    #[test]
    fn frames_that_dumpcap_missed_are_noticed() {
        let line = |counts| {
            format!("Packets received/dropped on interface 'f-n0': {counts} (pcap:3/dumpcap:0) (9%)")
        };
        assert!(has_dropped(&line("12/3")) && !has_dropped(&line("12/0")) && !has_dropped("File: x"));
    }
}

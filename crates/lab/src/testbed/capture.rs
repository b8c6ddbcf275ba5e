//! What passes the bridges, captured by `dumpcap` and read by `tshark`: a parser that is not ours.

use super::LabError;
use super::exec::Cmd;
use super::nodes::{Process, Processes};
use super::plan::{HTTP_PORT, Link, Plan};
use scalebricks_console::Interrupt;
use scalebricks_types::NodeId;
use scalebricks_wire::MacAddr;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long tshark may read.
const READ: Duration = Duration::from_secs(180);

/// How tshark reads. A packet is seen at several places, which is no retransmission.
const PREFERENCES: [&str; 5] = [
    "ip.check_checksum:TRUE",
    "udp.check_checksum:TRUE",
    "tcp.check_checksum:TRUE",
    "tcp.desegment_tcp_streams:FALSE",
    "tcp.analyze_sequence_numbers:FALSE",
];

/// What tshark tells of each frame, in this order.
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

/// The field that says that tshark is at its wit's end; those before it are checksums.
const MALFORMED: usize = 16;
const CHECKSUMS: std::ops::Range<usize> = 11..MALFORMED;
/// Among them that of TCP, and the field with the checksum itself.
const TCP: (usize, usize) = (13, 17);
/// Zero in ones' complement, as Linux writes it for every protocol: a receiver finds it right, as RFC 1071 has it. tshark wants
/// 0x0000 of TCP, and calls one packet in 65,536 wrong.
const ZERO: &str = "0xffff";

/// A capture under way at all ports of the bridges that lead to nodes.
#[derive(Debug)]
pub struct Capture {
    process: Process,
    file: PathBuf,
    log: PathBuf,
}

/// A frame, as tshark tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its number in the capture.
    pub number: u64,
    /// The link.
    pub link: Link,
    /// The node at the end of the cable.
    pub node: NodeId,
    /// From.
    pub src: MacAddr,
    /// To.
    pub dst: MacAddr,
    /// Addresses of the outermost IP packet.
    pub outer: Option<(IpAddr, IpAddr)>,
    /// Addresses of the innermost IP packet: that in the tunnel, if it is a G-PDU.
    pub inner: Option<(IpAddr, IpAddr)>,
    /// The GTP-U message, if it is one.
    pub gtpu: Option<Gtpu>,
    /// What is wrong with it.
    pub problem: Option<String>,
    /// Checksums in it that were computed anew and found right.
    pub right: usize,
}

/// A GTP-U message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gtpu {
    /// Its type.
    pub message: u8,
    /// The tunnel.
    pub teid: u32,
    /// The QoS flow of its container.
    pub qfi: Option<u8>,
}

impl Capture {
    /// Starts to capture.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn start(processes: Processes<'_>, name: &str) -> Result<Self, LabError> {
        let mut command = Cmd::new("dumpcap -q -B 16");
        for node in processes.plan.size.nodes() {
            for link in Link::ALL {
                command = command.arg("-i").arg(link.port(node));
            }
        }
        let file = processes.directory.join(format!("{name}.pcapng"));
        let command = command.arg("-w").arg(file.to_string_lossy()).inside(&processes.plan.switch());
        let process = processes.start(name, &command)?.await_word("File: ", processes.interrupt)?;
        Ok(Self { process, file, log: processes.directory.join(format!("{name}.log")) })
    }

    /// Ends the capture and reads it.
    ///
    /// # Errors
    /// [`LabError::Setup`] if frames are missing in it, or tshark says what is not understood.
    pub fn finish(self, plan: &Plan, interrupt: &Interrupt) -> Result<Vec<Seen>, LabError> {
        // What was sent last is on its way through dumpcap still.
        std::thread::sleep(Duration::from_millis(500));
        self.process.stop()?;
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        if let Some(line) = log.lines().find(|line| has_dropped(line)) {
            return Err(LabError::Setup { what: format!("the capture is not whole: {line}") });
        }
        read(&self.file, plan, interrupt)
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
    // Files are random: whatever tshark finds in them is not there.
    let mut tshark = Cmd::new("tshark -n -T fields -E separator=; -E occurrence=a -E aggregator=,")
        .arg("-d")
        .arg(format!("tcp.port=={HTTP_PORT},data"));
    for preference in PREFERENCES {
        tshark = tshark.arg("-o").arg(preference);
    }
    for field in FIELDS {
        tshark = tshark.arg("-e").arg(field);
    }
    let told = tshark.arg("-r").arg(file.to_string_lossy()).limit(READ).run(interrupt)?;
    let not_understood =
        |line: &str| LabError::Setup { what: format!("tshark says what is not understood: {line}") };
    told.lines().map(|line| seen(line, plan).ok_or_else(|| not_understood(line))).collect()
}

/// A line of tshark.
fn seen(line: &str, plan: &Plan) -> Option<Seen> {
    let fields: [&str; FIELDS.len()] = line.split(';').collect::<Vec<_>>().try_into().ok()?;
    let ports = plan.size.nodes().flat_map(|node| Link::ALL.map(|link| (link, node)));
    let (link, node) = ports.into_iter().find(|(link, node)| link.port(*node) == fields[1])?;
    let all = |src: &str, dst: &str| -> Option<Vec<(IpAddr, IpAddr)>> {
        let parse = |text: &str| {
            text.split(',')
                .filter(|address| !address.is_empty())
                .map(str::parse)
                .collect::<Result<Vec<IpAddr>, _>>()
        };
        Some(parse(src).ok()?.into_iter().zip(parse(dst).ok()?).collect())
    };
    let (v4, v6) = (all(fields[4], fields[5])?, all(fields[6], fields[7])?);
    let first = |text: &str| text.split(',').next().filter(|text| !text.is_empty()).map(str::to_owned);
    let gtpu = match first(fields[8]) {
        None => None,
        Some(message) => {
            let qfi = match first(fields[10]) {
                None => None,
                Some(qfi) => Some(number(&qfi)? as u8), // six bits
            };
            let teid = number(&first(fields[9])?)?;
            Some(Gtpu { message: number(&message)? as u8, teid, qfi }) // an octet
        }
    };
    // The outer packet is IPv4 in this lab: what is behind it is inside.
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
    let octets: Vec<u8> =
        text.split(':').map(|octet| u8::from_str_radix(octet, 16)).collect::<Result<_, _>>().ok()?;
    octets.try_into().ok().map(MacAddr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnelled_packet_is_told_with_its_inside() {
        let line = "7;r-n2;02:5a:00:00:00:01;02:5a:00:00:01:02;10.9.0.1;10.255.0.1;2001:db8:45:1::1;2001:db8::1;0xff;\
                    0x00010001;9;1;3;1;;;;0x1234";
        let seen = seen(line, &Plan::sample()).unwrap();
        assert_eq!((seen.number, seen.link, seen.node), (7, Link::Ran, NodeId::new(2)));
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

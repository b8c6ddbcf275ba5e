//! Paced UDP in both directions between each phone and the Internet host, over both families. Each datagram carries its flow,
//! its number and its time of sending, so every datagram that is lost, late, duplicated or at the wrong phone is known.
//!
//! Each end is a process that sends and receives until it is interrupted, and then prints its [`StreamReport`].

mod datagram;
pub mod mesh;

use super::LabError;
use super::args::StreamsArgs;
use super::plan::{Family, Plan, Ue};
use datagram::{Datagram, LEN, Way};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_types::{ClusterSize, NodeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Time between two datagrams of a flow and direction.
pub const EVERY: Duration = Duration::from_millis(50);

/// How long the ends receive after they have stopped sending. Later datagrams are late anyway.
const AFTER: Duration = Duration::from_secs(1);

/// The port at both ends.
const PORT: u16 = 5_000;

/// Octets that the system queues for a thread that has no core.
const SOCKET_BUFFER: usize = 4 << 20;

/// The last line that an end prints.
pub const END: &str = "reported";

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum StreamEnd {
    /// The phones.
    Phones,
    /// The Internet host.
    Host,
}

impl StreamEnd {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Phones => "phones",
            Self::Host => "host",
        }
    }

    /// The directions that it sends and receives.
    const fn ways(self) -> (Way, Way) {
        match self {
            Self::Phones => (Way::Up, Way::Down),
            Self::Host => (Way::Down, Way::Up),
        }
    }

    /// The address at this end of a phone's flow.
    const fn address(self, phone: Ue, family: Family) -> IpAddr {
        match self {
            Self::Phones => phone.address(family),
            Self::Host => family.host(),
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Phones => Self::Host,
            Self::Host => Self::Phones,
        }
    }
}

/// A datagram that arrived at its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Its number within its flow, from 0.
    pub sequence: u64,
    /// Time from sending to arrival, microseconds.
    pub took_us: u64,
}

/// What one end sent and received, by [flow](flow_number).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamReport {
    /// When each datagram was sent, as Unix time in microseconds.
    pub sent: BTreeMap<u16, Vec<u64>>,
    /// What arrived, in the order of arrival.
    pub arrived: BTreeMap<u16, Vec<Arrival>>,
    /// Datagrams at the wrong phone, or from the wrong sender.
    pub misdelivered: u64,
    /// Datagrams that are not part of a stream.
    pub strange: u64,
}

/// The number of a phone's flow of a family.
pub const fn flow_number(ue: Ue, family: Family) -> u16 {
    ue.number * 2 + family as u16
}

/// The phone and family of a flow.
pub fn flow_of(number: u16, size: ClusterSize) -> (Ue, Family) {
    let phone = number / 2;
    let node = NodeId::new((phone % size.get() as u16) as u8); // at most 16
    (Ue { number: phone, node }, if number.is_multiple_of(2) { Family::V4 } else { Family::V6 })
}

/// The Unix time in microseconds.
fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64) // 64 bits last for half a million years
}

/// A socket for one phone and family; at the Internet host, for all phones of a family.
struct StreamSocket {
    socket: UdpSocket,
    phone: Option<Ue>,
    family: Family,
}

impl StreamSocket {
    fn bind(address: IpAddr, phone: Option<Ue>, family: Family) -> io::Result<Self> {
        let socket = UdpSocket::bind(SocketAddr::new(address, PORT))?;
        // The forced size needs a right that a container may lack.
        set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER)
            .or_else(|_| set_socket_recv_buffer_size(&socket, SOCKET_BUFFER))?;
        Ok(Self { socket, phone, family })
    }

    /// Whether a flow uses this socket.
    fn is_for(&self, phone: Ue, family: Family) -> bool {
        self.family == family && self.phone.is_none_or(|here| here == phone)
    }
}

/// Sends and receives until it is interrupted, and prints its report. Prints `ready` before it sends.
///
/// # Errors
/// [`LabError`] if its sockets cannot be opened.
pub fn run(args: &StreamsArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    let size = ClusterSize::new(args.nodes).map_err(|error| LabError::Setup(error.to_string()))?;
    let phones: Vec<Ue> = (0..args.phones).map(|number| flow_of(2 * number, size).0).collect();
    let failed = |error: io::Error| LabError::Setup(format!("cannot open the streams' sockets: {error}"));
    let sockets = Arc::new(sockets(args.end, &phones).map_err(failed)?);
    let shared = Arc::new(Mutex::new(Some(StreamReport::default())));
    for place in 0..sockets.len() {
        let (sockets, shared, end) = (Arc::clone(&sockets), Arc::clone(&shared), args.end);
        // The thread ends with the process, because it waits in a system call.
        thread::spawn(move || {
            let at = &sockets[place];
            receive(&at.socket, &shared, |datagram, from| {
                belongs(datagram, at.phone, at.family, from, end, size)
            });
        });
    }
    console.result("ready")?;
    let flows: Vec<(Ue, Family)> =
        phones.iter().flat_map(|phone| Family::ALL.map(|family| (*phone, family))).collect();
    let outgoing = flows.iter().filter_map(|(phone, family)| {
        let from = sockets.iter().find(|from| from.is_for(*phone, *family))?;
        let to = SocketAddr::new(args.end.other().address(*phone, *family), PORT);
        Some(Outgoing { flow: flow_number(*phone, *family), way: args.end.ways().0, from: &from.socket, to })
    });
    let sent = send(&outgoing.collect::<Vec<_>>(), interrupt);
    thread::sleep(AFTER);
    report(sent, &shared, console)?;
    console.result(END)?;
    Ok(status::SUCCESS)
}

/// Prints what was sent and received. What arrives from then on does not count.
fn report(
    sent: BTreeMap<u16, Vec<u64>>,
    shared: &Mutex<Option<StreamReport>>,
    console: &Console,
) -> Result<(), LabError> {
    let received = shared.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
    // Numbers and their names always serialise.
    Ok(console.result(&serde_json::to_string(&StreamReport { sent, ..received }).unwrap_or_default())?)
}

/// A flow that this end sends.
struct Outgoing<'a> {
    flow: u16,
    way: Way,
    from: &'a UdpSocket,
    to: SocketAddr,
}

fn sockets(end: StreamEnd, phones: &[Ue]) -> io::Result<Vec<StreamSocket>> {
    let of_family = |family: Family| match end {
        StreamEnd::Host => vec![StreamSocket::bind(family.host(), None, family)],
        StreamEnd::Phones => {
            let bind = |phone: &Ue| StreamSocket::bind(phone.address(family), Some(*phone), family);
            phones.iter().map(bind).collect()
        }
    };
    Family::ALL.into_iter().flat_map(of_family).collect()
}

/// Sends until it is interrupted, with the flows evenly spread over the interval; when each datagram was sent.
fn send(flows: &[Outgoing<'_>], interrupt: &Interrupt) -> BTreeMap<u16, Vec<u64>> {
    let mut sent: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
    let (began, count) = (Instant::now(), flows.len().max(1) as u32); // at most 500
    for round in 0_u32.. {
        for (place, Outgoing { flow, way, from, to }) in (0_u32..).zip(flows) {
            let due = EVERY * round + EVERY * place / count;
            thread::sleep(due.saturating_sub(began.elapsed()));
            if interrupt.check().is_err() {
                return sent;
            }
            let (sequence, sent_us) = (u64::from(round), now_us());
            let datagram = Datagram { flow: *flow, way: *way, sequence, sent_us };
            // A datagram that the system does not send counts as lost.
            drop(from.send_to(&datagram.to_bytes(), to));
            sent.entry(*flow).or_default().push(sent_us);
        }
    }
    sent
}

/// Receives until the report has been taken. `belongs` returns whether a datagram from an address is at its destination.
fn receive(
    socket: &UdpSocket,
    report: &Mutex<Option<StreamReport>>,
    belongs: impl Fn(&Datagram, IpAddr) -> bool,
) {
    let mut bytes = [0; 2 * LEN];
    loop {
        let Ok((len, from)) = socket.recv_from(&mut bytes) else {
            // An ICMP error: the other end has not started yet.
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        let now = now_us();
        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(report) = report.as_mut() else { return };
        match Datagram::parse(&bytes[..len]) {
            Some(datagram) if belongs(&datagram, from.ip()) => {
                let took_us = now.saturating_sub(datagram.sent_us);
                let arrival = Arrival { sequence: datagram.sequence, took_us };
                report.arrived.entry(datagram.flow).or_default().push(arrival);
            }
            Some(_) => report.misdelivered += 1,
            None => report.strange += 1,
        }
    }
}

/// Whether a datagram arrived at its destination from its sender.
fn belongs(
    datagram: &Datagram,
    phone: Option<Ue>,
    family: Family,
    from: IpAddr,
    end: StreamEnd,
    size: ClusterSize,
) -> bool {
    let (ue, of) = flow_of(datagram.flow, size);
    let is_here = of == family && phone.is_none_or(|here| here == ue);
    datagram.way == end.ways().1 && is_here && from == end.other().address(ue, family)
}

/// The reports in the output of both ends; `None` if one is incomplete.
pub fn read(phones: &str, host: &str) -> Option<[StreamReport; 2]> {
    Some([read_one(phones)?, read_one(host)?])
}

/// The report in the output of an end; `None` if it is incomplete.
pub fn read_one(output: &str) -> Option<StreamReport> {
    let mut lines = output.lines().rev();
    lines.next().filter(|line| *line == END)?;
    serde_json::from_str(lines.next()?).ok()
}

impl Plan {
    /// The flows of the paced streams, each with its phone and family.
    pub fn streams(&self) -> impl Iterator<Item = (u16, Ue, Family)> {
        self.ues().flat_map(|ue| Family::ALL.map(|family| (flow_number(ue, family), ue, family)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_phone_accepts_a_datagram_and_only_from_the_right_sender() {
        let size = ClusterSize::new(4).unwrap();
        let (ue, other) = (flow_of(10, size).0, flow_of(12, size).0);
        assert_eq!((ue.number, ue.node.get(), other.node.get()), (5, 1, 2));
        let down = Datagram { flow: flow_number(ue, Family::V6), way: Way::Down, sequence: 1, sent_us: 2 };
        let host = Family::V6.host();
        let at = |phone, family, from| belongs(&down, Some(phone), family, from, StreamEnd::Phones, size);
        assert!(at(ue, Family::V6, host));
        assert!(!at(other, Family::V6, host), "another phone's");
        assert!(!at(ue, Family::V4, host), "another family's");
        assert!(!at(ue, Family::V6, other.address(Family::V6)), "another sender");
        let up = Datagram { way: Way::Up, ..down };
        let from =
            |phone: Ue| belongs(&up, None, Family::V6, phone.address(Family::V6), StreamEnd::Host, size);
        assert!(from(ue) && !from(other));
        assert!(!belongs(&up, Some(ue), Family::V6, host, StreamEnd::Phones, size), "another direction");
    }

    #[test]
    fn reports_of_both_ends_are_read_and_incomplete_ones_are_refused() {
        let mut report = StreamReport { misdelivered: 3, ..StreamReport::default() };
        report.sent.insert(7, vec![1, 2]);
        report.arrived.insert(7, vec![Arrival { sequence: 1, took_us: 9 }]);
        let text = format!("ready\n{}\n{END}\n", serde_json::to_string(&report).unwrap());
        assert_eq!(read(&text, &text), Some([report.clone(), report]));
        assert_eq!(read(&text, "ready\n"), None);
        assert_eq!(read("", &text), None);
    }
}

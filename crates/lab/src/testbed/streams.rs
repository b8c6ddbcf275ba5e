//! Paced UDP in both directions between each phone and the Internet host, over both families. Each datagram says of which flow it is,
//! which of the flow's it is, and when it was sent: so what is lost, late, doubled or at the wrong phone is known one by one.
//!
//! Each end is a process that sends and receives until it is interrupted, and then tells what it saw ([`StreamReport`]).

mod datagram;

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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Time between two datagrams of a flow and direction.
pub const EVERY: Duration = Duration::from_millis(50);

/// How long the ends still receive when they do not send any more: what comes later is too late.
const AFTER: Duration = Duration::from_secs(1);

/// The port at both ends.
const PORT: u16 = 5_000;

/// What waits for a thread that has no core, octets.
const SOCKET_BUFFER: usize = 4 << 20;

/// The last line of what an end tells.
pub const END: &str = "told all";

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum StreamEnd {
    /// The phones.
    Phones,
    /// The Internet host.
    Host,
}

impl StreamEnd {
    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Phones => "phones",
            Self::Host => "host",
        }
    }

    const fn sends(self) -> Way {
        match self {
            Self::Phones => Way::Up,
            Self::Host => Way::Down,
        }
    }

    const fn receives(self) -> Way {
        match self {
            Self::Phones => Way::Down,
            Self::Host => Way::Up,
        }
    }
}

/// A datagram that arrived where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Which of its flow's it was, from 0.
    pub sequence: u64,
    /// How long it was under way, microseconds.
    pub took_us: u64,
}

/// What one end saw, by [flow](flow_number).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamReport {
    /// When each datagram was sent, as Unix time in microseconds.
    pub sent: BTreeMap<u16, Vec<u64>>,
    /// What arrived, in the order of arrival.
    pub arrived: BTreeMap<u16, Vec<Arrival>>,
    /// Datagrams that arrived at another phone than theirs, or from another.
    pub misdelivered: u64,
    /// Datagrams of nobody here.
    pub strange: u64,
}

/// The number of a phone's flow of a family.
pub const fn flow_number(ue: Ue, family: Family) -> u16 {
    ue.number * 2 + family as u16
}

/// Whose flow has a number.
pub fn flow_of(number: u16, size: ClusterSize) -> (Ue, Family) {
    let phone = number / 2;
    let node = NodeId::new((phone % size.get() as u16) as u8); // 16 at most
    (Ue { number: phone, node }, if number.is_multiple_of(2) { Family::V4 } else { Family::V6 })
}

/// Now, as Unix time in microseconds.
fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64) // 64 bits last for half a million years
}

/// Where an end's datagrams come and go.
struct Seat {
    socket: UdpSocket,
    /// The phone and family that belong here; all of a family at the Internet host.
    phone: Option<Ue>,
    family: Family,
}

/// Sends and receives until it is interrupted, and tells what it saw. Prints `ready` once it sends.
///
/// # Errors
/// [`LabError`] if its sockets cannot be had.
pub fn run(args: &StreamsArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    let size = ClusterSize::new(args.nodes).map_err(|error| LabError::Setup { what: error.to_string() })?;
    let phones: Vec<Ue> = (0..args.phones).map(|number| flow_of(2 * number, size).0).collect();
    let failed =
        |error: io::Error| LabError::Setup { what: format!("cannot open the streams' sockets: {error}") };
    let seats = seats(args.end, &phones).map_err(failed)?;
    let (told, ended) = (Arc::new(Mutex::new(StreamReport::default())), Arc::new(AtomicBool::new(false)));
    for seat in &seats {
        let seat = Seat { socket: seat.socket.try_clone().map_err(failed)?, ..*seat };
        let (told, ended, end) = (Arc::clone(&told), Arc::clone(&ended), args.end);
        // It ends with the process: it waits in a system call.
        thread::spawn(move || receive(&seat, end, size, &told, &ended));
    }
    console.result("ready")?;
    let sent = send(args.end, &phones, &seats, interrupt);
    thread::sleep(AFTER);
    ended.store(true, Ordering::Relaxed);
    let mut told = std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner));
    told.sent = sent;
    // Numbers and their names always serialise.
    console.result(&serde_json::to_string(&told).unwrap_or_default())?;
    console.result(END)?;
    Ok(status::SUCCESS)
}

fn seats(end: StreamEnd, phones: &[Ue]) -> io::Result<Vec<Seat>> {
    let bind = |address: IpAddr| -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind(SocketAddr::new(address, PORT))?;
        // The forced one needs a right that a container may lack.
        set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER)
            .or_else(|_| set_socket_recv_buffer_size(&socket, SOCKET_BUFFER))?;
        Ok(socket)
    };
    let both = Family::ALL.into_iter();
    match end {
        StreamEnd::Host => {
            both.map(|family| Ok(Seat { socket: bind(family.host())?, phone: None, family })).collect()
        }
        StreamEnd::Phones => both
            .flat_map(|family| phones.iter().map(move |phone| (*phone, family)))
            .map(|(phone, family)| {
                Ok(Seat { socket: bind(phone.address(family))?, phone: Some(phone), family })
            })
            .collect(),
    }
}

/// Sends at its pace, flows evenly spread over the time between two datagrams of one; what was sent when.
fn send(end: StreamEnd, phones: &[Ue], seats: &[Seat], interrupt: &Interrupt) -> BTreeMap<u16, Vec<u64>> {
    let mut sent: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
    let flows: Vec<(Ue, Family)> =
        phones.iter().flat_map(|phone| Family::ALL.map(|family| (*phone, family))).collect();
    let (began, count) = (Instant::now(), flows.len().max(1) as u32); // 500 at most
    for round in 0_u32.. {
        for (place, (phone, family)) in (0_u32..).zip(&flows) {
            let due = EVERY * round + EVERY * place / count;
            thread::sleep(due.saturating_sub(began.elapsed()));
            if interrupt.check().is_err() {
                return sent;
            }
            let belongs =
                |seat: &&Seat| seat.family == *family && seat.phone.is_none_or(|there| there == *phone);
            let Some(seat) = seats.iter().find(belongs) else { continue };
            let to = match end {
                StreamEnd::Phones => family.host(),
                StreamEnd::Host => phone.address(*family),
            };
            let (flow, sequence, sent_us) = (flow_number(*phone, *family), u64::from(round), now_us());
            let datagram = Datagram { flow, way: end.sends(), sequence, sent_us };
            // What the system does not send is lost, and missed by the other end.
            drop(seat.socket.send_to(&datagram.to_bytes(), SocketAddr::new(to, PORT)));
            sent.entry(flow).or_default().push(sent_us);
        }
    }
    sent
}

fn receive(seat: &Seat, end: StreamEnd, size: ClusterSize, told: &Mutex<StreamReport>, ended: &AtomicBool) {
    let mut bytes = [0; 2 * LEN];
    loop {
        let Ok((len, from)) = seat.socket.recv_from(&mut bytes) else {
            // An answer that the other end is not there yet.
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        let now = now_us();
        if ended.load(Ordering::Relaxed) {
            return;
        }
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        match Datagram::parse(bytes.get(..len).unwrap_or_default()) {
            Some(datagram) if belongs(&datagram, seat.phone, seat.family, from.ip(), end, size) => {
                let took_us = now.saturating_sub(datagram.sent_us);
                let arrival = Arrival { sequence: datagram.sequence, took_us };
                told.arrived.entry(datagram.flow).or_default().push(arrival);
            }
            Some(_) => told.misdelivered += 1,
            None => told.strange += 1,
        }
    }
}

/// Whether a datagram is where it belongs, and comes from where it should.
fn belongs(
    datagram: &Datagram,
    phone: Option<Ue>,
    family: Family,
    from: IpAddr,
    end: StreamEnd,
    size: ClusterSize,
) -> bool {
    let (ue, of) = flow_of(datagram.flow, size);
    let sender = match end {
        StreamEnd::Phones => family.host(),
        StreamEnd::Host => ue.address(family),
    };
    datagram.way == end.receives() && of == family && phone.is_none_or(|there| there == ue) && from == sender
}

/// What both ends told, from what each printed; `None` if one did not come to its end.
pub fn read(phones: &str, host: &str) -> Option<[StreamReport; 2]> {
    let told = |text: &str| {
        let lines: Vec<&str> = text.lines().collect();
        let (end, rest) = lines.split_last()?;
        if *end == END { serde_json::from_str(rest.last()?).ok() } else { None }
    };
    Some([told(phones)?, told(host)?])
}

impl Plan {
    /// Flows of the paced streams, each with its phone.
    pub fn streams(&self) -> impl Iterator<Item = (u16, Ue, Family)> {
        self.ues().flat_map(|ue| Family::ALL.map(|family| (flow_number(ue, family), ue, family)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_phone_takes_a_datagram_and_only_from_the_right_sender() {
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
    fn what_both_ends_told_is_read_and_an_end_without_its_last_line_is_not() {
        let mut told = StreamReport { misdelivered: 3, ..StreamReport::default() };
        told.sent.insert(7, vec![1, 2]);
        told.arrived.insert(7, vec![Arrival { sequence: 1, took_us: 9 }]);
        let text = format!("ready\n{}\n{END}\n", serde_json::to_string(&told).unwrap());
        assert_eq!(read(&text, &text), Some([told.clone(), told]));
        assert_eq!(read(&text, "ready\n"), None);
        assert_eq!(read("", &text), None);
    }
}

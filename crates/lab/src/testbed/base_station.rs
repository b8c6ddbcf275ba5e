//! A base station with its phones, as far as a gateway can tell: what programs send into a TUN goes through GTP-U
//! tunnels to the gateway, and what comes out of them goes into the TUN if it belongs there.
//!
//! One thread a direction, one packet a system call: it is here to be right, not fast. Outer packets are fragmented and
//! put together by the kernel.

pub mod counters;
pub mod tunnels;

use super::LabError;
use super::args::BaseStationArgs;
use super::plan::{GATEWAY, Plan, SOURCE_PORTS_PER_NODE, STATION, TUN, Ue};
use counters::{Counters, Counts};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use scalebricks_admin::flow_list::Reading;
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_types::{ClusterSize, KeyProfile};
use scalebricks_wire::gtpu::{self, message};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddrV4, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tun_rs::{DeviceBuilder, SyncDevice};
use tunnels::{Arrived, Sent, Tunnels};

/// Octets of the longest message.
const LONGEST: usize = 65_535;

/// What waits for a thread that has no core, octets.
const SOCKET_BUFFER: usize = 8 << 20;

/// What the base station's threads share.
struct Station {
    size: ClusterSize,
    tunnels: Tunnels,
    counters: Counters,
    tun: SyncDevice,
    /// Where the gateway's messages arrive.
    socket: UdpSocket,
}

/// Runs a base station until it is told to stop. Prints `ready` once it is.
///
/// # Errors
/// [`LabError`] if its files or devices cannot be had.
pub fn run(args: &BaseStationArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| LabError::File { path, error }
    };
    let file = File::open(&args.flows).map_err(at(&args.flows))?;
    let size = ClusterSize::new(args.nodes).map_err(|error| LabError::Setup { what: error.to_string() })?;
    let reading = Reading { profile: KeyProfile::Ue, size, base_stations: &[STATION] };
    let flows = reading
        .read(file, &console.progress("flows", 0))
        .map_err(|error| LabError::Setup { what: format!("{}: {error}", args.flows.display()) })?;
    let started =
        |error: io::Error| LabError::Setup { what: format!("cannot open the base station: {error}") };
    let socket = bind(gtpu::PORT).map_err(started)?;
    let ports = size.nodes().flat_map(Plan::source_ports);
    let senders = ports.map(bind).collect::<io::Result<Vec<_>>>().map_err(started)?;
    let tun = DeviceBuilder::new().name(TUN).build_sync().map_err(started)?;
    // An older process may have left the name behind.
    drop(fs::remove_file(&args.control));
    let control = UnixListener::bind(&args.control).map_err(at(&args.control))?;
    let (tunnels, counters) = (Tunnels::new(&flows), Counters::default());
    let station = Arc::new(Station { size, tunnels, counters, tun, socket });
    // The threads end with the process: each waits in a system call.
    for work in [Work::Up(senders), Work::Down, Work::Control(control)] {
        let station = Arc::clone(&station);
        thread::spawn(move || station.work(work));
    }
    console.result("ready")?;
    while interrupt.check().is_ok() {
        thread::sleep(Duration::from_millis(50));
    }
    console.result(&station.counts())?;
    Ok(status::SUCCESS)
}

fn bind(port: u16) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddrV4::new(STATION, port))?;
    // The forced one needs a right that a container may lack.
    set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER)
        .or_else(|_| set_socket_recv_buffer_size(&socket, SOCKET_BUFFER))?;
    Ok(socket)
}

enum Work {
    Up(Vec<UdpSocket>),
    Down,
    Control(UnixListener),
}

impl Station {
    fn work(&self, work: Work) {
        match work {
            Work::Up(senders) => self.up(&senders),
            Work::Down => self.down(),
            Work::Control(listener) => listener.incoming().flatten().for_each(|stream| {
                // Whoever asked and went away needs no answer.
                drop(self.answer(&stream));
            }),
        }
    }

    fn up(&self, senders: &[UdpSocket]) {
        let (mut packet, mut out) = (vec![0; LONGEST], vec![0; LONGEST]);
        loop {
            let Ok(len) = self.tun.recv(&mut packet) else {
                self.pause();
                continue;
            };
            let sent = match self.tunnels.up(&packet[..len], &mut out) {
                Ok(sent) => sent,
                Err(why) => {
                    self.counters.refuse(why);
                    continue;
                }
            };
            let Some(sender) = senders.get(self.sender(sent)) else {
                self.counters.system_errors.add(1);
                continue;
            };
            match sender.send_to(&out[..sent.len], (GATEWAY, gtpu::PORT)) {
                Ok(_) => {
                    self.counters.upstream.add(1);
                    self.counters.upstream_bytes.add(len as u64);
                }
                Err(_) => self.counters.system_errors.add(1),
            }
        }
    }

    /// The socket for a packet: one of those of its phone's entry, so that a rule about source ports says where it enters.
    fn sender(&self, sent: Sent) -> usize {
        let entry = Ue::of_uplink(sent.teid.get(), self.size).map_or(0, |ue| ue.entry(self.size).get());
        let path = (sent.path % u64::from(SOURCE_PORTS_PER_NODE)) as u16;
        usize::from(u16::from(entry) * SOURCE_PORTS_PER_NODE + path)
    }

    fn down(&self) {
        let mut bytes = vec![0; LONGEST];
        loop {
            let Ok((len, from)) = self.socket.recv_from(&mut bytes) else {
                self.pause();
                continue;
            };
            let counters = &self.counters;
            match self.tunnels.down(&bytes[..len]) {
                Ok(Arrived::Packet(packet)) => match self.tun.send(packet) {
                    Ok(_) => {
                        counters.downstream.add(1);
                        counters.downstream_bytes.add(packet.len() as u64);
                    }
                    Err(_) => counters.system_errors.add(1),
                },
                Ok(Arrived::EchoRequest(sequence)) => {
                    let answer = message::echo_response(sequence);
                    match self.socket.send_to(&answer, from) {
                        Ok(_) => counters.echo_requests.add(1),
                        Err(_) => counters.system_errors.add(1),
                    }
                }
                Ok(Arrived::EchoResponse) => counters.echo_responses.add(1),
                Ok(Arrived::ErrorIndication) => counters.error_indications.add(1),
                Ok(Arrived::Other) => counters.other_messages.add(1),
                Err(why) => counters.refuse(why),
            }
        }
    }

    /// After an error: an interface that is down, say. It may come back.
    fn pause(&self) {
        self.counters.system_errors.add(1);
        thread::sleep(Duration::from_millis(10));
    }

    fn counts(&self) -> String {
        // A struct of numbers always serialises.
        serde_json::to_string(&self.counters.read()).unwrap_or_default()
    }

    /// Answers one line: `counters`, `echo` to send the gateway an echo request, or `tunnel TEID` to send an empty
    /// packet to a tunnel of this number.
    fn answer(&self, stream: &UnixStream) -> io::Result<()> {
        let mut line = String::new();
        BufReader::new(stream).take(100).read_line(&mut line)?;
        let mut words = line.split_ascii_whitespace();
        let answer = match (words.next(), words.next().map(str::parse)) {
            (Some("counters"), None) => self.counts(),
            (Some("echo"), None) => self.say(&message::echo_request(1)),
            (Some("tunnel"), Some(Ok(teid))) => {
                let packet = tunnels::empty_packet(scalebricks_types::Teid::new(teid));
                self.say(&packet)
            }
            _ => "there are: counters, echo, tunnel TEID".to_owned(),
        };
        let mut stream = stream;
        stream.write_all(answer.as_bytes())
    }

    fn say(&self, message: &[u8]) -> String {
        match self.socket.send_to(message, (GATEWAY, gtpu::PORT)) {
            Ok(_) => "sent".to_owned(),
            Err(error) => error.to_string(),
        }
    }
}

/// Asks a base station through its socket.
///
/// # Errors
/// [`LabError::File`].
pub fn ask(socket: &Path, line: &str) -> Result<String, LabError> {
    let asked = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    asked().map_err(|error| LabError::File { path: socket.to_owned(), error })
}

/// The counters of a base station.
///
/// # Errors
/// [`LabError::File`], [`LabError::Setup`] if the answer is not understood.
pub fn counts(socket: &Path) -> Result<Counts, LabError> {
    let answer = ask(socket, "counters")?;
    serde_json::from_str(&answer)
        .map_err(|_| LabError::Setup { what: format!("the base station says: {answer}") })
}

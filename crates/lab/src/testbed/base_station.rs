//! A base station with its phones, as seen by a gateway: it sends packets from a TUN to the gateway in GTP-U tunnels, and
//! delivers packets from those tunnels to the TUN if they belong to the phone of the tunnel.
//!
//! One thread per direction, one packet per system call: it is correct, not fast. The kernel fragments and reassembles outer
//! packets.

pub mod counters;
pub mod tunnels;

use super::LabError;
use super::args::BaseStationArgs;
use super::context::until_interrupted;
use super::plan::{GATEWAY, Plan, SOURCE_PORTS_PER_NODE, STATION, TUN, Ue};
use counters::Counts;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use scalebricks_admin::flow_list::Reading;
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_types::{ClusterSize, KeyProfile, Teid};
use scalebricks_wire::gtpu::{self, message};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddrV4, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tun_rs::{DeviceBuilder, SyncDevice};
use tunnels::{Arrived, Sent, Tunnels};

/// Octets of the longest message.
const LONGEST: usize = 65_535;

/// Octets that the system queues for a thread that has no core.
const SOCKET_BUFFER: usize = 8 << 20;

/// The state of the base station, shared by its threads.
struct Station {
    size: ClusterSize,
    tunnels: Tunnels,
    counts: Mutex<Counts>,
    tun: SyncDevice,
    /// Receives the gateway's messages.
    socket: UdpSocket,
}

/// Runs a base station until it is interrupted. Prints `ready` when it forwards.
///
/// # Errors
/// [`LabError`] if its files or devices cannot be opened.
pub fn run(args: &BaseStationArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    let file = File::open(&args.flows).map_err(LabError::file(&args.flows))?;
    let size = ClusterSize::new(args.nodes).map_err(|error| LabError::Setup(error.to_string()))?;
    let reading = Reading { profile: KeyProfile::Ue, size, base_stations: &[STATION] };
    let flows = reading
        .read(file, &console.progress("flows", 0))
        .map_err(|error| LabError::Setup(format!("{}: {error}", args.flows.display())))?;
    let failed = |error: io::Error| LabError::Setup(format!("cannot open the base station: {error}"));
    let socket = bind(gtpu::PORT).map_err(failed)?;
    let ports = size.nodes().flat_map(Plan::source_ports);
    let senders = ports.map(bind).collect::<io::Result<Vec<_>>>().map_err(failed)?;
    let tun = DeviceBuilder::new().name(TUN).build_sync().map_err(failed)?;
    // An earlier process may have left the file.
    drop(fs::remove_file(&args.control));
    let control = UnixListener::bind(&args.control).map_err(LabError::file(&args.control))?;
    let (tunnels, counts) = (Tunnels::new(&flows), Mutex::default());
    let station = Arc::new(Station { size, tunnels, counts, tun, socket });
    // The threads end with the process, because they wait in system calls.
    let [up, down, answers] = [0; 3].map(|_| Arc::clone(&station));
    thread::spawn(move || up.up(&senders));
    thread::spawn(move || down.down());
    thread::spawn(move || {
        for stream in control.incoming().flatten() {
            // An error means that the client has gone.
            drop(answers.answer(&stream));
        }
    });
    console.result("ready")?;
    until_interrupted(interrupt);
    console.result(&station.report())?;
    Ok(status::SUCCESS)
}

fn bind(port: u16) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddrV4::new(STATION, port))?;
    // The forced size needs a right that a container may lack.
    set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER)
        .or_else(|_| set_socket_recv_buffer_size(&socket, SOCKET_BUFFER))?;
    Ok(socket)
}

impl Station {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what the system did.
    fn count(&self, done: &io::Result<usize>, success: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts();
        match done {
            Ok(_) => success(&mut counts),
            Err(_) => counts.system_errors += 1,
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
                    self.counts().refuse(why);
                    continue;
                }
            };
            let sender = senders.get(self.sender(sent)).unwrap_or(&self.socket);
            self.count(&sender.send_to(&out[..sent.len], (GATEWAY, gtpu::PORT)), |counts| {
                counts.upstream += 1;
                counts.upstream_bytes += len as u64;
            });
        }
    }

    /// The socket for a packet: one of those for its phone's entry node, because routes depend on the source port.
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
            match self.tunnels.down(&bytes[..len]) {
                Ok(Arrived::Packet(packet)) => self.count(&self.tun.send(packet), |counts| {
                    counts.downstream += 1;
                    counts.downstream_bytes += packet.len() as u64;
                }),
                Ok(Arrived::EchoRequest(sequence)) => {
                    let sent = self.socket.send_to(&message::echo_response(sequence), from);
                    self.count(&sent, |counts| counts.echo_requests += 1);
                }
                Ok(Arrived::EchoResponse) => self.counts().echo_responses += 1,
                Ok(Arrived::ErrorIndication) => self.counts().error_indications += 1,
                Ok(Arrived::Other) => self.counts().other_messages += 1,
                Err(why) => self.counts().refuse(why),
            }
        }
    }

    /// Waits after an error, which may be temporary: for example, an interface is down.
    fn pause(&self) {
        self.counts().system_errors += 1;
        thread::sleep(Duration::from_millis(10));
    }

    fn report(&self) -> String {
        // A struct of numbers always serialises.
        serde_json::to_string(&*self.counts()).unwrap_or_default()
    }

    /// Answers one line: `counters`; `echo` sends the gateway an echo request; `tunnel TEID` sends an empty packet in a tunnel.
    fn answer(&self, mut stream: &UnixStream) -> io::Result<()> {
        let mut line = String::new();
        BufReader::new(stream).take(100).read_line(&mut line)?;
        let mut words = line.split_ascii_whitespace();
        let answer = match (words.next(), words.next().map(str::parse)) {
            (Some("counters"), None) => self.report(),
            (Some("echo"), None) => self.send(&message::echo_request(1)),
            (Some("tunnel"), Some(Ok(teid))) => self.send(&tunnels::empty_packet(Teid::new(teid))),
            _ => "unknown request; there are: counters, echo, tunnel TEID".to_owned(),
        };
        stream.write_all(answer.as_bytes())
    }

    fn send(&self, message: &[u8]) -> String {
        let sent = self.socket.send_to(message, (GATEWAY, gtpu::PORT));
        sent.map_or_else(|error| error.to_string(), |_| "sent".to_owned())
    }
}

/// Sends a request to a base station; its answer.
///
/// # Errors
/// [`LabError::File`].
pub fn ask(socket: &Path, line: &str) -> Result<String, LabError> {
    let asked = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(format!("{line}\n").as_bytes())?;
        io::read_to_string(stream)
    };
    asked().map_err(LabError::file(socket))
}

/// The counters of a base station.
///
/// # Errors
/// [`LabError::File`], [`LabError::Setup`] if the answer cannot be parsed.
pub fn counts(socket: &Path) -> Result<Counts, LabError> {
    let answer = ask(socket, "counters")?;
    let failed = |_| LabError::Setup(format!("cannot parse the base station's counters: {answer}"));
    serde_json::from_str(&answer).map_err(failed)
}

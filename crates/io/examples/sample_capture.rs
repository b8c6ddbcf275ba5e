//! Makes a small capture of well-formed traffic: TCP and UDP conversations over IPv4 and IPv6, some behind a VLAN tag,
//! in both directions.
//!
//! `cargo run -p scalebricks-io --example sample_capture -- FILE`, where FILE ends in `.pcap`, `.pcapng` or one of
//! these and `.gz`.

#![forbid(unsafe_code)]

use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep, VlanId};
use scalebricks_io::CaptureWriter;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

const CONVERSATIONS: u16 = 48;
const EXCHANGES: u32 = 4;
const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 2, 2];
/// Not a port that a dissector takes for a protocol's.
const SERVER_PORT: u16 = 50_007;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        return fail("usage: sample_capture FILE");
    };
    match write_sample(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

#[expect(clippy::print_stderr, reason = "a command says on stderr what went wrong")]
fn fail(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}

fn write_sample(path: &str) -> Result<(), Box<dyn Error>> {
    let mut writer = CaptureWriter::create(path)?;
    let mut clock = Duration::from_secs(1_700_000_000);
    for number in 0..CONVERSATIONS {
        let conversation = Conversation { number };
        for frame in if number.is_multiple_of(2) { conversation.tcp()? } else { conversation.udp()? } {
            clock += Duration::from_nanos(1_003);
            writer.write_frame(clock, &frame)?;
        }
    }
    writer.finish()?;
    Ok(())
}

/// One client talking to one server; the number decides addresses, version of IP, VLAN and sizes.
struct Conversation {
    number: u16,
}

impl Conversation {
    fn ip(&self, from_client: bool) -> PacketBuilderStep<IpHeaders> {
        let [high, low] = self.number.to_be_bytes();
        let (from, to) = if from_client { (CLIENT_MAC, SERVER_MAC) } else { (SERVER_MAC, CLIENT_MAC) };
        let ethernet = PacketBuilder::ethernet2(from, to);
        if self.number.is_multiple_of(3) {
            let client = [0x20, 0x01, 0x0d, 0xb8, 0, 1, high, low, 0, 0, 0, 0, 0, 0, 0, 1];
            let server = [0x20, 0x01, 0x0d, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
            let (from, to) = if from_client { (client, server) } else { (server, client) };
            return ethernet.ipv6(from, to, 64);
        }
        let (client, server) = ([10, 45, high, low.wrapping_add(1)], [192, 0, 2, 7]);
        let (from, to) = if from_client { (client, server) } else { (server, client) };
        if self.number.is_multiple_of(5) {
            let vlan = VlanId::try_new(42).unwrap_or(VlanId::ZERO);
            return ethernet.single_vlan(vlan).ipv4(from, to, 64);
        }
        ethernet.ipv4(from, to, 64)
    }

    fn client_port(&self) -> u16 {
        40_000 + self.number
    }

    fn payload(&self, exchange: u32) -> Vec<u8> {
        let bytes = (usize::from(self.number) * 97 + exchange as usize * 211) % 1200;
        (0..bytes).map(|at| (at as u8).wrapping_mul(31) ^ self.number as u8).collect()
    }

    fn udp(&self) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
        let mut frames = Vec::new();
        for exchange in 0..EXCHANGES {
            for from_client in [true, false] {
                let (from, to) = self.ports(from_client);
                let payload = self.payload(exchange);
                let mut frame = Vec::new();
                self.ip(from_client).udp(from, to).write(&mut frame, &payload)?;
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    fn ports(&self, from_client: bool) -> (u16, u16) {
        if from_client { (self.client_port(), SERVER_PORT) } else { (SERVER_PORT, self.client_port()) }
    }

    /// Opened and closed as TCP demands, so that an analyser has nothing to remark.
    fn tcp(&self) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
        let mut frames = Vec::new();
        // The next sequence number of the client and of the server.
        let mut next = [1_000_u32, 900_000_u32];
        let mut segment = |from_client: bool, is_syn: bool, is_fin: bool, payload: &[u8]| {
            let (from, to) = self.ports(from_client);
            let (mine, peer) = if from_client { (0, 1) } else { (1, 0) };
            let mut step = self.ip(from_client).tcp(from, to, next[mine], 64_000);
            if is_syn {
                step = step.syn();
            }
            if is_fin {
                step = step.fin();
            }
            if !(is_syn && from_client) {
                step = step.ack(next[peer]);
            }
            let mut frame = Vec::new();
            let written = step.write(&mut frame, payload);
            next[mine] += payload.len() as u32 + u32::from(is_syn || is_fin);
            frames.push(frame);
            written
        };
        segment(true, true, false, &[])?;
        segment(false, true, false, &[])?;
        segment(true, false, false, &[])?;
        for exchange in 0..EXCHANGES {
            segment(true, false, false, &self.payload(exchange))?;
            segment(false, false, false, &self.payload(exchange + 1))?;
        }
        segment(true, false, true, &[])?;
        segment(false, false, true, &[])?;
        segment(true, false, false, &[])?;
        Ok(frames)
    }
}

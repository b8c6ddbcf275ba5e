//! Writes a capture with every kind of frame that the slow path makes, for parsers that are not ours to judge.
//!
//! `cargo run -p scalebricks-apps --example local_capture -- FILE`, where FILE ends in `.pcap` or `.pcapng`.

#![forbid(unsafe_code)]

#[path = "../tests/gateway/lab/mod.rs"]
mod lab;

use etherparse::PacketBuilder;
use lab::{
    GATEWAY, INTERNET, INTERNET_MAC, LINK_LOCAL, Lab, OWN, OWN6, RAN, STATIONS, Sent, arp_request, config,
    mac_of, solicitation, udp,
};
use scalebricks_elements::gateway::local::Consumed;
use scalebricks_io::CaptureWriter;
use std::error::Error;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::ExitCode;
use std::time::Duration;

const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 33);
const HOST6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x99, 0, 0, 0, 0, 0x33);

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        return fail("usage: local_capture FILE");
    };
    match write_capture(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

#[expect(clippy::print_stderr, reason = "a command says on stderr what went wrong")]
fn fail(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}

fn write_capture(path: &str) -> Result<(), Box<dyn Error>> {
    let mut writer = CaptureWriter::create(path)?;
    let mut clock = Duration::from_secs(1_700_000_000);
    for (_, frame) in everything()? {
        clock += Duration::from_millis(1);
        writer.write_frame(clock, &frame)?;
    }
    writer.finish()?;
    Ok(())
}

/// Questions and announcements of a start, then an answer of each kind, of all sizes where there are sizes.
fn everything() -> Result<Sent, Box<dyn Error>> {
    let mut lab = Lab::new(config());
    let mut all = lab.poll();
    lab.answer_all(&all);
    all.extend(lab.pass(Duration::from_secs(60)));
    let mut lab = Lab::resolved();
    let near6: Ipv6Addr = "2001:db8:1::99".parse()?;
    for (port, frame) in [
        (INTERNET, arp_request(Ipv4Addr::new(198, 51, 100, 99), OWN)),
        (INTERNET, solicitation(near6, OWN6, Some(mac_of(near6)))),
        (INTERNET, solicitation(Ipv6Addr::UNSPECIFIED, LINK_LOCAL, None)),
        (RAN, udp(STATIONS[0], 40_000, GATEWAY, 2152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0x12, 0x34, 0, 0])),
        (RAN, udp(STATIONS[1], 2152, GATEWAY, 2152, &[0x36, 1, 0, 8, 0, 0, 0, 0, 0, 9, 0, 0x81, 1, 0, 0, 0])),
    ] {
        give(&mut lab, port, &frame)?;
    }
    for len in [0_usize, 1, 8, 55, 1_452, 1_472] {
        let data = vec![0x5a; len];
        let mut frame = Vec::new();
        let ethernet = || PacketBuilder::ethernet2(mac_of(HOST), INTERNET_MAC);
        ethernet()
            .ipv4(HOST.octets(), OWN.octets(), 9)
            .icmpv4_echo_request(1, len as u16)
            .write(&mut frame, &data)?;
        give(&mut lab, INTERNET, &frame)?;
        let mut frame = Vec::new();
        ethernet()
            .ipv6(HOST6.octets(), OWN6.octets(), 9)
            .icmpv6_echo_request(1, len as u16)
            .write(&mut frame, data.get(..1_452).unwrap_or(&data))?;
        give(&mut lab, INTERNET, &frame)?;
    }
    let message = [0x30, 255, 0, 1, 0xde, 0xad, 0xbe, 0xef, 0x45];
    let frame = udp(STATIONS[1], 40_000, GATEWAY, 2152, &message);
    lab.local.unknown_tunnel(&frame, lab.now, &mut lab.out);
    for len in [0_usize, 33, 1_300] {
        let (mut frame, mut frame6) = (Vec::new(), Vec::new());
        let ethernet = || PacketBuilder::ethernet2([2; 6], [2; 6]);
        ethernet()
            .ipv4(HOST.octets(), [10, 45, 0, 9], 9)
            .udp(50_007, 40_000)
            .write(&mut frame, &vec![7; len])?;
        ethernet()
            .ipv6(HOST6.octets(), near6.octets(), 9)
            .udp(50_007, 40_000)
            .write(&mut frame6, &vec![7; len])?;
        lab.local.unknown_user(&frame, lab.now, &mut lab.out);
        lab.local.unknown_user(&frame6, lab.now, &mut lab.out);
    }
    all.extend(lab.sent());
    Ok(all)
}

fn give(
    lab: &mut Lab,
    port: scalebricks_elements::gateway::OutputPort,
    frame: &[u8],
) -> Result<(), Box<dyn Error>> {
    match lab.receive(port, frame) {
        Consumed::Yes => Ok(()),
        Consumed::No => Err("a frame was not taken".into()),
    }
}

//! Peers that share no code with this project: scapy encrypts and decrypts, tshark decrypts.

use super::super::inbound::Inbound;
use super::super::outbound::Outbound;
use super::{AUTH_KEY, CBC_KEY, GCM_KEY, opened, sa, sealed};
use crate::rig::ipv4_of;
use rand::SeedableRng;
use rand::rngs::StdRng;
use scalebricks_io::{CaptureWriter, PacketBuf, Pool};
use scalebricks_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, header};
use scalebricks_wire::ipv6::Ipv6Header;
use scalebricks_wire::{MacAddr, checksum, protocol, transport};
use std::io::Write;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Prints why a test did not run, past the capture of the test harness: scripts/test.sh reads it.
fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// A UDP packet with correct checksums, since scapy and tshark read it.
fn inner(is_v6: bool, len: usize) -> Vec<u8> {
    let udp_len = 8 + len as u16;
    let mut udp = [&transport::udp_header(4_000, 9, udp_len, 0)[..], &vec![0x5a; len]].concat();
    let (src, dst): (IpAddr, IpAddr) = if is_v6 {
        ("2001:db8:1::1".parse().unwrap(), "2001:db8:2::1".parse().unwrap())
    } else {
        ([10, 0, 0, 1].into(), [10, 0, 9, 9].into())
    };
    let sum = checksum::udp(checksum::upper_layer(src, dst, protocol::UDP, &udp).unwrap());
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    match (src, dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = Ipv6Header {
                traffic_class: 0,
                flow_label: 0,
                payload_len: udp_len,
                next_header: protocol::UDP,
                hop_limit: 64,
                src,
                dst,
            };
            [&header.to_bytes()[..], &udp].concat()
        }
        _ => ipv4_of(|_| {}, &udp),
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, octet| {
        let _infallible = std::fmt::Write::write_fmt(&mut text, format_args!("{octet:02x}"));
        text
    })
}

/// Sends lines to scapy and returns its lines; `None` if no Python on this machine has it.
fn answers(tasks: &[String]) -> Option<Vec<String>> {
    let python = std::env::var("SCALEBRICKS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let answers = answers_of(&python, tasks);
    if answers.is_none() {
        skipped(
            "no python3 with scapy 2.6 (pip install 'scapy>=2.6' cryptography; SCALEBRICKS_PYTHON names a Python)",
        );
    }
    answers
}

/// The same with one Python.
fn answers_of(python: &str, tasks: &[String]) -> Option<Vec<String>> {
    let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/esp-peer.py");
    let mut child =
        Command::new(python).arg(peer).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    // It may end before it has read everything, and answers only a line for each.
    let mut input = child.stdin.take().unwrap();
    let text = tasks.join("\n");
    let writer = std::thread::spawn(move || drop(input.write_all(text.as_bytes())));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    if output.status.code() == Some(77) {
        return None;
    }
    assert!(output.status.success(), "{text}");
    Some(text.lines().map(str::to_owned).collect())
}

/// Every suite, outer version, encapsulation, length of numbers and inner version that scapy knows.
fn cases() -> impl Iterator<Item = (bool, bool, bool, bool, bool)> {
    (0..32u8)
        .map(|bits| (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, bits & 8 != 0, bits & 16 != 0))
        // RFC 3948 is about IPv4, and scapy puts no UDP into IPv6.
        .filter(|(_, is_v6, is_in_udp, ..)| !(*is_v6 && *is_in_udp))
}

#[test]
fn scapy_decrypts_what_we_encrypt_and_we_decrypt_what_it_encrypts() {
    let mut pool = Pool::new(2, 2_000).unwrap();
    let (mut tasks, mut expected) = (Vec::new(), Vec::new());
    for (is_gcm, is_v6, is_in_udp, esn, is_inner_v6) in cases() {
        let lines = format!("esn = {esn}\n{}", if is_in_udp { "udp = {}" } else { "" });
        let sa = sa(is_gcm, is_v6, &lines);
        let (suite, keys) =
            if is_gcm { ("gcm", GCM_KEY.to_owned()) } else { ("cbc", format!("{CBC_KEY},{AUTH_KEY}")) };
        let high = if esn { "0" } else { "-" };
        let peer = format!("{suite} {keys} 0x1001 {high} {} {} {}", u8::from(is_in_udp), sa.src, sa.dst);
        for (len, sequence) in [(0, 1), (5, 2), (18, 3), (1_000, 4)] {
            let clear = inner(is_inner_v6, len);
            let mut out = Outbound::new(sa.clone(), StdRng::seed_from_u64(9)).unwrap();
            out.reserve(sequence - 1).ok();
            let packet = sealed(&mut out, &mut pool, &clear).unwrap();
            tasks.push(format!("open {peer} {}", digits(packet.data())));
            tasks.push(format!("seal {peer} {} {sequence}", digits(&clear)));
            expected.push((sa.clone(), clear));
        }
    }
    let Some(answers) = answers(&tasks) else { return };
    assert_eq!(answers.len(), tasks.len());
    for ((sa, clear), pair) in expected.iter().zip(answers.chunks(2)) {
        assert_eq!(pair[0], digits(clear), "{sa:?}");
        let octet = |at: usize| u8::from_str_radix(&pair[1][at..at + 2], 16).unwrap();
        assert!(!pair[1].starts_with("error"), "{} {sa:?}", pair[1]);
        let bytes: Vec<u8> = (0..pair[1].len()).step_by(2).map(octet).collect();
        let mut packet = pool.packet(&bytes).unwrap();
        let mut into = Inbound::new(sa.clone()).unwrap();
        assert_eq!(opened(&mut into, &mut packet).as_ref(), Ok(clear), "{sa:?}");
    }
}

#[test]
fn tshark_decrypts_a_capture_with_the_keys() {
    if !Command::new("tshark").arg("--version").output().is_ok_and(|out| out.status.success()) {
        return skipped("no tshark (on Debian: apt-get install tshark)");
    }
    let mut pool = Pool::new(2, 2_000).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for is_gcm in [true, false] {
        for (is_v6, is_in_udp) in [(false, false), (false, true), (true, false), (true, true)] {
            let path = folder.path().join(format!("{is_gcm}{is_v6}{is_in_udp}.pcap"));
            let sa = sa(is_gcm, is_v6, if is_in_udp { "udp = {}" } else { "" });
            let mut out = Outbound::new(sa.clone(), StdRng::seed_from_u64(9)).unwrap();
            let mut writer = CaptureWriter::create(&path).unwrap();
            for len in [10, 900] {
                let clear = inner(is_v6, len);
                let packet = sealed(&mut out, &mut pool, &clear).unwrap();
                let ethertype = if is_v6 { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 };
                let frame =
                    [&header(MacAddr([2; 6]), MacAddr([4; 6]), ethertype)[..], packet.data()].concat();
                writer.write_frame(Duration::from_secs(len as u64), &frame).unwrap();
            }
            writer.finish().unwrap();
            let (encryption, key, authentication, auth_key) = if is_gcm {
                ("AES-GCM with 16 octet ICV [RFC4106]", GCM_KEY, "NULL", "")
            } else {
                ("AES-CBC [RFC3602]", CBC_KEY, "HMAC-SHA-1-96 [RFC2404]", AUTH_KEY)
            };
            let auth_key = if auth_key.is_empty() { String::new() } else { format!("0x{auth_key}") };
            let entry = format!(
                "uat:esp_sa:\"{}\",\"{}\",\"{}\",\"0x00001001\",\"{encryption}\",\"0x{key}\",\"{authentication}\",\"{auth_key}\"",
                if is_v6 { "IPv6" } else { "IPv4" },
                sa.src,
                sa.dst,
            );
            let run = |entry: &str| {
                Command::new("tshark")
                    .args(["-r", path.to_str().unwrap(), "-o", "esp.enable_encryption_decode:TRUE"])
                    .args(["-o", "esp.enable_authentication_check:TRUE", "-o", entry])
                    .args(["-T", "fields", "-e", "esp.sequence", "-e", "udp.dstport", "-e", "data.len"])
                    .args(["-e", "esp.icv_good", "-E", "occurrence=l"])
                    .output()
                    .unwrap()
            };
            let mut output = run(&entry);
            if !output.status.success() {
                // Later versions also ask for the length of sequence numbers.
                output = run(&format!("{entry},\"32-bit\",\"0\""));
            }
            let text = String::from_utf8_lossy(&output.stdout);
            let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
            assert_eq!(lines.len(), 2, "{text} {}", String::from_utf8_lossy(&output.stderr));
            for (line, (sequence, len)) in lines.iter().zip([("1", "10"), ("2", "900")]) {
                assert_eq!(
                    line[..3],
                    [sequence, "9", len],
                    "{sa:?} {}",
                    String::from_utf8_lossy(&output.stderr)
                );
                assert!(matches!(line[3], "1" | "True"), "ICV {:?} {sa:?}", line[3]);
            }
        }
    }
}

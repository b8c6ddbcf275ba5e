//! Captures through the switch, read by a separate reader.

use super::program::{example, frame, mac, refused, said};
use scalebricks_io::CaptureWriter;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Frames with times in microseconds.
pub type Frames = Vec<(u64, Vec<u8>)>;

pub fn write(path: &Path, frames: &Frames) {
    let mut writer = CaptureWriter::create(path).unwrap();
    for (at, frame) in frames {
        writer.write_frame(Duration::from_micros(*at), frame).unwrap();
    }
    writer.finish().unwrap();
}

/// A pcap file, byte by byte by the specification of the format.
pub fn read(path: &Path) -> Frames {
    let bytes = std::fs::read(path).unwrap();
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let per_us = match u32_at(0) {
        0xa1b2_c3d4 => 1,
        0xa1b2_3c4d => 1_000,
        magic => panic!("{magic:x}"),
    };
    assert_eq!(u32_at(20), 1, "Ethernet");
    let (mut at, mut frames) = (24, Frames::new());
    while at < bytes.len() {
        let (seconds, fraction, length) = (u32_at(at), u32_at(at + 4), u32_at(at + 8) as usize);
        let time = u64::from(seconds) * 1_000_000 + u64::from(fraction / per_us);
        frames.push((time, bytes[at + 16..at + 16 + length].to_vec()));
        at += 16 + length;
    }
    frames
}

#[test]
fn each_port_gets_what_is_for_it_and_the_summary_adds_up() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    example(folder);
    let to = |rack, machine, n: u8| frame(mac(rack, machine), 64, &[n; 20]);
    let broadcast = frame([0xff; 6], 64, b"all");
    let routed = frame(mac(0xff, 0xfe), 9, b"route me");
    let rack1: Frames = vec![
        (100, to(2, 1, 1)),
        (150, to(1, 2, 2)),       // back to where it came from
        (300, broadcast.clone()), // to all others
        (301, to(7, 7, 3)),       // not known: to all others
        (900, to(2, 2, 4)),       // told to drop
        (901, routed.clone()),    // one hop on
        (902, frame(mac(0xff, 0xfe), 1, b"expired")),
        (903, vec![1, 2, 3]), // not a frame
    ];
    let uplink: Frames = vec![(120, to(1, 1, 5)), (310, to(0xff, 2, 6)), (320, broadcast.clone())];
    write(&folder.join("rack1.pcap"), &rack1);
    write(&folder.join("up.pcapng.gz"), &uplink);
    let args =
        ["replay", "--config", "switch.toml", "--in", "rack1=rack1.pcap", "--in", "uplink-a=up.pcapng.gz"];
    let text = said(folder, &[&args[..], &["--out", "out", "--json", "out/summary.json"]].concat());
    assert!(text.contains("switch by mac: 7 names"), "{text}");

    let left = |port: &str| read(&folder.join(format!("out/{port}.pcap")));
    assert_eq!(left("rack1"), [(120, uplink[0].1.clone()), (320, broadcast.clone())]);
    let flooded = [rack1[2].clone(), rack1[3].clone()];
    let rack2 = [&[rack1[0].clone()], &flooded[..], &[(320, broadcast)]].concat();
    assert_eq!(left("rack2"), rack2);
    assert_eq!(left("uplink-b"), flooded, "nothing goes from uplink to uplink");
    let up = left("uplink-a");
    assert_eq!((&up[..2], up.len()), (&flooded[..], 3));
    let one_hop_on = etherparse::SlicedPacket::from_ethernet(&up[2].1).unwrap();
    let Some(etherparse::NetSlice::Ipv4(ip)) = one_hop_on.net else { panic!("IPv4") };
    assert_eq!((up[2].0, ip.header().ttl()), (901, 8));
    assert_eq!(ip.header().to_header().calc_header_checksum(), ip.header().header_checksum());
    assert_eq!(up[2].1[..12], [mac(0xff, 1), mac(0xff, 0xfe)].concat());
    assert_eq!(up[2].1[34..], routed[34..], "what it carries is as it was");

    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("out/summary.json")).unwrap()).unwrap();
    let port = &summary["ports"][0];
    assert_eq!(
        (&port["rx_frames"], &port["tx_frames"], &port["flooded"], &port["unknown"]),
        (&8.into(), &2.into(), &2.into(), &1.into())
    );
    let dropped = serde_json::json!({"by_action": 1, "expired": 1, "split_horizon": 1, "truncated": 1});
    assert_eq!(port["dropped"], dropped);
    assert_eq!(summary["ports"][2]["dropped"], serde_json::json!({"split_horizon": 1}));
    // Nothing else is left in the folder.
    let mut files: Vec<_> = std::fs::read_dir(folder.join("out"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["rack1.pcap", "rack2.pcap", "summary.json", "uplink-a.pcap", "uplink-b.pcap"]);
}

#[test]
fn the_clock_of_the_storm_guard_is_that_of_the_captures() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    example(folder);
    // 2,000 broadcasts in two seconds all pass with a limit of 1,000 per second and a burst of 100. Then as many in 0.1 s.
    let all = frame([0xff; 6], 64, b"all");
    let slow = (0..2_000_u64).map(|n| (n * 1_000, all.clone()));
    let fast = (0..2_000_u64).map(|n| (5_000_000 + n * 50, all.clone()));
    write(&folder.join("in.pcap"), &slow.chain(fast).collect());
    said(folder, &["replay", "--config", "switch.toml", "--in", "rack1=in.pcap", "--out", "out", "--quiet"]);
    let left = read(&folder.join("out/rack2.pcap"));
    let (slow, fast) = left.split_at(left.iter().position(|(at, _)| *at >= 5_000_000).unwrap());
    assert_eq!(slow.len(), 2_000);
    assert!(
        (195..=205).contains(&fast.len()),
        "a burst of 100, and 100 in a tenth of a second: {}",
        fast.len()
    );
}

#[test]
fn what_cannot_be_replayed_is_told_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    example(folder);
    write(&folder.join("good.pcap"), &vec![(0, frame(mac(1, 1), 9, b"x"))]);
    let replay =
        |input: &str| refused(folder, &["replay", "--config", "switch.toml", "--in", input, "--out", "out"]);
    assert_eq!(replay("rack9=good.pcap").0, Some(2));
    assert!(replay("rack9=good.pcap").1.contains("no port is named 'rack9'; there are rack1, rack2"));
    assert_eq!(replay("good.pcap").0, Some(2));
    let (status, error) = replay("rack1=none.pcap");
    assert!(status == Some(1) && error.contains("none.pcap"), "{error}");
    let mut cut = std::fs::read(folder.join("good.pcap")).unwrap();
    cut.truncate(cut.len() - 3);
    std::fs::write(folder.join("cut.pcap"), cut).unwrap();
    let (status, error) = replay("rack1=cut.pcap");
    assert!(status == Some(1) && error.contains("cut.pcap: record 1"), "{error}");
    assert!(!folder.join("out").exists() || std::fs::read_dir(folder.join("out")).unwrap().next().is_none());
}

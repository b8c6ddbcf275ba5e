//! Random and damaged frames from every side: no panic, and every packet is counted exactly once.

use crate::gateway::common::{Bench, bench, downstream, g_pdu, to_gateway, upstream_inner};
use proptest::prelude::*;
use proptest::test_runner::{TestRunner, contextualize_config};
use scalebricks_apps::gateway::Architecture;
use scalebricks_elements::gateway::{FabricMac, OutputPort, Policy};
use scalebricks_types::NodeId;
use std::collections::HashMap;

/// The configuration of `proptest!`: environment variables may set other cases.
fn runner() -> TestRunner {
    TestRunner::new(contextualize_config(ProptestConfig { cases: 64, ..ProptestConfig::default() }))
}

/// Runs the cluster. Each packet must have left once, or as a full set of fragments, or been dropped once.
fn account(bench: &mut Bench, ids: &[u64]) {
    let (left, dropped) = bench.run(1);
    let mut seen: HashMap<u64, (u32, u32)> = HashMap::new();
    for out in &left {
        // The nodes create fragments and ICMP errors; only the first fragment counts for its packet.
        if out.tag.piece <= 1 {
            seen.entry(out.tag.id).or_default().0 += 1;
        }
    }
    for drop in &dropped {
        seen.entry(drop.tag.id).or_default().1 += 1;
    }
    for id in ids {
        let (left, dropped) = seen.remove(id).unwrap_or_default();
        assert_eq!(left + dropped, 1, "packet {id} left {left} times and was dropped {dropped} times");
    }
    assert!(seen.is_empty());
}

fn good_frames(bench: &Bench, n: u32, len: usize) -> [(OutputPort, Vec<u8>); 2] {
    let inner = upstream_inner(n, &vec![3; len]);
    let message = g_pdu(bench.flows[n as usize].uplink_teid.get(), &inner, n.is_multiple_of(2));
    [
        (OutputPort::BaseStation, downstream(n, &vec![5; len])),
        (OutputPort::Internet, to_gateway(bench.policy.gateway_address, 2152, &message)),
    ]
}

#[test]
fn damaged_frames_leave_once_or_are_dropped_once() {
    let mut runner = runner();
    let damage = prop::collection::vec((0usize..120, any::<u8>()), 0..6);
    let cut = prop_oneof![Just(usize::MAX), 0usize..120];
    let frame = (0u32..600, 0usize..400, damage, cut, 0usize..4);
    let frames = prop::collection::vec(frame, 1..60);
    let bench = std::cell::RefCell::new(bench(Architecture::ScaleBricks, 4, Policy::default()));
    let run = runner.run(&frames, |frames| {
        let mut bench = bench.borrow_mut();
        let mut ids = Vec::new();
        for (n, len, damage, cut, node) in frames {
            for (output, mut frame) in good_frames(&bench, n, len) {
                for &(at, bits) in &damage {
                    let at = at % frame.len();
                    frame[at] ^= bits;
                }
                frame.truncate(cut);
                // A frame of fewer than six octets has no address to set.
                let keep_mac = frame.len() < 6 || damage.iter().any(|&(at, _)| at < 6);
                ids.push(bench.inject(node, output, &frame, keep_mac));
            }
        }
        account(&mut bench, &ids);
        Ok(())
    });
    run.unwrap();
}

#[test]
fn random_bytes_leave_once_or_are_dropped_once() {
    let mut runner = runner();
    let frame = (prop::collection::vec(any::<u8>(), 0..200), 0usize..3, any::<bool>(), any::<bool>(), 0u8..4);
    let frames = prop::collection::vec(frame, 1..60);
    let bench = std::cell::RefCell::new(bench(Architecture::HashPartition, 3, Policy::default()));
    let run = runner.run(&frames, |frames| {
        let mut bench = bench.borrow_mut();
        let mut ids = Vec::new();
        for (mut bytes, node, is_up, keep_mac, kind) in frames {
            // Half of them reach the parser.
            let ethertype: &[u8] = match kind {
                0 => &[0x08, 0x00, 0x45],
                1 => &[0x86, 0xdd, 0x60],
                2 => &[0x81, 0x00, 0x00, 0x01, 0x08, 0x00, 0x45],
                _ => &[],
            };
            if bytes.len() > 12 + ethertype.len() {
                bytes[12..12 + ethertype.len()].copy_from_slice(ethertype);
            }
            let output = if is_up { OutputPort::Internet } else { OutputPort::BaseStation };
            let keep_mac = keep_mac || bytes.len() < 6;
            ids.push(bench.inject(node, output, &bytes, keep_mac));
        }
        account(&mut bench, &ids);
        Ok(())
    });
    run.unwrap();
}

#[test]
fn forged_frames_never_reach_the_fabric() {
    let mut bench = bench(Architecture::Vlb, 4, Policy::default());
    let size = scalebricks_types::ClusterSize::new(4).unwrap();
    let mut ids = Vec::new();
    for mac in (0..4).flat_map(|node| FabricMac::announced_by(NodeId::new(node), size)) {
        let frame = [&mac.octets(), &downstream(0, b"forged")[6..]].concat();
        ids.push(bench.inject(1, OutputPort::BaseStation, &frame, true));
        ids.push(bench.inject(1, OutputPort::Internet, &frame, true));
    }
    account(&mut bench, &ids);
    assert_eq!(bench.cluster.fabric_stats().frames, 0);
}

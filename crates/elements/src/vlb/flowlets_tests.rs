use crate::fabric::steer::rig::{self, flow};
use crate::rig::Rig;
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;

/// Node 0 of four with R of 8 MB/s: 2 MB/s directly, 3 MB/s over each of two others.
fn rig(args: &[&str]) -> Rig {
    rig::mesh("Flowlets", &[&["0", "4", "RATE 8000000"], args].concat(), 4)
}

/// The outputs of frames of 1,000 bytes to node 3, by flow, that arrive together.
fn send(rig: &mut Rig, ms: u64, flows: &[u16]) -> Vec<Vec<usize>> {
    rig.send(flows.iter().map(|&number| flow(3, number, 1_000)));
    rig.turn_at(Duration::from_millis(ms));
    let mut ways = vec![Vec::new(); 20];
    for end in 0..4 {
        for frame in rig.got(end) {
            ways[usize::from(u16::from_be_bytes([frame[34], frame[35]]))].push(end);
        }
    }
    ways
}

#[test]
fn a_flowlet_keeps_its_way_and_a_gap_ends_it() {
    let mut rig = rig(&["BURST 4000"]);
    // Flow 1 fills the direct way, so flow 2 goes over another node and stays there when the direct way is free again.
    let ways = send(&mut rig, 0, &[1, 1, 1, 1, 2]);
    assert_eq!(ways[1], [3; 4]);
    let way = ways[2].clone();
    assert!(way == [1] || way == [2], "{way:?}");
    for ms in (50..1_000).step_by(50) {
        assert_eq!(send(&mut rig, ms, &[2])[2], way, "at {ms} ms");
    }
    assert_eq!(["kept", "flowlets", "sprayed"].map(|name| rig.number("v", name)), [22, 2, 0]);
    // Exactly 100 ms are no gap; more are.
    assert_eq!(send(&mut rig, 1_050, &[2])[2], way);
    assert_eq!(send(&mut rig, 1_151, &[2])[2], [3]);
    assert_eq!(rig.number("v", "flowlets"), 3);
}

#[test]
fn a_flowlet_that_does_not_fit_is_sprayed_until_a_gap() {
    let mut rig = rig(&["BURST 4000"]);
    let ways = send(&mut rig, 0, &[1; 9])[1].clone();
    assert_eq!(ways.iter().filter(|&&way| way == 3).count(), 4, "{ways:?}");
    assert_eq!((rig.number("v", "sprayed"), rig.number("v", "over_budget")), (5, 0));
    // The direct way has room again, but the flowlet stays sprayed.
    send(&mut rig, 90, &[1]);
    assert_eq!(rig.number("v", "sprayed"), 6);
    assert_eq!(send(&mut rig, 300, &[1, 1])[1], [3, 3]);
    assert_eq!((rig.number("v", "sprayed"), rig.number("v", "flowlets")), (6, 2));
    // Three ways with 4,000 bytes each have no room for 20 packets; none is dropped.
    let ways = send(&mut rig, 600, &[1; 20])[1].clone();
    assert_eq!((ways.len(), rig.number("v", "no_neighbour")), (20, 0));
    assert_eq!(rig.number("v", "over_budget"), 8);
}

#[test]
fn a_flow_leaves_a_failed_way() {
    let mut rig = rig(&[]);
    assert_eq!(send(&mut rig, 0, &[1])[1], [3]);
    rig.write("v", "down", "3").unwrap();
    let way = send(&mut rig, 1, &[1])[1].clone();
    assert!(way == [1] || way == [2], "{way:?}");
    rig::avoids_failed_links("Flowlets", &["1Mbps"]);
}

#[test]
fn one_output_node_gets_the_whole_rate_within_the_budgets() {
    let mut rig = rig(&["BURST 20000"]);
    let mut bytes = [0; 4];
    for ms in 0..1_000u64 {
        // 8 of 16 flows in each millisecond: 8 MB/s.
        rig.send((0..8).map(|at| flow(3, (ms as u16 % 2) * 8 + at, 1_000)));
        rig.turn_at(Duration::from_millis(ms));
        (0..4).for_each(|end| bytes[end] += rig.got(end).iter().map(Vec::len).sum::<usize>());
    }
    assert_eq!(bytes.iter().sum::<usize>(), 8_000_000);
    for (way, budget) in [(3, 2_000_000), (1, 3_000_000), (2, 3_000_000)] {
        assert!(bytes[way] <= budget + 21_000, "{bytes:?}");
    }
}

#[test]
fn unequal_nodes_and_sizes_are_refused() {
    let built = |args: &[&str]| {
        Rig::with_buffers(5, 1, |builder| {
            builder.declare("v", "Flowlets", args).chain(&["in", "v", "out0"]);
        })
    };
    for wrong in [&["0", "2"][..], &["2", "2", "1Gbps"], &["0", "0", "1Gbps"], &["0", "257", "1Gbps"]] {
        assert!(built(wrong).is_err(), "{wrong:?}");
    }
    assert!(built(&["0", "1", "1Gbps"]).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// With budgets that are never exhausted it is: each flowlet has one way, which is the direct one.
    #[test]
    fn with_room_everything_is_direct(arrivals in prop::collection::vec((0..200u64, 0..20u16), 1..60)) {
        let mut rig = rig(&["BURST 1000000000"]);
        let mut now = 0;
        for (gap, number) in arrivals {
            now += gap;
            prop_assert_eq!(&send(&mut rig, now, &[number])[usize::from(number)], &[3]);
        }
        prop_assert_eq!(rig.number("v", "sprayed"), 0);
    }

    /// Whatever arrives: no frame is lost, and between two gaps a flow changes its way only when it is sprayed.
    #[test]
    fn a_way_changes_only_after_a_gap_or_by_spraying(
        arrivals in prop::collection::vec((0..60u64, 0..4u16, 1..12usize), 1..60),
    ) {
        let mut rig = rig(&["BURST 3000"]);
        let (mut now, mut last) = (0u64, HashMap::<u16, (u64, usize)>::new());
        for (gap, number, count) in arrivals {
            now += gap;
            let sprayed = rig.number("v", "sprayed");
            let ways = send(&mut rig, now, &vec![number; count])[usize::from(number)].clone();
            prop_assert_eq!(ways.len(), count);
            let is_sprayed = rig.number("v", "sprayed") > sprayed;
            if let (Some(&(before, way)), false) = (last.get(&number), is_sprayed) {
                let is_new = now - before > 100;
                prop_assert!(is_new || ways.iter().all(|&now| now == way), "{:?} after {}", ways, way);
            }
            prop_assert!(is_sprayed || ways.iter().all(|&way| way == ways[0]));
            if is_sprayed { last.remove(&number); } else { last.insert(number, (now, ways[0])); }
        }
    }
}

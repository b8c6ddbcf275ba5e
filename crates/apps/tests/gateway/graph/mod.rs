//! A node with joined elements behaves like one with separate elements, in all architectures: the same bytes to the
//! same ports, each flow in order, the same packets dropped for the same reasons, the same counters.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod frames;
mod pair;

use frames::{Kind, Side, step};
use pair::Pair;
use proptest::prelude::*;
use proptest::test_runner::contextualize_config;
use scalebricks_apps::gateway::{Architecture, NodeStats};
use scalebricks_types::KeyProfile;

type Steps = Vec<Vec<(Side, Vec<Kind>)>>;

fn same(architecture: Architecture, profile: KeyProfile) -> impl Fn(bool, Steps) {
    let tables = pair::tables(architecture, profile);
    move |answers_too_big, steps| {
        let mut pair = Pair::new(&tables, architecture, profile, answers_too_big);
        for together in &steps {
            pair.send(together);
        }
        pair.compare();
    }
}

macro_rules! properties {
    ($($name:ident: $architecture:ident, $profile:ident;)+) => {$(
        #[test]
        fn $name() {
            let same = same(Architecture::$architecture, KeyProfile::$profile);
            let config = contextualize_config(ProptestConfig { cases: 24, ..ProptestConfig::default() });
            proptest!(config, |(too_big: bool, steps in prop::collection::vec(step(), 1..6))| same(too_big, steps));
        }
    )+};
}

properties! {
    full_duplication: FullDuplication, Flow5;
    full_duplication_by_ue: FullDuplication, Ue;
    hash_partition: HashPartition, Flow5;
    vlb: Vlb, Flow5;
    scalebricks: ScaleBricks, Flow5;
    scalebricks_by_ue: ScaleBricks, Ue;
}

/// Enough packets of every kind to reach all differences between packets.
#[test]
fn the_property_reaches_what_it_is_about() {
    let tables = pair::tables(Architecture::ScaleBricks, KeyProfile::Flow5);
    let mut all = NodeStats::default();
    for answers_too_big in [true, false] {
        let mut pair = Pair::new(&tables, Architecture::ScaleBricks, KeyProfile::Flow5, answers_too_big);
        for side in Side::ALL {
            for kinds in frames::all().chunks(50) {
                pair.send(&[(side, kinds.to_vec())]);
            }
        }
        all += &pair.compare();
    }
    assert!(all.internet_out > 0 && all.base_station_out > 0 && all.fabric_out > 0);
    assert!(all.forwarded_again > 0 && all.packets_fragmented > 0 && all.icmp_sent > 0, "{all:?}");
    for name in [
        "unknown_flow",
        "other_mac",
        "bad_fabric_mac",
        "bad_probe",
        "fragment_without_first",
        "truncated",
        "fragmentation_needed",
    ] {
        assert!(all.dropped.iter().any(|(reason, _)| reason.name() == name), "{name}: {:?}", all.dropped);
    }
}

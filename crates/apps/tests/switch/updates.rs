//! Changes during forwarding: names that a change does not affect are always forwarded correctly.

use super::kinds::{actions, kinds, name};
use super::reference::Names;
use super::rig::{SEED, Setting, port};
use proptest::prelude::*;
use scalebricks_elements::flat::{
    Action, CheckBits, FlatName, NameConfig, NameError, NameKind, NameOp, NameTable, UnknownNamePolicy,
};
use scalebricks_types::KeyHasher;
use scalebricks_wire::MacAddr;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Clone, Copy)]
enum Do {
    Add(u8, u8, Action),
    Alter(u8, u8, Action),
    Remove(u8, u8),
}

fn deeds() -> impl Strategy<Value = Do> {
    prop_oneof![
        (0..12_u8, any::<u8>(), actions()).prop_map(|(n, m, action)| Do::Add(n, m, action)),
        (0..12_u8, any::<u8>(), actions()).prop_map(|(n, m, action)| Do::Alter(n, m, action)),
        (0..12_u8, any::<u8>()).prop_map(|(n, m)| Do::Remove(n, m)),
    ]
}

/// Applies the operation to a plain map; false if it is refused.
fn on_map(map: &mut Names, op: &NameOp) -> bool {
    match op {
        NameOp::Add(name, action) => map.insert(name.clone(), *action).is_none(),
        NameOp::Alter(name, action) => map.get_mut(name).map(|place| *place = *action).is_some(),
        NameOp::Remove(name) => map.remove(name).is_some(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_changes_leaves_what_a_map_holds(
        batches in proptest::collection::vec(proptest::collection::vec(deeds(), 1..12), 1..24),
    ) {
        for kind in kinds() {
            let setting = Setting::new(kind, UnknownNamePolicy::Drop);
            let (mut table, mut map) = (setting.table(), Names::new());
            let mut reader = table.fib().reader(UnknownNamePolicy::Drop);
            for batch in &batches {
                let ops: Vec<NameOp> = batch.iter().filter_map(|deed| Some(match *deed {
                    Do::Add(n, m, action) => NameOp::Add(name(kind, n, m)?, action),
                    Do::Alter(n, m, action) => NameOp::Alter(name(kind, n, m)?, action),
                    Do::Remove(n, m) => NameOp::Remove(name(kind, n, m)?),
                })).collect();
                let mut after = map.clone();
                let refused = ops.iter().position(|op| !on_map(&mut after, op));
                match (table.apply(&ops), refused) {
                    (Ok(_), None) => map = after,
                    (Err(NameError::Exists { op } | NameError::Missing { op }), Some(wanted)) => {
                        prop_assert_eq!(op, wanted);
                    }
                    (got, wanted) => prop_assert!(false, "{:?}, and the map says {:?}", got, wanted),
                }
                prop_assert_eq!(table.len(), map.len());
                let hasher = KeyHasher::new(SEED);
                for (name, action) in &map {
                    prop_assert_eq!(table.get(name), Some(*action));
                    prop_assert_eq!(reader.lookup(name.hash(&hasher)).action, Some(*action));
                }
            }
        }
    }
}

fn address(n: u32) -> FlatName {
    FlatName::Ipv4(Ipv4Addr::from(n))
}

fn hop(n: u32) -> Action {
    let [a, b, c, d] = n.to_be_bytes();
    Action::Route {
        port: port(1),
        next_hop: MacAddr([0x02, 1, a, b, c, d]),
        source: MacAddr([0x02, 0, 0, 0, 0, 1]),
    }
}

/// A writer adds, alters and removes names, and makes the table grow in names and actions. Readers look up names that
/// stay, and one that alternates between two actions.
#[test]
fn readers_beside_a_writer_never_see_a_third_action() {
    const KEPT: u32 = 500;
    let hasher = KeyHasher::new(SEED);
    for unknown in [UnknownNamePolicy::Drop, UnknownNamePolicy::Answer] {
        let mut table = Setting { expected: 500, ..Setting::new(NameKind::Ipv4, unknown) }.table();
        let kept: Vec<(FlatName, Action)> = (0..KEPT).map(|n| (address(n), hop(n % 9))).collect();
        table.change_to(&kept).unwrap();
        let flapping = address(u32::MAX);
        // Actions that no other name has: each alteration frees one and takes another.
        let between = [hop(1_000_001), hop(1_000_002)];
        table.apply(&[NameOp::Add(flapping.clone(), between[0])]).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let mut reader = table.fib().reader(unknown);
                let (kept, flapping, done) = (&kept, &flapping, &done);
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        for (name, action) in kept {
                            assert_eq!(reader.lookup(name.hash(&hasher)).action, Some(*action));
                            let found = reader.lookup(flapping.hash(&hasher)).action.unwrap();
                            assert!(between.contains(&found), "{found:?}");
                        }
                    }
                });
            }
            for round in 0..400_u32 {
                let mut ops = vec![NameOp::Alter(flapping.clone(), between[(round as usize + 1) % 2])];
                // New names with new actions; those of an older round are removed.
                ops.extend((0..8).map(|n| NameOp::Add(address(100_000 + round * 8 + n), hop(round * 8 + n))));
                if round >= 100 {
                    let old = round - 100;
                    ops.extend((0..8).map(|n| NameOp::Remove(address(100_000 + old * 8 + n))));
                }
                table.apply(&ops).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(table.stats().reshaped > 3, "it grew, and was numbered anew: {:?}", table.stats());
    }
}

#[test]
fn a_table_grows_far_beyond_what_it_was_made_for() {
    let hasher = KeyHasher::new(SEED);
    let config = NameConfig {
        kind: NameKind::Ipv4,
        hasher,
        ports: 4,
        expected: 1,
        check_bits: CheckBits::new(8).unwrap(),
        filter_rate: Some(0.001),
        spreads_aliens: false,
    };
    let mut table = NameTable::new(config).unwrap();
    let mut reader = table.fib().reader(UnknownNamePolicy::Drop);
    for batch in 0..60_u32 {
        let ops: Vec<NameOp> =
            (0..1_000).map(|n| batch * 1_000 + n).map(|n| NameOp::Add(address(n), hop(n / 3))).collect();
        table.apply(&ops).unwrap();
        for n in (0..(batch + 1) * 1_000).step_by(97) {
            assert_eq!(reader.lookup(address(n).hash(&hasher)).action, Some(hop(n / 3)));
        }
    }
    let stats = table.stats();
    assert_eq!((stats.names, stats.actions, stats.value_bits), (60_000, 20_000, 15));
    let missed = (0..50_000).filter(|n| !reader.lookup(address(1 << 30 | n).hash(&hasher)).is_alien).count();
    assert!(missed < 10, "the filter grew with it: {missed}");
}

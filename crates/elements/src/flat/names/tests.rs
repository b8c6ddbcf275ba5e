//! Which names are refused, and that action numbers are used sparingly.

use super::super::{Action, BytesAt, FlatName, FlatTuple, Length, NameBytes, NameKind, PortNo};
use super::*;
use scalebricks_types::{FiveTuple, HashSeed};
use scalebricks_wire::MacAddr;

fn table(kind: NameKind) -> NameTable {
    NameTable::new(NameConfig {
        kind,
        hasher: KeyHasher::new(HashSeed::from_u64(3)),
        ports: 2,
        expected: 10,
        check_bits: CheckBits::default(),
        filter_rate: None,
        spreads_aliens: false,
    })
    .unwrap()
}

fn mac(n: u32) -> FlatName {
    let [a, b, c, d] = n.to_be_bytes();
    FlatName::Mac(MacAddr([0x02, 0, a, b, c, d]))
}

fn hop(n: u32) -> Action {
    let [a, b, c, d] = n.to_be_bytes();
    let next_hop = MacAddr([0x02, 1, a, b, c, d]);
    Action::Route { port: PortNo::new(0).unwrap(), next_hop, source: next_hop }
}

#[test]
fn names_of_another_kind_are_refused() {
    let tuple = |in_port| {
        let tuple = FiveTuple {
            src: [1, 2, 3, 4].into(),
            dst: [5, 6, 7, 8].into(),
            protocol: 6,
            src_port: 1,
            dst_port: 2,
        };
        FlatName::Tuple(FlatTuple::new(in_port, tuple).unwrap())
    };
    let fixed = BytesAt::new(super::super::Base::Frame, 0, Length::Fixed(3)).unwrap();
    for (kind, name) in [
        (NameKind::Mac, FlatName::Ipv4([1, 2, 3, 4].into())),
        (NameKind::Mac, FlatName::Mac(MacAddr::BROADCAST)),
        (NameKind::Ipv6, FlatName::Ipv4([1, 2, 3, 4].into())),
        (NameKind::Tuple { with_port: false }, tuple(PortNo::new(0))),
        (NameKind::Tuple { with_port: true }, tuple(None)),
        (NameKind::Bytes(fixed), FlatName::Bytes(NameBytes::new(b"four").unwrap())),
    ] {
        let mut table = table(kind);
        let ops = [NameOp::Add(name.clone(), Action::Drop)];
        assert_eq!(table.apply(&ops), Err(NameError::Kind { op: 0, kind: kind.word() }));
        assert_eq!(table.get(&name), None);
    }
}

#[test]
fn ports_that_are_not_there_are_refused_and_nothing_is_done() {
    let mut names = table(NameKind::Mac);
    let nowhere = PortNo::new(2).unwrap();
    let ops = [NameOp::Add(mac(1), Action::Drop), NameOp::Add(mac(2), Action::Forward(nowhere))];
    assert_eq!(names.apply(&ops), Err(NameError::NoSuchPort { op: 1, port: nowhere, ports: 2 }));
    assert!(names.is_empty());
}

#[test]
fn operations_go_one_after_another_and_all_or_none() {
    let mut names = table(NameKind::Mac);
    let done = names.apply(&[
        NameOp::Add(mac(1), Action::Drop),
        NameOp::Alter(mac(1), Action::Flood),
        NameOp::Add(mac(2), Action::Drop),
        NameOp::Remove(mac(2)),
        NameOp::Add(mac(3), hop(3)),
    ]);
    assert_eq!(done, Ok(Changes { added: 2, altered: 0, removed: 0, kept: 0 }));
    assert_eq!([1, 2, 3].map(|n| names.get(&mac(n))), [Some(Action::Flood), None, Some(hop(3))]);
    let refused = names.apply(&[NameOp::Remove(mac(1)), NameOp::Remove(mac(1))]);
    assert_eq!(refused, Err(NameError::Missing { op: 1 }));
    let refused = names.apply(&[NameOp::Remove(mac(1)), NameOp::Add(mac(3), Action::Drop)]);
    assert_eq!(refused, Err(NameError::Exists { op: 1 }));
    assert_eq!(names.get(&mac(1)), Some(Action::Flood));
    // Removing a name and adding it again alters it.
    let done = names.apply(&[NameOp::Remove(mac(1)), NameOp::Add(mac(1), Action::Drop)]);
    assert_eq!(done, Ok(Changes { added: 0, altered: 1, removed: 0, kept: 1 }));
}

#[test]
fn a_list_is_reached_by_difference() {
    let mut names = table(NameKind::Mac);
    let list = |actions: &[(u32, u32)]| actions.iter().map(|&(n, a)| (mac(n), hop(a))).collect::<Vec<_>>();
    names.change_to(&list(&[(1, 1), (2, 2), (3, 3)])).unwrap();
    let done = names.change_to(&list(&[(4, 1), (2, 2), (3, 9)]));
    assert_eq!(done, Ok(Changes { added: 1, altered: 1, removed: 1, kept: 1 }));
    let mut found: Vec<_> = names.iter().map(|(name, action)| (name.clone(), action)).collect();
    found.sort();
    assert_eq!(found, list(&[(2, 2), (3, 9), (4, 1)]));
    assert_eq!(names.change_to(&list(&[(1, 1), (1, 1)])), Err(NameError::Exists { op: 1 }));
    assert_eq!(names.len(), 3);
}

#[test]
fn more_actions_than_ids_are_refused_and_ids_are_used_again() {
    let mut names = table(NameKind::Mac);
    let all: Vec<NameOp> = (0..1 << 16).map(|n| NameOp::Add(mac(n), hop(n))).collect();
    names.apply(&all).unwrap();
    assert_eq!((names.stats().actions, names.stats().value_bits), (1 << 16, 16));
    let one = [NameOp::Add(mac(1 << 16), hop(1 << 16))];
    assert_eq!(names.apply(&one), Err(NameError::TooManyActions((1 << 16) + 1)));
    assert_eq!(names.len(), 1 << 16);
    // One that is in use does no harm, and one in the place of another neither.
    names.apply(&[NameOp::Add(mac(1 << 16), hop(5))]).unwrap();
    names.apply(&[NameOp::Alter(mac(7), hop(1 << 16)), NameOp::Alter(mac(8), hop(7))]).unwrap();
    assert_eq!(names.stats().actions, 1 << 16, "hop 8 is gone");
    assert_eq!([7, 8, 9].map(|n| names.get(&mac(n))), [hop(1 << 16), hop(7), hop(9)].map(Some));
}

#[test]
fn actions_that_come_and_go_do_not_widen_the_table() {
    for spreads_aliens in [false, true] {
        let mut names = table(NameKind::Mac);
        names.config.spreads_aliens = spreads_aliens;
        names.apply(&[NameOp::Add(mac(0), hop(0)), NameOp::Add(mac(1), hop(1))]).unwrap();
        for round in 2..1_000 {
            names.apply(&[NameOp::Alter(mac(1), hop(round))]).unwrap();
        }
        let stats = names.stats();
        assert!(stats.actions == 2 && stats.value_bits <= 2, "{stats:?}");
        let mut reader = names.fib().reader(super::super::UnknownNamePolicy::Answer);
        let mut answer = |n: u32| reader.lookup(mac(n).hash(&names.config.hasher)).action;
        assert_eq!((answer(0), answer(1)), (Some(hop(0)), Some(hop(999))));
    }
}

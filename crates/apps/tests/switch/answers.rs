//! Names that are not in the table.

use super::frames::{Protocol, Spec, v4};
use super::rig::{Rig, SEED, Setting, port};
use scalebricks_elements::flat::{Action, FlatName, NameKind, NameOp, UnknownNamePolicy};
use scalebricks_types::KeyHasher;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

fn alien(n: u32) -> FlatName {
    FlatName::Ipv4(Ipv4Addr::from(0x0a00_0000 + n))
}

#[test]
fn a_load_balancer_answers_any_name_with_an_action_in_use() {
    let mut setting = Setting::new(NameKind::Ipv4, UnknownNamePolicy::Answer);
    setting.groups = vec![None; 40];
    let mut rig = Rig::new(&setting);
    let servers: Vec<(FlatName, Action)> =
        (1..40_u8).map(|n| (FlatName::Ipv4(v4(n)), Action::Forward(port(n.into())))).collect();
    rig.names(&servers);
    // Some servers leave: their actions are no longer used, whatever Othello answers.
    let gone: Vec<NameOp> = servers[..13].iter().map(|(name, _)| NameOp::Remove(name.clone())).collect();
    rig.table.apply(&gone).unwrap();
    let hasher = KeyHasher::new(SEED);
    let mut reader = rig.table.fib().reader(UnknownNamePolicy::Answer);
    let mut seen: BTreeMap<_, u32> = BTreeMap::new();
    for n in 0..20_000 {
        let hash = alien(n).hash(&hasher);
        let Some(Action::Forward(to)) = reader.lookup(hash).action else { panic!("no answer") };
        assert!((14..40).contains(&to.index()), "{to}");
        assert_eq!(reader.lookup(hash).action, Some(Action::Forward(to)), "the same each time");
        *seen.entry(to).or_default() += 1;
    }
    // 769 each if all get the same share; the others get the shares of those that left.
    assert_eq!(seen.len(), 26, "all servers get some");
    assert!(seen.values().all(|count| (600..950).contains(count)), "{seen:?}");
    for (name, action) in &servers[13..] {
        assert_eq!(reader.lookup(name.hash(&hasher)).action, Some(*action));
    }
}

#[test]
fn without_any_action_there_is_no_answer() {
    let mut rig = Rig::new(&Setting::new(NameKind::Ipv4, UnknownNamePolicy::Answer));
    let frame = Spec {
        mac: 1,
        vlan: None,
        is_v6: false,
        src: 1,
        dst: 1,
        protocol: Protocol::Udp,
        src_port: 1,
        dst_port: 1,
        ttl: 9,
        label: 0,
    };
    assert!(rig.one(0, &frame.frame()).iter().all(Vec::is_empty));
}

#[test]
fn checksums_and_filters_tell_aliens_as_well_as_they_promise() {
    let hasher = KeyHasher::new(SEED);
    for (check_bits, filter_rate, most) in
        [(4, None, 1.0 / 16.0), (8, None, 1.0 / 256.0), (0, Some(0.01), 0.01), (4, Some(0.01), 0.01 / 16.0)]
    {
        let setting = Setting {
            check_bits,
            filter_rate,
            expected: 20_000,
            ..Setting::new(NameKind::Ipv4, UnknownNamePolicy::Drop)
        };
        let mut table = setting.table();
        let names: Vec<(FlatName, Action)> = (0..20_000_u32)
            .map(|n| (alien(0x10_0000 + n), Action::Forward(port((n % 4) as usize))))
            .collect();
        table.change_to(&names).unwrap();
        let mut reader = table.fib().reader(UnknownNamePolicy::Drop);
        for (name, action) in &names {
            assert_eq!(reader.lookup(name.hash(&hasher)).action, Some(*action));
        }
        let asked = 100_000;
        let missed = (0..asked).filter(|&n| !reader.lookup(alien(n).hash(&hasher)).is_alien).count();
        let expected = most * f64::from(asked);
        // Six standard deviations, and the tolerance of the filter's sizing.
        let limit = expected * 1.25 + 6.0 * expected.sqrt();
        assert!((missed as f64) < limit, "{missed} of {asked}, {expected} expected");
    }
}

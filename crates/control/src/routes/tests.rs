//! The RIB against a slow, obvious twin.

use super::*;
use crate::codec::Encoded;
use proptest::prelude::*;
use scalebricks_types::{NodeId, NodeSet};
use std::collections::{BTreeMap, BTreeSet};

fn prefix(text: &str) -> IpPrefix {
    text.parse().map(IpPrefix::V4).or_else(|_| text.parse().map(IpPrefix::V6)).unwrap()
}

fn path(preference: u32, node: u8, port: u8) -> Path {
    let next_hop = (port > 0).then(|| [192, 0, 2, port].into());
    Path { preference, exit: Exit { node: NodeId::new(node), port, next_hop } }
}

fn nodes(nodes: &[u8]) -> NodeSet {
    nodes.iter().map(|node| NodeId::new(*node)).collect()
}

fn announce(feeder: u16, text: &str, paths: &[Path]) -> RouteRecord {
    RouteRecord::Announce(FeederId(feeder), prefix(text), Paths::new(paths.iter().copied()).unwrap())
}

fn apply(rib: &mut RouteRib, records: &[RouteRecord]) -> RouteChanges {
    let mut changes = RouteChanges::default();
    let counts = rib.apply(&RouteBatch(records.to_vec()), &mut changes);
    assert_eq!(counts, ApplyCounts { applied: records.len() as u64, ..ApplyCounts::default() });
    changes
}

#[test]
fn prefixes_of_a_dead_node_go_to_their_next_path_or_are_withdrawn() {
    let mut rib = RouteRib::new(nodes(&[0, 1]));
    let net = "10.0.0.0/8";
    apply(
        &mut rib,
        &[
            announce(1, net, &[path(10, 0, 1), path(20, 1, 2)]),
            announce(2, net, &[path(15, 1, 3)]),
            announce(1, "2001:db8::/32", &[path(1, 0, 0)]),
        ],
    );
    assert_eq!(rib.selected(prefix(net)).unwrap().exit, path(10, 0, 1).exit);
    let mut changes = RouteChanges::default();
    rib.set_alive(nodes(&[1]), &mut changes);
    let exit = changes.v4[0].exit.unwrap();
    assert_eq!(exit.exit, path(15, 1, 3).exit, "the other feeder's is the next");
    assert_eq!(exit.number, 1, "numbers do not depend on who is alive");
    assert_eq!(rib.next_hops().map(|hop| hop.number).collect::<Vec<_>>(), [0, 0, 1]);
    assert_eq!((changes.v6.len(), changes.v6[0].exit), (1, None));
    rib.set_alive(nodes(&[0, 1]), &mut changes);
    assert_eq!((changes.v4.len(), changes.v6.len()), (2, 2));
    assert_eq!(rib.selected(prefix(net)).unwrap().exit, path(10, 0, 1).exit);
}

#[test]
fn a_feeder_that_restarts_keeps_its_routes_until_it_is_complete() {
    let mut rib = RouteRib::new(nodes(&[0]));
    apply(
        &mut rib,
        &[announce(1, "10.0.0.0/8", &[path(1, 0, 1)]), announce(1, "11.0.0.0/8", &[path(1, 0, 1)])],
    );
    let changes =
        apply(&mut rib, &[RouteRecord::Restart(FeederId(1)), announce(1, "11.0.0.0/8", &[path(1, 0, 1)])]);
    assert!(changes.is_empty() && rib.len() == 2);
    let changes = apply(&mut rib, &[RouteRecord::Complete(FeederId(1))]);
    assert_eq!(changes.v4, [RouteChange { prefix: "10.0.0.0/8".parse().unwrap(), exit: None }]);
    assert_eq!(rib.len(), 1);
}

#[test]
fn wrong_encodings_are_refused() {
    let batch = RouteBatch(vec![announce(1, "10.0.0.0/9", &[path(1, 0, 1), path(2, 1, 1)])]);
    let bytes = batch.encode();
    assert_eq!(RouteBatch::decode(&bytes).unwrap(), batch);
    // Version, number of records, kind, feeder; then family, length, two octets, number of paths.
    for (at, byte, what) in [(9, 5, "family"), (10, 33, "bits"), (12, 1, "bits"), (13, 9, "")] {
        let mut wrong = bytes.clone();
        wrong[at] = byte;
        let error = RouteBatch::decode(&wrong).unwrap_err().to_string();
        assert!(error.starts_with("cannot decode route batch") && error.contains(what), "{at}: {error}");
    }
    assert_eq!(Paths::new([]), Err(TooManyPaths(0)));
    assert_eq!(Paths::new((0..9).map(|preference| path(preference, 0, 0))), Err(TooManyPaths(9)));
}

/// A step of the model.
#[derive(Debug, Clone)]
enum Step {
    Record(RouteRecord),
    Alive(NodeSet),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = prop::sample::select(vec!["10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "2001:db8::/32", "::/0"]);
    let paths = prop::collection::vec((0..4u32, 0..4u8, 0..3u8), 1..4);
    let feeder = || (1..4u16).prop_map(FeederId);
    prop::collection::vec(
        prop_oneof![
            4 => (feeder(), name.clone(), paths).prop_map(|(feeder, name, paths)| {
                let paths = paths.into_iter().map(|(preference, node, port)| path(preference, node, port));
                Step::Record(RouteRecord::Announce(feeder, prefix(name), Paths::new(paths).unwrap()))
            }),
            2 => (feeder(), name).prop_map(|(feeder, name)| Step::Record(RouteRecord::Withdraw(feeder, prefix(name)))),
            1 => feeder().prop_map(|feeder| Step::Record(RouteRecord::Restart(feeder))),
            1 => feeder().prop_map(|feeder| Step::Record(RouteRecord::Complete(feeder))),
            1 => prop::collection::vec(0..4u8, 0..4).prop_map(|alive| Step::Alive(nodes(&alive))),
        ],
        1..40,
    )
}

/// All paths in one list, searched as a whole.
#[derive(Default)]
struct Twin {
    paths: Vec<(IpPrefix, FeederId, Path, bool)>,
    alive: NodeSet,
}

impl Twin {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Alive(alive) => self.alive = *alive,
            Step::Record(RouteRecord::Announce(feeder, prefix, paths)) => {
                self.paths.retain(|one| (one.0, one.1) != (*prefix, *feeder));
                self.paths.extend(paths.as_slice().iter().map(|path| (*prefix, *feeder, *path, true)));
            }
            Step::Record(RouteRecord::Withdraw(feeder, prefix)) => {
                self.paths.retain(|one| (one.0, one.1) != (*prefix, *feeder));
            }
            Step::Record(RouteRecord::Restart(feeder)) => {
                self.paths.iter_mut().filter(|one| one.1 == *feeder).for_each(|one| one.3 = false);
            }
            Step::Record(RouteRecord::Complete(feeder)) => self.paths.retain(|one| one.1 != *feeder || one.3),
        }
    }

    fn routes(&self) -> BTreeMap<IpPrefix, Exit> {
        let prefixes: BTreeSet<IpPrefix> = self.paths.iter().map(|one| one.0).collect();
        let best = |prefix: IpPrefix| {
            let usable =
                self.paths.iter().filter(|one| one.0 == prefix && self.alive.contains(one.2.exit.node));
            usable.map(|one| one.2).min().map(|path| (prefix, path.exit))
        };
        prefixes.into_iter().filter_map(best).collect()
    }
}

/// The changes of both families, in order.
fn by_prefix(changes: &RouteChanges) -> Vec<(IpPrefix, Option<NumberedExit>)> {
    let v4 = changes.v4.iter().map(|change| (IpPrefix::V4(change.prefix), change.exit));
    let v6 = changes.v6.iter().map(|change| (IpPrefix::V6(change.prefix), change.exit));
    v4.chain(v6).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The routes are the twin's, the changes lead from each state to the next, and a snapshot restores the RIB.
    #[test]
    fn the_rib_is_its_twin(steps in steps()) {
        let (mut rib, mut twin) = (RouteRib::new(NodeSet::EMPTY), Twin::default());
        let (mut table, mut numbers) = (BTreeMap::new(), BTreeSet::new());
        for step in &steps {
            let mut changes = RouteChanges::default();
            match step {
                Step::Record(record) => {
                    let batch = RouteBatch(vec![record.clone()]);
                    prop_assert_eq!(&RouteBatch::decode(&batch.encode()).unwrap(), &batch);
                    rib.apply(&batch, &mut changes);
                }
                Step::Alive(alive) => rib.set_alive(*alive, &mut changes),
            }
            twin.take(step);
            for change in &changes.hops {
                let is_change = if change.is_used { numbers.insert(change.hop) } else { numbers.remove(&change.hop) };
                prop_assert!(is_change, "{:?}", change);
            }
            prop_assert_eq!(&rib.next_hops().collect::<BTreeSet<_>>(), &numbers);
            let exits: BTreeSet<Exit> = twin.paths.iter().map(|one| one.2.exit).filter(|exit| exit.next_hop.is_some()).collect();
            prop_assert_eq!(&numbers.iter().map(|hop| hop.exit).collect::<BTreeSet<_>>(), &exits);
            let distinct: BTreeSet<_> = numbers.iter().map(|hop| (hop.exit.node, hop.number)).collect();
            prop_assert_eq!(distinct.len(), exits.len(), "one number per next hop of a node");
            for (prefix, exit) in by_prefix(&changes) {
                let before = match exit {
                    Some(exit) => table.insert(prefix, exit),
                    None => table.remove(&prefix),
                };
                prop_assert_ne!(before, exit, "an empty change of {:?}", prefix);
            }
            prop_assert_eq!(&table.iter().map(|(prefix, exit)| (*prefix, exit.exit)).collect::<BTreeMap<_, _>>(), &twin.routes());
            prop_assert_eq!(&rib.routes().collect::<BTreeMap<_, _>>(), &table);
            let from_empty = by_prefix(&RouteRib::new(NodeSet::EMPTY).changes_to(&rib));
            prop_assert_eq!(from_empty, table.iter().map(|(prefix, exit)| (*prefix, Some(*exit))).collect::<Vec<_>>());
            let restored = RouteRib::decode(&rib.encode(), twin.alive).unwrap();
            prop_assert_eq!(&restored, &rib);
            prop_assert!(rib.changes_to(&restored).is_empty());
        }
    }

    /// The changes from any RIB to any other lead there: table, numbers and all.
    #[test]
    fn the_changes_to_another_rib_lead_there(before in steps(), after in steps()) {
        let rib_of = |steps: &[Step]| {
            let mut rib = RouteRib::new(nodes(&[0, 1, 2]));
            for step in steps {
                match step {
                    Step::Record(record) => _ = rib.apply(&RouteBatch(vec![record.clone()]), &mut RouteChanges::default()),
                    Step::Alive(alive) => rib.set_alive(*alive, &mut RouteChanges::default()),
                }
            }
            rib
        };
        let (before, after) = (rib_of(&before), rib_of(&after));
        let mut table: BTreeMap<_, _> = before.routes().collect();
        let mut numbers: BTreeSet<_> = before.next_hops().collect();
        let changes = before.changes_to(&after);
        for change in &changes.hops {
            let is_change = if change.is_used { numbers.insert(change.hop) } else { numbers.remove(&change.hop) };
            prop_assert!(is_change, "{:?}", change);
        }
        for (prefix, exit) in by_prefix(&changes) {
            let old = match exit {
                Some(exit) => table.insert(prefix, exit),
                None => table.remove(&prefix),
            };
            prop_assert_ne!(old, exit);
        }
        prop_assert_eq!(table, after.routes().collect::<BTreeMap<_, _>>());
        prop_assert_eq!(numbers, after.next_hops().collect::<BTreeSet<_>>());
    }

    /// After the difference is applied, in batches of any size, a feeder has the wanted routes, and the others have theirs.
    #[test]
    fn a_difference_leads_to_the_wanted_routes(before in steps(), after in steps(), max_bytes in 1..200usize) {
        let rib_of = |steps: &[Step]| {
            let mut rib = RouteRib::new(nodes(&[0, 1, 2, 3]));
            for step in steps {
                if let Step::Record(record) = step {
                    rib.apply(&RouteBatch(vec![record.clone()]), &mut RouteChanges::default());
                }
            }
            rib
        };
        let (mut rib, goal) = (rib_of(&before), rib_of(&after));
        let feeder = FeederId(1);
        let wanted = goal.of_feeder(feeder).map(|(prefix, paths)| (prefix, Paths::new(paths).unwrap())).collect();
        let others: Vec<_> = (2..4).map(|other| rib.of_feeder(FeederId(other)).collect::<Vec<_>>()).collect();
        for batch in batches(difference(&rib, feeder, &wanted), max_bytes) {
            prop_assert!(batch.0.len() == 1 || batch.encode().len() <= max_bytes);
            rib.apply(&batch, &mut RouteChanges::default());
        }
        prop_assert_eq!(rib.of_feeder(feeder).collect::<Vec<_>>(), goal.of_feeder(feeder).collect::<Vec<_>>());
        prop_assert_eq!((2..4).map(|other| rib.of_feeder(FeederId(other)).collect::<Vec<_>>()).collect::<Vec<_>>(), others);
        prop_assert!(difference(&rib, feeder, &wanted).is_empty());
    }
}

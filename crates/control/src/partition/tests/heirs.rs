//! Closures in a partition's log, and what two partitions make of them.

use super::*;
use crate::engine::Revision;
use crate::membership::{Placed, Placement, View};
use crate::version::Version;

/// What happens to flows and nodes, as the record of membership has it.
#[derive(Debug, Clone)]
enum Event {
    /// A controller pins a flow to the node, by a view that is so many events old: at another node than all others see.
    Pin(u32, u8, usize),
    /// A controller takes a flow out.
    End(u32),
    Dies(u8),
    Returns(u8),
    Drain(u8, bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0..12_u32, 0..5_u8, 0..6_usize).prop_map(|(flow, node, age)| Event::Pin(flow, node, age)),
        1 => (0..12_u32).prop_map(Event::End),
        2 => (0..5_u8).prop_map(Event::Dies),
        3 => (0..5_u8).prop_map(Event::Returns),
        2 => (0..5_u8, any::<bool>()).prop_map(|(node, drained)| Event::Drain(node, drained)),
    ]
}

/// What two partitions are to log, each in an order of its own: calls by their flow, closures by their node.
struct Calls {
    view: View,
    flows: Vec<(u32, Option<Session>)>,
    closures: Vec<Closure>,
}

/// Plays events on the record of membership, and accepts calls as nodes do.
fn calls(events: &[Event]) -> Calls {
    let node = NodeId::new;
    let mut view = View::empty(PartitionCount::new(PARTITIONS).unwrap());
    view = (0..5).fold(view, |view, number| view.with(node(number), 1, Version::NEWEST));
    let (mut placement, mut views) = (Placement::default(), vec![view.clone()]);
    let mut flows: Vec<(u32, Option<Session>)> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        match *event {
            Event::Pin(flow, to, age) => {
                let seen = &views[views.len().saturating_sub(age + 1)];
                let value = [u64::from(flow) << 32 | at as u64, 7];
                let pin = seen.pins_in(node(to)).map(|epoch| Session { node: node(to), epoch, value });
                flows.extend(pin.map(|session| (flow, Some(session))));
            }
            Event::End(flow) => flows.push((flow, None)),
            Event::Dies(number) => view = view.without(node(number)),
            Event::Returns(number) => view = view.with(node(number), at as u64, Version::NEWEST),
            Event::Drain(number, is_drained) => placement.set_drained(node(number), is_drained),
        }
        let placed = Placed { placement: &placement, revision: Some(Revision(at as u64)) };
        view = view.with_tenures(placed, |_| true).unwrap_or(view);
        views.push(view.clone());
    }
    let closures = view.closures().iter().collect();
    Calls { view, flows, closures }
}

/// A log of all calls and closures in which chance decides what comes first; calls about one flow keep their order, and so do the
/// closures of one node. Some closures come twice.
fn log(calls: &Calls, keys: &[FlowKey], picks: &[prop::sample::Index]) -> Partition {
    let change = |(flow, session): &(u32, Option<Session>)| match session {
        Some(session) => (*flow, Change::Upsert(keys[*flow as usize], *session)),
        None => (*flow, Change::Delete(keys[*flow as usize])),
    };
    let mut left: Vec<(u32, Change)> = calls.flows.iter().map(change).collect();
    let mut closures = calls.closures.clone();
    let mut picks = picks.iter().cycle();
    let mut pick = |from: usize| picks.next().map_or(0, |pick| pick.index(from));
    let mut partition = empty();
    let mut number = 0;
    while !left.is_empty() || !closures.is_empty() {
        let at = pick(left.len() + closures.len());
        let change = if let Some(flow) = left.get(at).map(|(flow, _)| *flow) {
            left.remove(left.iter().position(|(of, _)| *of == flow).unwrap()).1
        } else {
            let of = closures[at - left.len()].node;
            let first = closures.iter().position(|closure| closure.node == of).unwrap();
            let is_logged_again = pick(4) == 0;
            Change::Close(if is_logged_again { closures[first].clone() } else { closures.remove(first) })
        };
        number += 1;
        if pick(8) == 0 {
            partition = Partition::restore(&partition.snapshot(), HASHER).unwrap();
        }
        partition.apply(&entry(number, 1, number, &[change])).unwrap();
    }
    partition
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Flows are pinned by views of any age while nodes die, are drained and come back, and two partitions log all that in orders
    /// of their own: both keys of each flow end at one node, which takes flows.
    #[test]
    fn both_keys_of_a_flow_end_at_one_node(
        events in prop::collection::vec(event(), 1..80),
        one: [prop::sample::Index; 32],
        other: [prop::sample::Index; 32],
    ) {
        let calls = calls(&events);
        let keys = keys(24);
        let (uplink, downlink) = keys[..24].split_at(12);
        let (one, other) = (log(&calls, uplink, &one), log(&calls, downlink, &other));
        for flow in 0..12 {
            let [a, b] = [(&one, uplink[flow]), (&other, downlink[flow])]
                .map(|(partition, key)| partition.session(&key).map(|(session, _)| session));
            prop_assert_eq!(a, b, "flow {}", flow);
            let Some(session) = a else { continue };
            // A node keeps its flows only where no other node could take them.
            let has_heirs = calls.view.alive().any(|node| calls.view.is_open(node));
            prop_assert!(calls.view.is_open(session.node) || !has_heirs, "flow {} is at {}", flow, session.node);
        }
    }
}

#[test]
fn a_pin_that_names_a_closed_tenure_goes_to_the_heir() {
    let keys = keys(2);
    let node = NodeId::new;
    let session = |at, epoch| Session { node: node(at), epoch: Epoch::new(epoch), value: [9 << 32, 1] };
    let closure = |of, epoch, heirs: &[u8]| {
        let heirs = Heirs::new(heirs.iter().copied().map(node)).unwrap();
        Change::Close(Closure { node: node(of), epoch: Epoch::new(epoch), heirs })
    };
    let mut partition = empty();
    let mut number = 0;
    let mut log = |changes: &[Change]| {
        number += 1;
        partition.apply(&entry(number, 1, number, changes)).unwrap();
        [0, 1].map(|at| {
            partition.session(&keys[at]).map(|(session, _)| (session.node.get(), session.epoch.get()))
        })
    };
    let [heir, other] = log(&[
        Change::Upsert(keys[0], session(1, 4)),
        closure(1, 5, &[2, 3, 4]),
        Change::Upsert(keys[1], session(1, 3)),
    ]);
    assert_eq!(heir, other, "pinned before and after, in one entry");
    let (heir, epoch) = heir.unwrap();
    assert!((2..=4).contains(&heir) && epoch == 5);
    // It came back, and was pinned to anew, before the log had said that it was gone once more.
    let [back, _] = log(&[Change::Move(keys[0], session(1, 6))]);
    assert_eq!(back, Some((1, 6)));
    assert_eq!(log(&[closure(1, 5, &[0])])[0], back, "said twice");
    // The heir dies, and its heir, in whichever order that is logged.
    let second = (heir + 1) % 8;
    let chain = log(&[closure(second, 9, &[6]), closure(heir, 7, &[second])]);
    assert_eq!(chain, [back, Some((6, 9))]);
    assert_eq!(log(&[Change::Upsert(keys[0], session(1, 1))])[0], Some((6, 9)), "all the way at once");
    // A node that the table cannot name is no heir.
    assert_eq!(log(&[closure(6, 12, &[9, 7])]), [Some((7, 12)); 2]);
    let snapshot = partition.snapshot();
    assert_eq!(Partition::restore(&snapshot, HASHER).unwrap().snapshot(), snapshot);
}

#[test]
fn a_pin_without_an_epoch_precedes_all_closures() {
    let keys = keys(3);
    let session = Session::new(NodeId::new(1), [7 << 32, 1]);
    let mut partition = empty();
    partition.apply(&entry(1, 1, 1, &[Change::Upsert(keys[0], session)])).unwrap();
    assert_eq!(partition.session(&keys[0]), Some((session, Position(1))));
    let heirs = Heirs::new([NodeId::new(3)]).unwrap();
    let closure = Closure { node: NodeId::new(1), epoch: Epoch::new(2), heirs };
    let changes = [Change::Close(closure), Change::Upsert(keys[1], session)];
    partition.apply(&entry(2, 1, 2, &changes)).unwrap();
    for key in &keys[..2] {
        let (session, _) = partition.session(key).unwrap();
        assert_eq!((session.node, session.epoch), (NodeId::new(3), Epoch::new(2)));
    }
}

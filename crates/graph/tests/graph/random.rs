//! Random graphs: no packet is lost, no flow is reordered, no column is read before it is written.

use crate::elements::{Tray, packet, registry};
use crate::twin::{Kind, Outcome, Place, Plan, name};
use proptest::prelude::*;
use scalebricks_graph::{BuildError, Ledger, Worker};
use scalebricks_io::{Packet, Pool};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Options of a random graph.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each may be drawn or not")]
struct May {
    fork: bool,
    lap: bool,
    columns: bool,
    /// Packets by value.
    carry: bool,
    /// Queues that overflow.
    small_queues: bool,
}

fn kind(may: May) -> impl Strategy<Value = Kind> {
    let capacity = if may.small_queues { 0..20usize } else { 100_000..100_001 };
    let fork = if may.fork { Kind::Fork } else { Kind::Pass };
    let lap = if may.lap { Kind::Lap } else { Kind::Pass };
    let (stamp, check) = if may.columns { (Kind::Stamp, Kind::Check) } else { (Kind::Pass, Kind::Pass) };
    let carry = if may.carry { any::<u8>().prop_map(Kind::Carry).boxed() } else { Just(Kind::Pass).boxed() };
    prop_oneof![
        3 => carry,
        2 => Just(Kind::Pass),
        1 => (2..9u8).prop_map(Kind::Toss),
        3 => any::<u8>().prop_map(Kind::Split),
        1 => (capacity, 1..9usize).prop_map(|(capacity, a_turn)| Kind::Queue(capacity, a_turn)),
        1 => Just(fork),
        2 => Just(lap),
        1 => Just(stamp),
        1 => Just(check),
    ]
}

/// A chain of elements with three sinks after the last. Further outputs lead to any later element, and those of `Lap`
/// to an earlier one.
fn plans(may: May, forks: usize) -> impl Strategy<Value = Plan> {
    let place = (kind(may), prop::collection::vec(any::<prop::sample::Index>(), 3));
    prop::collection::vec(place, 0..24).prop_map(move |drawn| {
        let mut forks_left = forks;
        let last = drawn.len();
        let mut places: Vec<Place> = Vec::new();
        for (at, (mut kind, picks)) in drawn.into_iter().enumerate() {
            if kind == Kind::Fork {
                kind = if forks_left > 0 { kind } else { Kind::Pass };
                forks_left = forks_left.saturating_sub(1);
            }
            let later = |pick: &prop::sample::Index| at + 1 + pick.index(last + 3 - at);
            let outputs = match kind {
                Kind::Lap => vec![at + 1, picks[0].index(at + 1)],
                Kind::Split(_) | Kind::Carry(_) => {
                    std::iter::once(at + 1).chain(picks.iter().map(later)).collect()
                }
                Kind::Fork => vec![at + 1, later(&picks[0])],
                _ => vec![at + 1],
            };
            places.push(Place { kind, outputs });
        }
        places.push(Place { kind: Kind::Split(5), outputs: vec![last + 1, last + 2, last + 3] });
        places.extend((0..3).map(|_| Place { kind: Kind::Sink, outputs: vec![] }));
        Plan { places, start: 0 }
    })
}

/// Packets of a few flows; all of a flow have the same laps.
fn packets(most: usize, laps: u8) -> impl Strategy<Value = Vec<Vec<u8>>> {
    (prop::collection::vec(0..12u8, 1..most), prop::collection::vec(0..=laps, 12)).prop_map(
        |(flows, laps)| {
            let packet = |(sequence, flow): (u16, u8)| packet(flow, laps[usize::from(flow)], sequence);
            (0..).zip(flows).map(packet).collect()
        },
    )
}

struct Ran {
    outcome: Outcome,
    ledger: Ledger,
    held: usize,
    backs: HashSet<(usize, usize)>,
}

/// Runs packets through the graph until none moves, for a limited number of turns.
fn run(
    plan: &Plan,
    packets: &[Vec<u8>],
    burst: usize,
    buffers: usize,
    turns: usize,
) -> Result<Ran, Vec<BuildError>> {
    let pool = Pool::new(buffers, 200).unwrap();
    let feed: Tray = Tray::default();
    feed.lock().unwrap().extend(packets.iter().cloned());
    let sinks = (0..plan.places.len()).filter(|&at| plan.places[at].kind == Kind::Sink);
    let trays: HashMap<usize, Tray> = sinks.map(|at| (at, Tray::default())).collect();
    let mut ledger = Ledger::new();
    let graph = plan.builder(&feed, &pool, burst, &trays).build(&registry(), &mut ledger).map_err(|e| e.0)?;
    let place = |name: &str| name[1..].parse::<usize>().ok();
    let backs = graph.edges().iter().filter(|edge| edge.is_back);
    let backs = backs.filter_map(|edge| Some((place(&edge.from)?, edge.output))).collect();
    let mut worker: Worker<Packet> = Worker::new(graph, Box::new(pool), ());
    for turn in 0..turns {
        if worker.turn(Duration::from_micros(turn as u64)) == 0 {
            break;
        }
    }
    let mut outcome = Outcome::default();
    for (at, tray) in &trays {
        tray.lock().unwrap().iter().for_each(|packet| outcome.sink(*at, packet));
    }
    for counted in ledger.snapshot() {
        for (spec, count) in counted.drops().filter(|(_, count)| *count > 0) {
            outcome.dropped.insert((counted.element.to_string(), spec.name), count);
        }
    }
    Ok(Ran { outcome, ledger, held: worker.graph().held(), backs })
}

fn total(ledger: &Ledger, counter: &str) -> u64 {
    ledger.snapshot().iter().filter_map(|counted| counted.get(counter)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn packets_in_and_copies_are_out_dropped_or_held(
        plan in plans(May { fork: true, lap: true, columns: false, carry: true, small_queues: true }, 9),
        packets in packets(300, 100),
        buffers in 40..400usize,
        burst in 1..128usize,
        turns in 1..60usize,
    ) {
        let ran = run(&plan, &packets, burst, buffers, turns).unwrap();
        let (into, copies) = (total(&ran.ledger, "fed"), total(&ran.ledger, "copies"));
        let out: usize = ran.outcome.sunk.values().map(Vec::len).sum();
        let dropped: u64 = ran.outcome.dropped.values().sum();
        prop_assert_eq!(into + copies, out as u64 + dropped + ran.held as u64);
        prop_assert_eq!(total(&ran.ledger, "taken"), out as u64);
        let errors = ["slot_lost", "unworked", "unconnected"];
        prop_assert!(!ran.outcome.dropped.keys().any(|(_, reason)| errors.contains(reason)));
    }

    #[test]
    fn cycles_end_as_one_packet_at_a_time(
        plan in plans(May { fork: false, lap: true, columns: false, carry: false, small_queues: false }, 0),
        packets in packets(200, 100),
        burst in 1..128usize,
    ) {
        let ran = run(&plan, &packets, burst, 500, 100_000).unwrap();
        prop_assert_eq!(ran.held, 0);
        prop_assert_eq!(&ran.outcome, &plan.interpret(&packets, &ran.backs));
    }

    #[test]
    fn copies_end_as_one_packet_at_a_time(
        plan in plans(May { fork: true, lap: false, columns: false, carry: true, small_queues: false }, 3),
        packets in packets(200, 0),
        burst in 1..9usize,
    ) {
        let ran = run(&plan, &packets, burst, 2_000, 100_000).unwrap();
        prop_assert_eq!((ran.held, total(&ran.ledger, "failed")), (0, 0));
        prop_assert_eq!(&ran.outcome, &plan.interpret(&packets, &ran.backs));
    }

    #[test]
    fn a_column_is_refused_if_some_way_leads_past_its_writers(
        plan in plans(May { fork: true, lap: true, columns: true, carry: true, small_queues: true }, 2),
        packets in packets(60, 5),
    ) {
        let may_read_unwritten = plan.reads_unlabelled();
        match run(&plan, &packets, 32, 300, 100) {
            Ok(ran) => {
                prop_assert!(!may_read_unwritten);
                prop_assert_eq!(total(&ran.ledger, "wrong"), 0);
            }
            Err(errors) => {
                prop_assert!(may_read_unwritten, "{:?}", errors);
                for error in errors {
                    let BuildError::Column { element, column, from } = &error else { panic!("{error}") };
                    let at: usize = element[1..].parse().unwrap();
                    prop_assert_eq!(plan.places[at].kind, Kind::Check);
                    prop_assert_eq!((&element[..], *column), (&name(at)[..], "label"));
                    prop_assert!(!from.is_empty());
                }
            }
        }
    }
}

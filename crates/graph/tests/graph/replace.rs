//! Replaces the graph while packets flow.

use crate::elements::{Feed, Sink, Tray, packet, registry, sequence, toss};
use crate::queues::{Hold, release};
use scalebricks_graph::{Builder, Graph, Ledger, Worker};
use scalebricks_io::{Packet, Pool};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(Clone)]
struct Setup {
    feed: Tray,
    sink: Tray,
    pool: Pool,
}

fn setup() -> Setup {
    Setup { feed: Tray::default(), sink: Tray::default(), pool: Pool::new(2_000, 100).unwrap() }
}

impl Setup {
    /// One of many graphs: with or without an element before the queue, with queues of other names, and with more
    /// elements before them, which changes all numbers.
    fn graph(&self, variant: usize, queues: &[&str], ledger: &mut Ledger) -> Graph<Packet> {
        let mut builder = Builder::new();
        let mut row = vec!["feed".to_owned()];
        for at in 0..variant % 4 {
            row.push(format!("pass{at}"));
            builder.declare(
                &format!("pass{at}"),
                if at % 2 == 0 { "Pass" } else { "Toss" },
                if at % 2 == 0 { &[] } else { &["255"] },
            );
        }
        for queue in queues {
            let release_name = format!("release-{queue}");
            builder.add(queue, Hold::new(100_000, false)).add(&release_name, release(3 + variant % 5));
            row.extend([(*queue).to_owned(), release_name]);
        }
        row.push("sink".to_owned());
        builder.add("sink", Sink { tray: self.sink.clone() });
        builder.add("feed", Feed { tray: self.feed.clone(), pool: self.pool.clone(), burst: 7 });
        let row: Vec<&str> = row.iter().map(String::as_str).collect();
        builder.chain(&row);
        builder.build(&registry(), ledger).unwrap()
    }
}

fn sum(ledger: &Ledger, counter: &str) -> u64 {
    ledger.snapshot().iter().filter_map(|counted| counted.get(counter)).sum()
}

#[test]
fn a_thousand_graphs_after_each_other_lose_and_reorder_nothing() {
    const PACKETS: u16 = 60_000;
    let (setup, mut ledger) = (setup(), Ledger::new());
    let mut worker: Worker<Packet> =
        Worker::new(setup.graph(0, &["q", "p"], &mut ledger), Box::new(setup.pool.clone()), ());
    let (remote, stop) = (worker.remote(), AtomicBool::new(false));
    let (mut held_at_a_swap, mut fed) = (0, 0u16);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let start = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                worker.turn(start.elapsed());
            }
            worker
        });
        for variant in 1..=1_000 {
            let more = fed..(fed + PACKETS / 1_000);
            fed = more.end;
            setup.feed.lock().unwrap().extend(more.map(|at| packet(1, 0, at)));
            let graph = Box::new(setup.graph(variant, &["q", "p"], &mut ledger));
            let held = remote.ask(|graph| graph.held()).unwrap();
            let old = remote.replace(graph).unwrap().recv().unwrap();
            held_at_a_swap += usize::from(held.recv().unwrap() > 0);
            assert_eq!(old.held(), 0);
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        while setup.sink.lock().unwrap().len() < usize::from(PACKETS) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });
    let sunk: Vec<u32> = setup.sink.lock().unwrap().iter().map(|packet| sequence(packet)).collect();
    assert_eq!(sunk, (0..u32::from(PACKETS)).collect::<Vec<_>>());
    assert!(held_at_a_swap > 0, "no queue held anything when its graph was replaced");
    assert_eq!((sum(&ledger, "fed"), sum(&ledger, "taken")), (u64::from(PACKETS), u64::from(PACKETS)));
    assert_eq!(sum(&ledger, "graph_replaced"), 0);
}

#[test]
fn packets_of_a_queue_without_successor_are_dropped_by_name() {
    let (setup, mut ledger) = (setup(), Ledger::new());
    let mut worker: Worker<Packet> =
        Worker::new(setup.graph(0, &["q", "p"], &mut ledger), Box::new(setup.pool.clone()), ());
    setup.feed.lock().unwrap().extend((0..70).map(|at| packet(1, 0, at)));
    (0..5).for_each(|_| {
        worker.turn(Duration::ZERO);
    });
    let before = worker.graph().held();
    assert!(before > 10);
    let old = worker.replace(Box::new(setup.graph(1, &["p"], &mut ledger)));
    let lost = sum(&ledger, "graph_replaced");
    assert!(lost > 0);
    assert_eq!((old.held(), worker.graph().held()), (0, before - lost as usize));
    (0..100).for_each(|_| {
        worker.turn(Duration::ZERO);
    });
    assert_eq!(sum(&ledger, "fed"), sum(&ledger, "taken") + lost);
}

#[test]
fn a_name_of_another_class_inherits_nothing() {
    let (setup, mut ledger) = (setup(), Ledger::new());
    let mut worker: Worker<Packet> =
        Worker::new(setup.graph(0, &["q"], &mut ledger), Box::new(setup.pool.clone()), ());
    setup.feed.lock().unwrap().extend((0..21).map(|at| packet(1, 0, at)));
    (0..3).for_each(|_| {
        worker.turn(Duration::ZERO);
    });
    let held = worker.graph().held() as u64;
    let mut builder = Builder::new();
    builder.add("sink", Sink { tray: setup.sink.clone() }).add("q", toss(200));
    builder
        .add("feed", Feed { tray: setup.feed.clone(), pool: setup.pool.clone(), burst: 7 })
        .chain(&["feed", "q", "sink"]);
    drop(worker.replace(Box::new(builder.build(&registry(), &mut ledger).unwrap())));
    assert_eq!(sum(&ledger, "graph_replaced"), held);
    assert_eq!(worker.turn(Duration::ZERO), 0);
}

#[test]
fn pressure_goes_on_in_the_new_graph() {
    let (setup, mut ledger) = (setup(), Ledger::new());
    let graph = |ledger: &mut Ledger, more: bool| {
        let mut builder = Builder::new();
        builder.add("never", release(0)).add("sink", Sink { tray: setup.sink.clone() });
        if more {
            builder
                .add("other", Hold::new(1, true))
                .add("r", release(0))
                .add("end", Sink { tray: setup.sink.clone() });
            builder.add("idle", Feed { tray: Tray::default(), pool: setup.pool.clone(), burst: 1 });
            builder.chain(&["idle", "other", "r", "end"]);
        }
        builder.add("q", Hold::new(5, true));
        builder.add("feed", Feed { tray: setup.feed.clone(), pool: setup.pool.clone(), burst: 5 });
        builder.chain(&["feed", "q", "never", "sink"]);
        builder.build(&registry(), ledger)
    };
    let first = graph(&mut ledger, false).unwrap();
    let mut worker: Worker<Packet> = Worker::new(first, Box::new(setup.pool.clone()), ());
    setup.feed.lock().unwrap().extend((0..50).map(|at| packet(1, 0, at)));
    for more in [false, true, true, false] {
        (0..4).for_each(|_| {
            worker.turn(Duration::ZERO);
        });
        drop(worker.replace(Box::new(graph(&mut ledger, more).unwrap())));
    }
    assert_eq!((sum(&ledger, "fed"), sum(&ledger, "hold_full")), (5, 0));
}

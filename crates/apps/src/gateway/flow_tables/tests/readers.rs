//! Readers beside a writer see the old or the new value, never a mix, and never a missing key.

use super::*;
use scalebricks_graph::Mark;
use std::thread;

/// Flows that stay, and are set repeatedly.
const STAY: u32 = 64;

/// Keys that are added in one round and removed in the next.
const COME: u32 = 500;

fn of(flow: u32) -> [FlowKey; 3] {
    [short_key(flow), long_key(flow), FlowKey::teid(Teid::new(flow))]
}

/// Looks up keys until stopped; returns how often it found a flow.
fn read(tables: &NodeTables, mark: &mut Mark, stop: &AtomicBool) -> usize {
    let mut last = vec![[0; 3]; STAY as usize];
    let mut found = 0;
    while !stop.load(Ordering::Relaxed) {
        mark.pass();
        for flow in 0..STAY + COME {
            for (at, key) in of(flow).into_iter().enumerate() {
                let Some(seen) = look(tables, key) else {
                    assert!(flow >= STAY, "a flow that stays is always there");
                    continue;
                };
                let n = seen.teid.get();
                assert_eq!(seen, state(flow, n).at(NodeId::new(2), seen.index), "a mix");
                if let Some(last) = last.get_mut(flow as usize) {
                    assert!(n >= last[at], "a value from before the last one seen");
                    last[at] = n;
                }
                found += 1;
            }
        }
    }
    found
}

#[test]
fn readers_see_old_or_new_while_keys_come_and_go() {
    let mut tables = tables(2, 2, 0);
    let set = |tables: &mut FlowTables, flow, n| {
        for key in of(flow) {
            tables.set_logged(&key, state(flow, n).encode()).unwrap();
        }
    };
    (0..STAY).for_each(|flow| set(&mut tables, flow, 0));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopping = Stop(&stop);
        let threads: Vec<_> = (0..2)
            .map(|worker| {
                let (node, mut mark, stop) =
                    (tables.node_tables(worker), tables.mark(worker).unwrap(), &stop);
                scope.spawn(move || read(&node, &mut mark, stop))
            })
            .collect();
        for round in 1..200 {
            for flow in STAY..STAY + COME {
                if round % 2 == 1 {
                    set(&mut tables, flow, round);
                } else {
                    for key in of(flow) {
                        tables.remove(&key);
                    }
                }
                set(&mut tables, flow % STAY, round * COME + flow);
            }
            tables.expire(Duration::from_secs(u64::from(round)));
        }
        drop(stopping);
        for thread in threads {
            assert!(thread.join().unwrap() > 0);
        }
    });
}

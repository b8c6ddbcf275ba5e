//! A node whose FIB is full: keys that find no room are kept aside, and nothing waits for them.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use crate::common;

use common::{HASHER, Memory, node};
use scalebricks_control::distribution::{FibPiece, Message, Owner, Replica};
use scalebricks_control::engine::{Batch, BatchId, Entry, WriterId};
use scalebricks_control::partition::Partition;
use scalebricks_control::record::{Change, Session, encode};
use scalebricks_tables::compact::{Params, Structure};
use scalebricks_types::{FlowKey, PartitionCount, PartitionId, Position, Teid};
use std::time::Duration;

const MINE: PartitionId = PartitionId(0);

fn key(number: u32) -> FlowKey {
    FlowKey::teid(Teid::new(number + 1))
}

fn upsert(number: u32, value: u64) -> Change {
    Change::Upsert(key(number), Session::new(node(0), [value, 0]))
}

/// A partition's owner and the one node there is.
struct Pair {
    owner: Owner,
    replica: Replica<Memory>,
    now: Duration,
}

impl Pair {
    fn new(capacity: usize) -> Self {
        let params = Params::for_keys(Structure::SetSep, 4_000, 3, PartitionCount::ONE).unwrap();
        let mut owner = Owner::new(Partition::new(MINE, params, HASHER));
        owner.joined(node(0), 1);
        let memory = Memory { capacity, ..Memory::new(params) };
        let replica = Replica::new(memory, PartitionCount::ONE, Duration::ZERO, 1);
        Self { owner, replica, now: Duration::from_secs(1) }
    }

    fn log(&mut self, changes: &[Change]) {
        let position = Position(self.owner.partition().position().0 + 1);
        let id = BatchId { writer: WriterId(1), number: position.0 };
        let batch = Batch { id, payload: encode(changes).unwrap().into() };
        let _ = self.owner.entry(&Entry { position, batch }).unwrap();
        for _ in 0..8 {
            self.now += Duration::from_millis(250);
            self.owner.report(node(0), self.replica.report(MINE).unwrap());
            for (_, message) in self.owner.messages(self.now) {
                let _ = self.replica.receive(&message, self.now).unwrap();
            }
            self.replica.poll(self.now);
        }
    }

    fn held(&self) -> usize {
        self.replica.tables().fib.len()
    }
}

#[test]
fn keys_without_room_delay_no_others() {
    let mut pair = Pair::new(10);
    pair.log(&(0..8).map(|number| upsert(number, 1)).collect::<Vec<_>>());
    pair.log(&(8..14).map(|number| upsert(number, 1)).collect::<Vec<_>>());
    assert_eq!((pair.held(), pair.replica.shedding()), (10, 4));
    assert_eq!(pair.owner.settled(), Position(2), "the bits are out");
    assert_eq!(pair.owner.fib_room(node(0)), Some(0));

    // What is there can change, and go, and what comes later comes.
    pair.log(&[upsert(0, 2), Change::Delete(key(1)), Change::Delete(key(2))]);
    assert_eq!(pair.replica.tables().fib[&key(0)], [2, 0]);
    assert_eq!(pair.owner.settled(), Position(3));
    // Those that left made room for two of the others.
    assert_eq!((pair.held(), pair.replica.shedding()), (10, 2));

    // Keys that were shed go as any other.
    let gone: Vec<Change> = (3..14).map(|number| Change::Delete(key(number))).collect();
    pair.log(&gone);
    assert_eq!((pair.held(), pair.replica.shedding()), (1, 0));
    assert!(pair.owner.fib_room(node(0)) > Some(0));
    assert_eq!(pair.replica.sheds(), (4, 0));
}

#[test]
fn a_whole_fib_replaces_the_list_of_keys_without_room() {
    let mut pair = Pair::new(2);
    pair.log(&(0..5).map(|number| upsert(number, 1)).collect::<Vec<_>>());
    assert_eq!((pair.held(), pair.replica.shedding()), (2, 3));
    let kept: Vec<FlowKey> = pair.replica.tables().fib.keys().copied().collect();
    let entries: Vec<_> = kept.iter().map(|key| (*key, [7, 0])).collect();
    let (position, keys) = (Position(9), entries.len() as u64);
    let whole = FibPiece { partition: MINE, position, keys, first: 0, wrong: 0, entries };
    let whole = Message::FibPiece(whole);
    assert!(pair.replica.receive(&whole, pair.now).unwrap());
    assert_eq!((pair.held(), pair.replica.shedding()), (2, 0));
    assert!(kept.iter().all(|key| pair.replica.tables().fib[key] == [7, 0]));
}

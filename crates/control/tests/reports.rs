//! A node's reports count even if they arrive before the owner knows that it owns the partition, or knows the sender.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{HASHER, Memory};
use scalebricks_control::agent::{Action, Agent, Packet};
use scalebricks_control::distribution::{Message, Report};
use scalebricks_control::engine::Revision;
use scalebricks_control::membership::View;
use scalebricks_control::partition::Partition;
use scalebricks_control::version::Version;
use scalebricks_tables::compact::{Params, Structure};
use scalebricks_types::{NodeId, PartitionCount, PartitionId, Position};
use std::collections::BTreeSet;
use std::time::Duration;

const OTHER: NodeId = NodeId::new(1);

/// The other node's life.
const LIFE: u64 = 7;

fn partitions() -> PartitionCount {
    PartitionCount::new(4).unwrap()
}

fn params() -> Params {
    Params::for_keys(Structure::SetSep, 1_000, 2, partitions()).unwrap()
}

/// A node that has entered the record, and the record.
fn alone(now: Duration) -> (Agent<Memory>, View) {
    let memory = Memory::new(params());
    let grace = Duration::from_millis(20);
    let mut agent =
        Agent::new(NodeId::new(0), memory, partitions(), View::empty(partitions()), None, grace, now);
    let view = agent.poll(now).into_iter().find_map(|action| match action {
        Action::Propose(_, view) => Some(view),
        _ => None,
    });
    let view = view.unwrap();
    agent.viewed(Revision(1), view.clone(), now);
    (agent, view)
}

fn report() -> Vec<Report> {
    let of = |at| Report::new(PartitionId(at), LIFE);
    (0..4).map(of).collect()
}

/// Loads the requested partitions, and returns the partitions of which the other node gets a report at once.
fn told(agent: &mut Agent<Memory>, now: Duration) -> BTreeSet<PartitionId> {
    let mut heard = BTreeSet::new();
    for _ in 0..2 {
        for action in agent.poll(now) {
            match action {
                // It may have gone to another meanwhile.
                Action::Load(partition) => {
                    let _is_wanted = agent.restored(Partition::new(partition, params(), HASHER), Position(0));
                }
                Action::Send(OTHER, Packet::Message(Message::Target(target))) => {
                    heard.insert(target.partition);
                }
                _ => {}
            }
        }
    }
    heard
}

#[test]
fn a_report_counts_that_came_before_the_partition_was_loaded() {
    let now = Duration::from_secs(1);
    let (mut agent, view) = alone(now);
    agent.viewed(Revision(2), view.with(OTHER, LIFE, Version::NEWEST), now);
    agent.packet(OTHER, Packet::Reports(report()), now);
    let owned: BTreeSet<PartitionId> = agent.owned().collect();
    assert_eq!(owned.len(), 2, "half of four");
    assert_eq!(told(&mut agent, now), owned);
}

#[test]
fn a_report_counts_that_came_before_the_word_that_the_node_is_alive() {
    let now = Duration::from_secs(1);
    let (mut agent, view) = alone(now);
    assert_eq!(told(&mut agent, now), BTreeSet::new(), "there is no other node");
    agent.packet(OTHER, Packet::Reports(report()), now);
    assert_eq!(told(&mut agent, now), BTreeSet::new(), "it is not alive yet");
    agent.viewed(Revision(2), view.with(OTHER, LIFE, Version::NEWEST), now);
    assert_eq!(told(&mut agent, now), agent.owned().collect());
}

#[test]
fn a_report_of_another_life_does_not_count() {
    let now = Duration::from_secs(1);
    let (mut agent, view) = alone(now);
    agent.packet(OTHER, Packet::Reports(report()), now);
    agent.viewed(Revision(2), view.with(OTHER, LIFE + 1, Version::NEWEST), now);
    assert_eq!(told(&mut agent, now), BTreeSet::new());
}

//! What is demanded of a world.

use crate::cluster::common::node;
use crate::cluster::world::{FLOWS, Log, REPLAY, World, all_partitions, keys_of_flow};
use rand::seq::IndexedRandom;
use scalebricks_control::membership::Placed;
use scalebricks_tables::FibValue;
use scalebricks_types::{FlowKey, NodeId};
use std::collections::HashMap;

impl World {
    /// The ingress nodes that are judged in this step: all, or a random choice.
    fn members_judged(&mut self, members: &[usize]) -> Vec<usize> {
        if self.judges >= members.len() {
            return members.to_vec();
        }
        let judges = self.judges;
        members.choose_multiple(&mut self.rng, judges).copied().collect()
    }

    pub fn check(&mut self) {
        if self.is_lost {
            return;
        }
        let members = self.members();
        let judged = self.members_judged(&members);
        for &ingress in &judged {
            for partition in all_partitions() {
                let log = &self.logs[usize::from(partition.0)];
                let replica = self.nodes[ingress].as_ref().unwrap().agent.replica();
                let at = replica.report(partition).unwrap().gpt.0 as usize;
                let is_told = |hash: &u64| log.since.get(hash).is_some_and(|&since| since <= at);
                for (_, (key, _)) in log.history[at].iter().filter(|(hash, _)| is_told(hash)) {
                    let handling = replica.tables().named(key);
                    self.judged += 1;
                    if self.has(handling, key) || !members.contains(&handling) {
                        continue;
                    }
                    let then = self.tables(handling).map_or(handling, |tables| tables.named(key));
                    if then != handling && (!members.contains(&then) || self.has(then, key)) {
                        self.sent_on += 1;
                        continue;
                    }
                    let report = |number: usize| {
                        self.nodes[number].as_ref().map(|process| process.agent.replica().report(partition))
                    };
                    panic!(
                        "at {:?}: {ingress} ({:?}) sends {key:?} to {handling} ({:?}), which has it not and names {then}",
                        self.now,
                        report(ingress),
                        report(handling),
                    );
                }
            }
        }
    }

    pub fn all_agree(&self) -> bool {
        let members = self.members();
        let all_up =
            self.nodes.iter().flatten().count() == members.len() && self.alive().len() == members.len();
        let dead: Vec<NodeId> =
            (0..self.nodes.len()).filter(|number| !members.contains(number)).map(node).collect();
        let orphans = |log: &Log| dead.iter().map(|node| log.truth.keys_of(*node)).sum::<usize>();
        all_up
            && self.is_written()
            && self.tenures_are_settled()
            && self.shape().next.is_none()
            && self.logs.iter().all(|log| orphans(log) == 0)
            && self.nodes.iter().flatten().all(|process| {
                let replica = process.agent.replica();
                replica.leaving() == 0
                    && all_partitions().all(|partition| {
                        let truth = &self.logs[usize::from(partition.0)].truth;
                        let report = replica.report(partition).unwrap();
                        // A whole FIB stands for all entries, not only for those that concern it.
                        let fib = truth.fib_position(process.agent.node())..=truth.position();
                        report.gpt == truth.gpt_position() && fib.contains(&report.fib)
                    })
            })
    }

    /// All is over: everybody has the same bits, and each FIB what is pinned to it, no more and no less.
    pub fn settle(&mut self) {
        self.is_calm = true;
        for _ in 0..6_000 {
            self.step();
            if self.all_agree() {
                break;
            }
        }
        assert!(self.all_agree(), "no rest at {:?}, members {:?}", self.now, self.members());
        let members = self.members();
        let bits = self.tables(members[0]).unwrap().bits();
        let sessions = || self.logs.iter().flat_map(|log| log.truth.sessions());
        for &number in &members {
            assert_eq!(self.tables(number).unwrap().bits(), bits, "node {number}");
            let own = sessions().filter(|(_, session)| session.node == node(number));
            let wanted: HashMap<FlowKey, FibValue> = own.map(|(key, session)| (key, session.value)).collect();
            assert_eq!(self.tables(number).unwrap().fib, wanted, "node {number}");
        }
        for log in &self.logs {
            // Some come while a snapshot is stored, or while a partition has no owner.
            let (replay, limit_bytes) = (log.replay(), log.limit_bytes());
            assert!(replay.entries < 2 * REPLAY.entries && replay.bytes < 2 * limit_bytes, "{replay:?}");
        }
        self.both_keys_at_one_node();
        // No keys are lost with a node that died.
        assert!(sessions().all(|(_, session)| members.contains(&usize::from(session.node.get()))));
    }

    /// Whether the view decides for all nodes whether they take flows, and the logs have its closures.
    fn tenures_are_settled(&self) -> bool {
        let Some((_, view)) = &self.record else { return false };
        let placed = Placed { placement: &self.placement.1, revision: Some(self.placement.0) };
        let is_agreed = view.with_tenures(placed, |node| self.shape().can_name(node)).is_none();
        let has = |log: &Log| {
            view.closures()
                .iter()
                .all(|closure| log.truth.closures().newest_of(closure.node) >= closure.epoch)
        };
        is_agreed && self.logs.iter().all(has)
    }

    /// The directions of each flow are handled at one node.
    fn both_keys_at_one_node(&self) {
        let at = |key: &FlowKey| {
            let found = self.logs.iter().find_map(|log| log.truth.session(key));
            found.map(|(session, _)| (session.node, session.value))
        };
        let flows: Vec<_> = (1..=FLOWS)
            .filter(|flow| !self.torn.contains(flow))
            .map(|flow| keys_of_flow(flow).map(|key| at(&key)))
            .collect();
        let split: Vec<_> = flows.iter().filter(|[one, other]| one != other).collect();
        assert!(split.is_empty(), "{} of {} flows are split: {split:?}", split.len(), flows.len());
        for drained in
            self.placement.1.drained().filter(|node| self.members().contains(&usize::from(node.get())))
        {
            assert_eq!(self.keys_of(drained), 0, "{drained} is drained");
        }
        let Some((_, view)) = &self.record else { return };
        for suspended in view.alive().filter(|node| !view.is_able(*node)) {
            assert_eq!(self.keys_of(suspended), 0, "{suspended} is suspended");
        }
    }
}

//! The driver of a node: the records and logs that it reads, and its actions.

use crate::cluster::common::{HASHER, node};
use crate::cluster::world::{Sent, World};
use rand::Rng;
use scalebricks_control::agent::Action;
use scalebricks_control::codec::Encoded;
use scalebricks_control::engine::Revision;
use scalebricks_control::partition::Partition;
use scalebricks_control::record::Change;
use scalebricks_types::PartitionId;
use std::time::Duration;

impl World {
    /// One turn of a process and of what drives it.
    pub fn turn(&mut self, number: usize) {
        let now = self.now;
        let Some(process) = self.nodes[number].as_mut() else { return };
        if process.paused_until.is_some_and(|until| now < until) {
            return;
        }
        process.paused_until = None;
        if process.cut_until.is_some_and(|until| now >= until) {
            process.cut_until = None;
        }
        // The record is read with some delay.
        if let Some((revision, view)) = self.record.clone()
            && self.rng.random_bool(0.5)
        {
            process.agent.viewed(revision, view, now);
        }
        if self.rng.random_bool(0.5) {
            process.agent.shaped(self.shape.0, self.shape.1);
        }
        if self.rng.random_bool(0.1) {
            process.placement = self.placement.1.clone();
            process.agent.set_placement(Some(self.placement.0), process.placement.clone());
        }
        for partition in process.follows.clone() {
            if !self.is_calm && !self.rng.random_bool(0.7) {
                continue;
            }
            let log = &self.logs[usize::from(partition.0)];
            let at =
                process.agent.partition(partition).map_or(0, |partition| partition.position().0 as usize);
            let Some(entries) = log.entries.get(at..) else {
                process.agent.log_lost(partition, log.last()); // the engine says that the reader is ahead
                continue;
            };
            for entry in entries.iter().take(5) {
                let _ = process.agent.entry(partition, entry).unwrap();
            }
        }
        let actions = process.agent.poll(now);
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut process.appends).into_iter().partition(|(at, ..)| *at <= now);
        process.appends = later;
        let (stored, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut process.keeps).into_iter().partition(|(at, ..)| *at <= now);
        process.keeps = later;
        for (_, partition, snapshot) in stored {
            // Now and then the engine cannot store one. One of a log that was replaced meanwhile is not stored either.
            let log = &mut self.logs[usize::from(partition.0)];
            let is_stored = !self.rng.random_bool(0.1) && snapshot.position <= log.last();
            if is_stored && log.snapshot.as_ref().is_none_or(|kept| kept.position < snapshot.position) {
                log.snapshot = Some(snapshot);
            }
            self.nodes[number].as_mut().unwrap().agent.kept(partition, is_stored);
        }
        for (_, partition, changes) in due {
            self.append(partition, &changes);
            let Some(process) = &mut self.nodes[number] else { continue };
            match &changes[0] {
                Change::Close(_) => process.agent.closed(partition),
                _ => process.agent.reshaped(partition),
            }
        }
        for action in actions {
            self.act(number, action);
        }
        self.log_calls(number);
        self.ask_owners(number);
    }

    fn act(&mut self, number: usize, action: Action) {
        match action {
            Action::Beat(beat) => {
                for other in (0..self.nodes.len()).filter(|other| *other != number) {
                    self.send(number, other, || Sent::Beat(beat));
                }
            }
            Action::Listen(listens) => self.nodes[number].as_mut().unwrap().listens = listens,
            Action::Pulse => {
                let now = self.now;
                let listening = self.nodes.iter_mut().flatten().filter(|process| process.listens);
                listening.for_each(|process| process.agent.pulsed(node(number), now));
            }
            Action::Propose(expected, view) => {
                if self.record.as_ref().map(|(revision, _)| *revision) == expected {
                    let revision = Revision(expected.map_or(1, |revision| revision.0 + 1));
                    self.record = Some((revision, view));
                }
            }
            Action::Send(to, packet) => {
                let bytes = packet.encode();
                self.send(number, usize::from(to.get()), || Sent::Packet(bytes.clone()));
            }
            Action::Load(partition) => {
                let log = &self.logs[usize::from(partition.0)];
                let restored = match &log.snapshot {
                    Some(snapshot) => Partition::restore(&snapshot.bytes, HASHER).unwrap(),
                    None => Partition::new(partition, self.shape.1.first, HASHER),
                };
                let last = log.last();
                let process = self.nodes[number].as_mut().unwrap();
                if process.agent.restored(restored, last) {
                    process.follows.insert(partition);
                }
            }
            Action::Unload(partition) => {
                self.nodes[number].as_mut().unwrap().follows.remove(&partition);
            }
            Action::Close(partition, closures) => {
                self.append_later(number, partition, closures.into_iter().map(Change::Close).collect());
            }
            Action::Reshape(partition, to) => {
                self.append_later(number, partition, vec![Change::Reshape(to)]);
            }
            Action::ProposeShape(expected, shape) => {
                if self.shape.0 == expected {
                    self.shape = (Revision(expected.0 + 1), shape);
                }
            }
            Action::Append(partition, calls) => self.append_later_calls(number, partition, calls),
            Action::Answer(to, partition, answers) => self.answers(number, to, partition, answers),
            Action::Keep(partition, snapshot) => {
                let at = self.now + Duration::from_millis(self.rng.random_range(0..200));
                self.nodes[number].as_mut().unwrap().keeps.push((at, partition, snapshot));
            }
            Action::Confirm(partition, reported) => {
                let last = self.logs[usize::from(partition.0)].last();
                self.nodes[number].as_mut().unwrap().agent.log_ends(partition, reported, last);
            }
        }
    }

    fn append_later(&mut self, number: usize, partition: PartitionId, changes: Vec<Change>) {
        let at = self.now + Duration::from_millis(self.rng.random_range(0..200));
        self.nodes[number].as_mut().unwrap().appends.push((at, partition, changes));
    }
}

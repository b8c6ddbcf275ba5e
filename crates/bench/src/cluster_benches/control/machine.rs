//! A partition or its owner, fed with entries of a log, and a replica that follows it.

use super::flows::{Flow, HASHER, brought, node};
use scalebricks_bench::BenchError;
use scalebricks_control::agent::Packet;
use scalebricks_control::codec::Encoded;
use scalebricks_control::distribution::{Message, Owner, Part, Report};
use scalebricks_control::engine::{Batch, BatchId, Entry, WriterId};
use scalebricks_control::partition::Partition;
use scalebricks_control::record::{Change, encode};
use scalebricks_tables::compact::{Params, Reader, Structure, Table};
use scalebricks_types::{Delta, PartitionCount, PartitionId, Position};
use std::collections::BTreeMap;
use std::time::Duration;

/// Changes of an entry that fills a partition.
const FILLING: usize = 4_096;

/// Which of the two.
pub(super) enum Machine {
    /// Only the state, and what follows from each entry.
    Partition(Box<Partition>),
    /// Its owner: what follows is brought to nodes that answer at once, as bytes.
    Owner(Box<Owner>, BTreeMap<usize, Report>),
}

impl Machine {
    /// Applies an entry. Leaves the deltas that a node is sent in `deltas`; bytes of all messages.
    fn apply(&mut self, entry: &Entry, deltas: &mut Vec<Delta>) -> Result<usize, BenchError> {
        match self {
            Self::Partition(partition) => {
                let effects = partition.apply(entry).map_err(|error| BenchError::of("partition", error))?;
                deltas.extend(effects.gpt);
                Ok(0)
            }
            Self::Owner(owner, reports) => {
                owner.entry(entry).map_err(|error| BenchError::of("owner", error))?;
                Ok(distribute(owner, reports, deltas))
            }
        }
    }

    fn partition(&self) -> &Partition {
        match self {
            Self::Partition(partition) => partition,
            Self::Owner(owner, _) => owner.partition(),
        }
    }
}

/// Brings all nodes to where the owner is: they apply everything at once. Bytes of the messages.
fn distribute(owner: &mut Owner, reports: &mut BTreeMap<usize, Report>, deltas: &mut Vec<Delta>) -> usize {
    let mut bytes = 0;
    loop {
        let messages = owner.messages(Duration::ZERO);
        if messages.is_empty() {
            return bytes;
        }
        for (to, message) in messages {
            let Some(report) = reports.get_mut(&to.index()) else { continue };
            let packet = Packet::Message(message);
            bytes += packet.encode().len();
            let Packet::Message(message) = packet else { continue };
            match message {
                Message::Fib(update) => report.fib = update.position,
                Message::Gpt(new) => {
                    report.gpt = new.last().map_or(report.gpt, |delta| delta.position);
                    if to == node(0) {
                        deltas.extend(new);
                    }
                }
                Message::FibPiece(piece) => {
                    let have = piece.first + piece.entries.len() as u64;
                    report.fib_part = Part { at: piece.position, have, ..Part::default() };
                    if have == piece.keys {
                        (report.fib, report.whole) = (piece.position, piece.position);
                        (report.wholes, report.fib_part) = (report.wholes + 1, Part::default());
                    }
                }
                // No delta of these partitions is as long as that.
                Message::GptPiece(_) | Message::Target(_) | Message::Digest(_) | Message::Rewind(_) => {}
            }
            owner.report(to, *report);
        }
    }
}

/// What is fed.
pub(super) struct Fed {
    name: &'static str,
    machine: Machine,
    position: Position,
    /// What every key is to lead to.
    pub(super) flows: Vec<Flow>,
    replica: Table,
}

impl Fed {
    /// A partition that holds these flows; with `nodes`, its owner, and so many nodes that follow it.
    pub(super) fn new(
        flows: Vec<Flow>,
        gpt: Structure,
        value_bits: u8,
        nodes: Option<usize>,
    ) -> Result<Self, BenchError> {
        let name = if nodes.is_some() { "owner" } else { "partition" };
        let params = Params::for_keys(gpt, flows.len() as u64, value_bits, PartitionCount::ONE)
            .map_err(|error| BenchError::of(name, error))?;
        let partition = Partition::new(PartitionId(0), params, HASHER);
        let machine = match nodes {
            None => Machine::Partition(Box::new(partition)),
            Some(nodes) => {
                let mut owner = Owner::new(partition);
                let reports: BTreeMap<usize, Report> =
                    (0..nodes).map(|number| (number, Report::new(PartitionId(0), 1))).collect();
                for (&number, report) in &reports {
                    owner.joined(node(number), report.life);
                    owner.report(node(number), *report);
                }
                Machine::Owner(Box::new(owner), reports)
            }
        };
        let replica = Table::new(params);
        let mut fed = Self { name, machine, position: Position(0), flows, replica };
        let changes: Vec<Change> = fed.flows.iter().map(brought).collect();
        for part in changes.chunks(FILLING) {
            let entry = fed.entry(part)?;
            let deltas = fed.feed(&[entry])?;
            fed.follow(&deltas)?;
        }
        fed.check()?;
        Ok(fed)
    }

    /// The next entry of the log.
    pub(super) fn entry(&mut self, changes: &[Change]) -> Result<Entry, BenchError> {
        self.position.0 += 1;
        let payload = encode(changes).map_err(|error| BenchError::of(self.name, error))?;
        let id = BatchId { writer: WriterId(1), number: self.position.0 };
        Ok(Entry { position: self.position, batch: Batch { id, payload: payload.into() } })
    }

    /// Applies entries: what is timed. The deltas for the GPT of one node.
    pub(super) fn feed(&mut self, entries: &[Entry]) -> Result<Vec<Delta>, BenchError> {
        let (mut deltas, mut bytes) = (Vec::new(), 0);
        for entry in entries {
            bytes += self.machine.apply(entry, &mut deltas)?;
        }
        std::hint::black_box(bytes);
        Ok(deltas)
    }

    /// Brings the replica there.
    pub(super) fn follow(&self, deltas: &[Delta]) -> Result<(), BenchError> {
        for delta in deltas {
            self.replica.apply(delta).map(drop).map_err(|error| BenchError::of(self.name, error))?;
        }
        Ok(())
    }

    /// Compares state and replica with the flows.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        let partition = self.machine.partition();
        if partition.len() != self.flows.len() {
            let problem = format!("{} keys, not {}", partition.len(), self.flows.len());
            return Err(BenchError::check(self.name, problem));
        }
        let mut reader = Reader::new(&self.replica);
        for (at, (key, session)) in self.flows.iter().enumerate() {
            let held = partition.session(key).map(|(held, _)| held);
            if held != Some(*session) {
                return Err(BenchError::check(
                    self.name,
                    format!("{key:?} leads to {held:?}, not {session:?}"),
                ));
            }
            let (got, want) = (reader.get(HASHER.hash(key)), session.node.get());
            if got != want {
                let (structure, keys) = (format!("the GPT of a {}", self.name), self.flows.len());
                return Err(BenchError::Wrong { structure, key: at, keys, got, want });
            }
        }
        Ok(())
    }

    /// Its name in rows.
    pub(super) const fn name(&self) -> &'static str {
        self.name
    }
}

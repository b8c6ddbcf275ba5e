//! A random graph as data, and an interpreter that processes one packet at a time.

use crate::elements::{Carry, Feed, Fork, Sink, Split, Tray, lap, pass, toss};
use crate::labels::{Check, Stamp};
use crate::queues::{Hold, release};
use scalebricks_graph::{Builder, HOP_LIMIT};
use scalebricks_io::{Packet, Pool};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Pass,
    Toss(u8),
    Lap,
    Split(u8),
    /// The same, by value.
    Carry(u8),
    Fork,
    /// A queue with this capacity, and an element that pulls this many packets per turn.
    Queue(usize, usize),
    Stamp,
    Check,
    Sink,
}

/// An element and the targets of its outputs.
#[derive(Debug, Clone)]
pub struct Place {
    pub kind: Kind,
    pub outputs: Vec<usize>,
}

/// The elements, and the first one after the source.
#[derive(Debug, Clone)]
pub struct Plan {
    pub places: Vec<Place>,
    pub start: usize,
}

/// Result of a run: the sequence numbers in order per sink, flow and copy, and the drops per element and reason.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub sunk: BTreeMap<(usize, u8, Vec<u8>), Vec<u16>>,
    pub dropped: BTreeMap<(String, &'static str), u64>,
}

impl Outcome {
    pub fn sink(&mut self, at: usize, packet: &[u8]) {
        let key = (at, packet[0], packet[4..].to_vec());
        self.sunk.entry(key).or_default().push(u16::from_be_bytes([packet[2], packet[3]]));
    }
}

pub fn name(at: usize) -> String {
    format!("e{at}")
}

impl Plan {
    /// The same graph made of elements. `trays` are those of the sinks, by position.
    pub fn builder(
        &self,
        feed: &Tray,
        pool: &Pool,
        burst: usize,
        trays: &HashMap<usize, Tray>,
    ) -> Builder<Packet> {
        let mut builder = Builder::new();
        builder.add("feed", Feed { tray: feed.clone(), pool: pool.clone(), burst });
        builder.connect("feed", 0, &name(self.start), 0);
        for (at, place) in self.places.iter().enumerate() {
            let own = name(at);
            let mut from = own.clone();
            match place.kind {
                Kind::Pass => builder.add(&own, pass()),
                Kind::Toss(every) => builder.add(&own, toss(every)),
                Kind::Lap => builder.add(&own, lap()),
                Kind::Split(salt) => builder.add(&own, Split { salt }),
                Kind::Carry(salt) => builder.add(&own, Carry { salt }),
                Kind::Fork => builder.add(&own, Fork {}),
                Kind::Stamp => builder.add(&own, Stamp::default()),
                Kind::Check => builder.add(&own, Check::default()),
                Kind::Sink => builder.add(&own, Sink { tray: trays[&at].clone() }),
                Kind::Queue(capacity, a_turn) => {
                    from = format!("r{at}");
                    builder
                        .add(&own, Hold::new(capacity, false))
                        .add(&from, release(a_turn))
                        .chain(&[&own, &from])
                }
            };
            for (output, to) in place.outputs.iter().enumerate() {
                builder.connect(&from, output, &name(*to), 0);
            }
        }
        builder
    }

    /// Processes packets one after the other. `backs` are the outputs that count as hops, by position.
    pub fn interpret(&self, packets: &[Vec<u8>], backs: &HashSet<(usize, usize)>) -> Outcome {
        let mut outcome = Outcome::default();
        for packet in packets {
            // Depth does not affect order: packets of one flow and copy take one path.
            let mut open = VecDeque::from([(self.start, packet.clone(), 0)]);
            while let Some((at, packet, hops)) = open.pop_front() {
                for (output, packet) in self.step(at, packet, &mut outcome) {
                    let hops = hops + u8::from(backs.contains(&(at, output)));
                    if hops == HOP_LIMIT {
                        let from = if let Kind::Queue(..) = self.places[at].kind {
                            format!("r{at}")
                        } else {
                            name(at)
                        };
                        *outcome.dropped.entry((from, "graph_loop")).or_default() += 1;
                    } else {
                        open.push_back((self.places[at].outputs[output], packet, hops));
                    }
                }
            }
        }
        outcome
    }

    fn step(&self, at: usize, mut packet: Vec<u8>, outcome: &mut Outcome) -> Vec<(usize, Vec<u8>)> {
        let Place { kind, outputs } = &self.places[at];
        match *kind {
            Kind::Toss(every) if packet[0].is_multiple_of(every) => {
                *outcome.dropped.entry((name(at), "tossed")).or_default() += 1;
                vec![]
            }
            Kind::Lap if packet[1] == 0 => vec![(0, packet)],
            Kind::Lap => {
                packet[1] -= 1;
                vec![(1, packet)]
            }
            Kind::Split(salt) | Kind::Carry(salt) => {
                let hash = packet[0].wrapping_mul(31).wrapping_add(salt);
                vec![(usize::from(hash) % outputs.len(), packet)]
            }
            Kind::Fork => {
                (0..outputs.len()).map(|output| (output, [&packet[..], &[output as u8]].concat())).collect()
            }
            Kind::Sink => {
                outcome.sink(at, &packet);
                vec![]
            }
            Kind::Pass | Kind::Toss(_) | Kind::Queue(..) | Kind::Stamp | Kind::Check => vec![(0, packet)],
        }
    }

    /// Whether a path from the source leads to a `Check` without a label written after the last queue: a search over
    /// all elements, each with and without a label.
    pub fn reads_unlabelled(&self) -> bool {
        let mut seen = vec![[false; 2]; self.places.len()];
        let mut open = vec![(self.start, false)];
        while let Some((at, is_labelled)) = open.pop() {
            if std::mem::replace(&mut seen[at][usize::from(is_labelled)], true) {
                continue;
            }
            let place = &self.places[at];
            if place.kind == Kind::Check && !is_labelled {
                return true;
            }
            let is_labelled = match place.kind {
                Kind::Stamp => true,
                Kind::Queue(..) | Kind::Carry(_) => false,
                _ => is_labelled,
            };
            open.extend(place.outputs.iter().map(|&to| (to, is_labelled)));
        }
        false
    }
}

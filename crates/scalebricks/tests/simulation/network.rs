//! The control links: heartbeats that are lost and overtake each other, and messages that arrive in order or not at all.

use crate::simulation::hub::{Hub, ms, seconds};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use scalebricks_cluster::plane::PeerLink;
use scalebricks_control::codec::Encoded;
use scalebricks_control::membership::Beat;
use scalebricks_types::NodeId;
use std::collections::VecDeque;
use std::time::Duration;

/// Messages on a broken link that waited for so long are lost, as is a connection.
const BROKEN: Duration = seconds(2);

/// One direction of a link.
struct Way {
    works: bool,
    rng: SmallRng,
    /// Heartbeats under way: when each was sent and arrives.
    beats: Vec<(Duration, Duration, Vec<u8>)>,
    /// Messages in their order: when each was sent and arrives.
    messages: VecDeque<(Duration, Duration, Vec<u8>)>,
}

/// All directed links.
pub struct Network {
    nodes: usize,
    ways: Vec<Way>,
    /// Which process runs at each node: what an earlier one sent or was to receive is lost.
    pub process: Vec<Option<u64>>,
    /// How many heartbeats are lost.
    pub beat_loss: f64,
    /// How many messages are lost.
    pub message_loss: f64,
    /// The longest delay, in milliseconds.
    pub delay_ms: u64,
}

impl Network {
    pub fn new(seed: u64, nodes: usize) -> Self {
        let way = |at: usize| Way {
            works: true,
            rng: SmallRng::seed_from_u64(seed ^ (at as u64 + 1) << 32),
            beats: Vec::new(),
            messages: VecDeque::new(),
        };
        Self {
            nodes,
            ways: (0..nodes * nodes).map(way).collect(),
            process: vec![None; nodes],
            beat_loss: 0.01,
            message_loss: 0.0,
            delay_ms: 3,
        }
    }

    fn way(&mut self, from: usize, to: usize) -> &mut Way {
        &mut self.ways[from * self.nodes + to]
    }

    pub fn set(&mut self, from: usize, to: usize, works: bool) {
        self.way(from, to).works = works;
    }

    /// A process starts or ends: nothing under way to it or from it arrives.
    pub fn begin(&mut self, node: usize, process: Option<u64>) {
        self.process[node] = process;
        for other in 0..self.nodes {
            for (from, to) in [(node, other), (other, node)] {
                let way = self.way(from, to);
                (way.beats, way.messages) = (Vec::new(), VecDeque::new());
            }
        }
    }

    fn beat(&mut self, from: usize, beat: &Beat, now: Duration) {
        let (loss, delay) = (self.beat_loss, self.delay_ms);
        for to in (0..self.nodes).filter(|to| *to != from) {
            let way = self.way(from, to);
            let (is_lost, delay) = (way.rng.random_bool(loss), ms(way.rng.random_range(0..=delay)));
            if way.works && !is_lost {
                way.beats.push((now, now + delay, beat.encode()));
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, bytes: Vec<u8>, now: Duration) {
        let (loss, delay) = (self.message_loss, self.delay_ms);
        let way = self.way(from, to);
        let (is_lost, delay) = (way.rng.random_bool(loss), ms(way.rng.random_range(0..=delay)));
        if !is_lost {
            way.messages.push_back((now, now + delay, bytes));
        }
    }

    /// Heartbeats that have arrived at a node, each with its sender and when it was sent.
    pub fn take_beats(&mut self, to: usize, now: Duration) -> Vec<(usize, Beat, Duration)> {
        let mut taken = Vec::new();
        for from in 0..self.nodes {
            let way = self.way(from, to);
            way.beats.retain(|(sent, at, bytes)| {
                let is_due = *at <= now;
                if is_due {
                    taken.push((from, Beat::decode(bytes).unwrap(), *sent));
                }
                !is_due
            });
        }
        taken
    }

    /// Messages that have arrived at a node, each with its sender.
    pub fn take_messages(&mut self, to: usize, now: Duration) -> Vec<(usize, Vec<u8>)> {
        let mut taken = Vec::new();
        for from in 0..self.nodes {
            let way = self.way(from, to);
            if !way.works {
                if way.messages.front().is_some_and(|(sent, ..)| now >= *sent + BROKEN) {
                    way.messages.clear();
                }
                continue;
            }
            while way.messages.front().is_some_and(|(_, at, _)| *at <= now) {
                taken.extend(way.messages.pop_front().map(|(.., bytes)| (from, bytes)));
            }
        }
        taken
    }
}

/// A process's way to the others.
pub struct SimLink {
    pub hub: Hub,
    pub node: usize,
    pub process: u64,
}

impl SimLink {
    pub fn send_beat(&self, beat: &Beat) {
        let mut shared = self.hub.lock();
        let now = shared.now;
        if shared.network.process[self.node] == Some(self.process) {
            shared.network.beat(self.node, beat, now);
        }
    }
}

impl PeerLink for SimLink {
    fn beat(&self, beat: Beat) {
        self.send_beat(&beat);
    }

    fn send(&self, to: NodeId, bytes: Vec<u8>) {
        let mut shared = self.hub.lock();
        let (now, to) = (shared.now, usize::from(to.get()));
        if shared.network.process[self.node] == Some(self.process) && to < shared.network.process.len() {
            shared.network.send(self.node, to, bytes, now);
        }
    }
}

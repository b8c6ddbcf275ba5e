//! Nodes, the record, the engine, and a network of directed links.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use scalebricks_control::engine::Revision;
use scalebricks_control::membership::{Action, Beat, Fitness, Membership, View};
use scalebricks_types::{NodeId, PartitionCount};
use std::time::Duration;

pub const TICK: Duration = Duration::from_millis(20);

/// A directed link has been as it is for this long: whatever depends on it has been noticed.
pub const NOTICED: Duration = Duration::from_secs(2);

pub const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub fn id(number: usize) -> NodeId {
    NodeId::new(number as u8)
}

pub struct Node {
    /// `None`: the process does not run.
    pub machine: Option<Membership>,
    /// Its clock: how fast, and how far from zero when the world begins.
    rate: f64,
    offset: Duration,
    pub frozen_until: Duration,
    /// Since when it runs without a break.
    pub steady_since: Duration,
    /// Whether it reaches the engine, and since when that is so.
    pub has_engine: bool,
    pub engine_since: Duration,
    /// How fit it is, and since when.
    pub fitness: Fitness,
    pub fitness_since: Duration,
    listens: bool,
    /// What waits in its socket while it is frozen.
    socket: Vec<(usize, Beat)>,
}

/// A change of the view.
#[derive(Debug, Clone)]
pub struct Change {
    pub at: Duration,
    pub removed: Vec<usize>,
    pub joined: Vec<usize>,
    pub suspended: Vec<usize>,
    pub lifted: Vec<usize>,
}

pub struct World {
    pub rng: SmallRng,
    pub now: Duration,
    pub record: Option<(Revision, View)>,
    pub nodes: Vec<Node>,
    /// `hears[a][b]`: whether a receives what b sends, and since when that is so.
    pub hears: Vec<Vec<(bool, Duration)>>,
    pub loss: f64,
    /// Proposals on their way to the engine.
    proposals: Vec<(Duration, usize, Option<Revision>, View)>,
    pub changes: Vec<Change>,
    pub beats: u64,
}

impl World {
    /// Nodes that have just started, with clocks of any rate from 1 - `drift` to 1 + `drift`.
    pub fn with_drift(seed: u64, nodes: usize, drift: f64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let nodes: Vec<Node> = (0..nodes)
            .map(|_| Node {
                machine: None,
                rate: 1.0 + drift * rng.random_range(-1.0..=1.0),
                // No two nodes beat in step.
                offset: ms(rng.random_range(10_000..10_200)),
                frozen_until: Duration::ZERO,
                steady_since: Duration::ZERO,
                has_engine: true,
                engine_since: Duration::ZERO,
                fitness: Fitness::FIT,
                fitness_since: Duration::ZERO,
                listens: false,
                socket: Vec::new(),
            })
            .collect();
        let hears = vec![vec![(true, Duration::ZERO); nodes.len()]; nodes.len()];
        let mut world = Self {
            rng,
            now: Duration::ZERO,
            record: None,
            nodes,
            hears,
            loss: 0.0,
            proposals: Vec::new(),
            changes: Vec::new(),
            beats: 0,
        };
        (0..world.nodes.len()).for_each(|number| world.start(number));
        world
    }

    pub fn new(seed: u64, nodes: usize) -> Self {
        Self::with_drift(seed, nodes, 0.0)
    }

    /// Nodes that have found together.
    pub fn together(seed: u64, nodes: usize) -> Self {
        let mut world = Self::new(seed, nodes);
        world.run(seconds(3));
        assert_eq!(world.alive(), (0..nodes).collect::<Vec<_>>(), "seed {seed}");
        world.changes.clear();
        world
    }

    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    pub fn clock(&self, number: usize) -> Duration {
        let node = &self.nodes[number];
        node.offset + self.now.mul_f64(node.rate)
    }

    /// A process starts, and reads the record. One that has no engine waits for it.
    pub fn start(&mut self, number: usize) {
        let (revision, view) = match &self.record {
            Some((revision, view)) => (Some(*revision), view.clone()),
            None => (None, View::empty(PartitionCount::new(16).unwrap())),
        };
        let now = self.clock(number);
        let node = &mut self.nodes[number];
        node.machine = Some(Membership::new(id(number), view, revision, now));
        (node.listens, node.steady_since) = (false, self.now);
        (node.frozen_until, node.socket) = (Duration::ZERO, Vec::new());
    }

    pub fn stop(&mut self, number: usize) {
        self.nodes[number].machine = None;
        self.nodes[number].steady_since = self.now;
    }

    pub fn freeze(&mut self, number: usize, time: Duration) {
        self.nodes[number].frozen_until = self.now + time;
    }

    /// Cuts or heals a directed link: whether `to` hears `from`.
    pub fn set_link(&mut self, from: usize, to: usize, works: bool) {
        if self.hears[to][from].0 != works {
            self.hears[to][from] = (works, self.now);
        }
    }

    pub fn set_pair(&mut self, a: usize, b: usize, works: bool) {
        self.set_link(a, b, works);
        self.set_link(b, a, works);
    }

    /// Cuts or heals all links between a group and the others.
    pub fn set_group(&mut self, group: &[usize], works: bool) {
        for outside in (0..self.size()).filter(|number| !group.contains(number)) {
            for inside in group {
                self.set_pair(*inside, outside, works);
            }
        }
    }

    pub fn set_engine(&mut self, number: usize, works: bool) {
        let now = self.now;
        let node = &mut self.nodes[number];
        if node.has_engine != works {
            (node.has_engine, node.engine_since) = (works, now);
        }
    }

    /// How fit a node is from now on, as its watch finds.
    pub fn set_fitness(&mut self, number: usize, fitness: Fitness) {
        let now = self.now;
        let node = &mut self.nodes[number];
        if node.fitness != fitness {
            (node.fitness, node.fitness_since) = (fitness, now);
        }
    }

    pub fn heal(&mut self) {
        for a in 0..self.size() {
            (0..self.size()).for_each(|b| self.set_link(a, b, true));
            self.set_engine(a, true);
        }
    }

    pub fn is_running(&self, number: usize) -> bool {
        self.nodes[number].machine.is_some() && self.now >= self.nodes[number].frozen_until
    }

    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.step();
        }
    }

    pub fn step(&mut self) {
        self.now += TICK;
        self.swap_due();
        for number in 0..self.size() {
            if self.nodes[number].machine.is_none() {
                continue;
            }
            if !self.is_running(number) {
                self.nodes[number].steady_since = self.now;
                continue;
            }
            self.turn(number);
        }
    }

    fn turn(&mut self, number: usize) {
        let now = self.clock(number);
        // After a freeze, what waits in the socket is read before or after the machine is asked.
        if self.rng.random_bool(0.7) {
            self.read_socket(number);
        }
        let is_read = self.nodes[number].has_engine && self.rng.random_bool(0.5);
        let fitness = self.nodes[number].fitness;
        let machine = self.nodes[number].machine.as_mut().unwrap();
        machine.set_fitness(fitness);
        if let Some((revision, view)) = &self.record
            && is_read
            && machine.view().epoch() != view.epoch()
        {
            machine.viewed(*revision, view.clone(), now);
        }
        for action in machine.poll(now) {
            self.act(number, action);
        }
    }

    fn read_socket(&mut self, number: usize) {
        let now = self.clock(number);
        for (from, beat) in std::mem::take(&mut self.nodes[number].socket) {
            if let Some(machine) = &mut self.nodes[number].machine {
                machine.heard(id(from), &beat, now);
            }
        }
    }

    fn act(&mut self, number: usize, action: Action) {
        match action {
            Action::Beat(beat) => {
                self.beats += 1;
                for other in (0..self.size()).filter(|other| *other != number) {
                    let is_lost = !self.hears[other][number].0 || self.rng.random_bool(self.loss);
                    if !is_lost && self.nodes[other].machine.is_some() {
                        self.nodes[other].socket.push((number, beat));
                    }
                }
            }
            Action::Propose(expected, view) => {
                let at = self.now + ms(self.rng.random_range(0..60));
                self.proposals.push((at, number, expected, view));
            }
            Action::Listen(listens) => self.nodes[number].listens = listens,
            Action::Pulse => {
                for other in 0..self.size() {
                    let now = self.clock(other);
                    let hears = self.nodes[other].listens && self.nodes[other].has_engine;
                    if self.nodes[number].has_engine && hears && self.is_running(other) {
                        self.nodes[other].machine.as_mut().unwrap().pulsed(id(number), now);
                    }
                }
            }
        }
    }

    /// The engine does what was proposed to it.
    fn swap_due(&mut self) {
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.proposals).into_iter().partition(|(at, ..)| *at <= now);
        self.proposals = later;
        for (_, number, expected, view) in due {
            let current = self.record.as_ref().map(|(revision, _)| *revision);
            if !self.nodes[number].has_engine || current != expected {
                continue;
            }
            let (before, able) = (self.alive(), self.able());
            self.record = Some((Revision(expected.map_or(1, |revision| revision.0 + 1)), view));
            let (after, still) = (self.alive(), self.able());
            let without =
                |a: &[usize], b: &[usize]| a.iter().filter(|node| !b.contains(node)).copied().collect();
            let suspended = after
                .iter()
                .filter(|node| !still.contains(node) && (able.contains(node) || !before.contains(node)));
            let lifted = still.iter().filter(|node| !able.contains(node) && before.contains(node));
            let change = Change {
                at: now,
                removed: without(&before, &after),
                joined: without(&after, &before),
                suspended: suspended.copied().collect(),
                lifted: lifted.copied().collect(),
            };
            self.judge(&before, &change);
            self.judge_suspensions(&change);
            self.changes.push(change);
        }
    }

    pub fn alive(&self) -> Vec<usize> {
        let view = self.record.as_ref().map(|(_, view)| view);
        view.into_iter().flat_map(View::alive).map(|node| usize::from(node.get())).collect()
    }

    /// Members that are alive and not suspended.
    pub fn able(&self) -> Vec<usize> {
        let Some((_, view)) = &self.record else { return Vec::new() };
        let able = view.alive().filter(|node| view.is_able(*node));
        able.map(|node| usize::from(node.get())).collect()
    }

    /// Members that are alive and suspended.
    pub fn suspended(&self) -> Vec<usize> {
        let able = self.able();
        self.alive().into_iter().filter(|node| !able.contains(node)).collect()
    }

    pub fn machine(&self, number: usize) -> &Membership {
        self.nodes[number].machine.as_ref().unwrap()
    }
}

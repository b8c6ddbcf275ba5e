//! What goes wrong, and when it is over.

use crate::simulation::hub::{ms, seconds};
use crate::simulation::log::Uncertain;
use crate::simulation::process::id;
use crate::simulation::world::World;
use rand::Rng;
use rand::seq::IndexedRandom;
use std::collections::BTreeMap;
use std::time::Duration;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    ControlPair,
    ControlOneWay,
    ControlGroup,
    ControlNode,
    ControlRandom,
    ControlFlapping,
    ControlDown,
    HeartbeatsLost,
    MessagesLost,
    FabricPair,
    FabricOneWay,
    FabricNode,
    FabricLoss,
    EngineCut,
    EngineFlapping,
    EngineDown,
    UnknownOutcomes,
    StaleWatches,
    Crash,
    SecondDeath,
    CrashWithoutEngine,
    AllRestart,
    Freeze,
    ControlStopped,
    ControlBusy,
    WorkerStopped,
    Drain,
    AllCut,
}

impl Fault {
    pub const ALL: [Self; 28] = [
        Self::ControlPair,
        Self::ControlOneWay,
        Self::ControlGroup,
        Self::ControlNode,
        Self::ControlRandom,
        Self::ControlFlapping,
        Self::ControlDown,
        Self::HeartbeatsLost,
        Self::MessagesLost,
        Self::FabricPair,
        Self::FabricOneWay,
        Self::FabricNode,
        Self::FabricLoss,
        Self::EngineCut,
        Self::EngineFlapping,
        Self::EngineDown,
        Self::UnknownOutcomes,
        Self::StaleWatches,
        Self::Crash,
        Self::SecondDeath,
        Self::CrashWithoutEngine,
        Self::AllRestart,
        Self::Freeze,
        Self::ControlStopped,
        Self::ControlBusy,
        Self::WorkerStopped,
        Self::Drain,
        Self::AllCut,
    ];

    /// Whether it stays as it is until it is healed.
    pub const fn is_fixed(self) -> bool {
        matches!(
            self,
            Self::ControlPair
                | Self::ControlOneWay
                | Self::ControlGroup
                | Self::ControlNode
                | Self::ControlRandom
                | Self::ControlDown
                | Self::FabricPair
                | Self::FabricOneWay
                | Self::FabricNode
                | Self::EngineCut
                | Self::EngineDown
                | Self::AllCut
        )
    }
}

/// What happens later.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Start(usize),
    Stop(usize),
    Pair(usize, usize, bool),
    Engine(usize, bool),
    Undrain(usize),
    Certain,
    Calm,
}

/// What was injected, and what is still to happen.
#[derive(Debug, Default)]
pub struct Faults {
    pub counts: BTreeMap<Fault, u64>,
    due: BTreeMap<(Duration, u64), Deed>,
    number: u64,
}

impl World {
    fn later(&mut self, after: Duration, deed: Deed) {
        self.faults.number += 1;
        self.faults.due.insert((self.now + after, self.faults.number), deed);
    }

    /// Does what is due.
    pub fn follow_faults(&mut self) {
        while let Some(first) = self.faults.due.first_entry().filter(|first| first.key().0 <= self.now) {
            let deed = first.remove();
            self.perform(deed);
        }
    }

    fn perform(&mut self, deed: Deed) {
        match deed {
            Deed::Start(node) if self.processes[node].is_none() => self.start(node),
            Deed::Start(_) => {}
            Deed::Stop(node) => self.stop(node),
            Deed::Pair(a, b, works) => self.set_pair(a, b, works),
            Deed::Engine(node, works) => self.hub.lock().log.set_reach(node, works),
            Deed::Undrain(node) => self.drain(node, false),
            Deed::Certain => self.hub.lock().log.uncertain = Uncertain::default(),
            Deed::Calm => self.calm_network(),
        }
    }

    fn calm_network(&mut self) {
        let mut shared = self.hub.lock();
        (shared.network.beat_loss, shared.network.message_loss, shared.network.delay_ms) = (0.01, 0.0, 3);
        drop(shared);
        self.fabric.loss = 0.0;
    }

    /// Cuts or heals a pair's control links.
    pub fn set_pair(&self, a: usize, b: usize, works: bool) {
        let mut shared = self.hub.lock();
        shared.network.set(a, b, works);
        shared.network.set(b, a, works);
    }

    /// Cuts or heals what connects two nodes over the fabric.
    pub fn set_fabric_pair(&mut self, a: usize, b: usize, works: bool) {
        self.fabric.set(a, b, works);
        self.fabric.set(b, a, works);
    }

    pub fn set_engine(&self, node: usize, works: bool) {
        self.hub.lock().log.set_reach(node, works);
    }

    /// An operator drains a node, or lets it take flows again.
    pub fn drain(&mut self, node: usize, is_drained: bool) {
        let at: Vec<usize> = (0..self.size()).filter(|at| self.runs(*at)).collect();
        let with_plane =
            |at: &usize| self.processes[*at].as_ref().is_some_and(|process| process.plane().is_some());
        let at: Vec<usize> = at.into_iter().filter(with_plane).collect();
        let Some(at) = at.choose(&mut self.rng) else {
            return self.later(seconds(1), Deed::Undrain(node));
        };
        let process = self.processes[*at].as_ref().unwrap();
        let plane = process.plane().unwrap().clone();
        process.spawn(async move {
            for _ in 0..20 {
                if plane.place(move |placement| placement.set_drained(id(node), is_drained)).await.is_ok() {
                    return;
                }
                tokio::time::sleep(ms(500)).await;
            }
        });
    }

    fn random_ms(&mut self, range: std::ops::Range<u64>) -> Duration {
        ms(self.rng.random_range(range))
    }

    fn others(&self, node: usize) -> Vec<usize> {
        (0..self.size()).filter(|other| *other != node).collect()
    }

    /// Any fault happens.
    pub fn disturb(&mut self) -> Fault {
        let fault = *Fault::ALL.choose(&mut self.rng).unwrap();
        self.inject(fault);
        fault
    }

    #[allow(clippy::too_many_lines, reason = "one arm for each fault")]
    pub fn inject(&mut self, fault: Fault) {
        *self.faults.counts.entry(fault).or_default() += 1;
        let nodes: Vec<usize> = (0..self.size()).collect();
        let picked: Vec<usize> = nodes.choose_multiple(&mut self.rng, 2).copied().collect();
        let (a, b) = (picked[0], picked[1]);
        if crate::simulation::world::is_told() {
            println!(
                "{:?}: {fault:?} {a} {b}; alive {:?}, members {:?}",
                self.now,
                self.alive(),
                self.members()
            );
        }
        match fault {
            Fault::ControlPair => self.set_pair(a, b, false),
            Fault::ControlOneWay => self.hub.lock().network.set(a, b, false),
            Fault::ControlGroup => {
                let size = self.rng.random_range(1..=self.size() / 2);
                let group: Vec<usize> = nodes.choose_multiple(&mut self.rng, size).copied().collect();
                for outside in nodes.iter().filter(|node| !group.contains(node)) {
                    for inside in &group {
                        self.set_pair(*inside, *outside, false);
                    }
                }
            }
            Fault::ControlNode => self.others(a).iter().for_each(|other| self.set_pair(a, *other, false)),
            Fault::ControlRandom => {
                let cut = self.rng.random_range(0.05..0.7);
                for from in &nodes {
                    for to in &nodes {
                        let works = !self.rng.random_bool(cut);
                        self.hub.lock().network.set(*from, *to, works);
                    }
                }
            }
            Fault::ControlFlapping => {
                let (mut at, mut works) = (Duration::ZERO, false);
                for _ in 0..self.rng.random_range(4..20) {
                    self.later(at, Deed::Pair(a, b, works));
                    (at, works) = (at + self.random_ms(100..1_500), !works);
                }
                self.later(at, Deed::Pair(a, b, true));
            }
            Fault::ControlDown => {
                for node in &nodes {
                    for other in self.others(*node) {
                        self.set_pair(*node, other, false);
                    }
                }
            }
            Fault::HeartbeatsLost | Fault::MessagesLost => {
                let (beats, messages) = (self.rng.random_range(0.05..0.3), self.rng.random_range(0.02..0.3));
                let mut shared = self.hub.lock();
                shared.network.beat_loss = beats;
                if fault == Fault::MessagesLost {
                    shared.network.message_loss = messages;
                }
                shared.network.delay_ms = 80;
                drop(shared);
                let after = self.random_ms(1_000..10_000);
                self.later(after, Deed::Calm);
            }
            Fault::FabricPair => self.set_fabric_pair(a, b, false),
            Fault::FabricOneWay => self.fabric.set(a, b, false),
            Fault::FabricNode => {
                self.others(a).iter().for_each(|other| self.set_fabric_pair(a, *other, false));
            }
            Fault::FabricLoss => {
                self.fabric.loss = self.rng.random_range(0.05..0.5);
                let after = self.random_ms(1_000..10_000);
                self.later(after, Deed::Calm);
            }
            Fault::EngineCut => self.set_engine(a, false),
            Fault::EngineFlapping => {
                let (mut at, mut works) = (Duration::ZERO, false);
                for _ in 0..self.rng.random_range(4..12) {
                    self.later(at, Deed::Engine(a, works));
                    (at, works) = (at + self.random_ms(100..4_000), !works);
                }
                self.later(at, Deed::Engine(a, true));
            }
            Fault::EngineDown => nodes.iter().for_each(|node| self.set_engine(*node, false)),
            Fault::UnknownOutcomes => {
                let unknown = self.rng.random_range(0.1..0.6);
                let refused = if self.rng.random_bool(0.3) { 0.1 } else { 0.0 };
                self.hub.lock().log.uncertain = Uncertain { unknown, refused };
                let after = self.random_ms(1_000..10_000);
                self.later(after, Deed::Certain);
            }
            Fault::StaleWatches => {
                for node in [a, b] {
                    let until = self.now + self.random_ms(200..4_000);
                    self.hub.lock().log.stale_until[node] = until;
                }
            }
            Fault::Crash => {
                self.stop(a);
                let after = self.random_ms(10..8_000);
                self.later(after, Deed::Start(a));
            }
            Fault::SecondDeath => {
                self.stop(a);
                let (back, again) = (self.random_ms(500..6_000), self.random_ms(500..8_000));
                self.later(back, Deed::Start(a));
                self.later(back + again, Deed::Stop(a));
                let after = self.random_ms(10..8_000);
                self.later(back + again + after, Deed::Start(a));
            }
            Fault::CrashWithoutEngine => {
                self.stop(a);
                self.set_engine(a, false);
                let (back, reaches) = (self.random_ms(10..3_000), self.random_ms(100..8_000));
                self.later(back, Deed::Start(a));
                self.later(back + reaches, Deed::Engine(a, true));
            }
            Fault::AllRestart => {
                for node in nodes {
                    self.stop(node);
                    let after = self.random_ms(10..4_000);
                    self.later(after, Deed::Start(node));
                }
            }
            Fault::Freeze => self.hindered[a].frozen = self.now + self.random_ms(50..20_000),
            Fault::ControlStopped => self.hindered[a].control = self.now + self.random_ms(50..20_000),
            Fault::ControlBusy => self.hindered[a].busy = self.now + self.random_ms(200..7_000),
            Fault::WorkerStopped => self.hindered[a].worker = self.now + self.random_ms(100..15_000),
            Fault::Drain => {
                self.drain(a, true);
                let after = self.random_ms(1_000..10_000);
                self.later(after, Deed::Undrain(a));
            }
            Fault::AllCut => {
                self.set_engine(a, false);
                for other in self.others(a) {
                    self.set_pair(a, other, false);
                    self.set_fabric_pair(a, other, false);
                }
            }
        }
    }

    /// All that is cut works again, and what was stopped for a time goes on.
    pub fn heal(&mut self) {
        for a in 0..self.size() {
            for b in self.others(a) {
                self.set_pair(a, b, true);
                self.set_fabric_pair(a, b, true);
            }
            self.set_engine(a, true);
        }
    }

    /// The same, and nothing more will happen.
    pub fn end_faults(&mut self) {
        for (_, deed) in std::mem::take(&mut self.faults.due) {
            if matches!(deed, Deed::Start(_) | Deed::Undrain(_)) {
                self.perform(deed);
            }
        }
        self.perform(Deed::Certain);
        self.calm_network();
        self.heal();
        let now = self.now;
        self.hindered.iter_mut().for_each(|hindered| {
            for until in
                [&mut hindered.frozen, &mut hindered.control, &mut hindered.busy, &mut hindered.worker]
            {
                *until = now.min(*until);
            }
        });
        self.hub.lock().log.stale_until.fill(now);
        for node in 0..self.size() {
            if self.processes[node].is_none() {
                self.start(node);
            }
            self.drain(node, false);
        }
    }
}

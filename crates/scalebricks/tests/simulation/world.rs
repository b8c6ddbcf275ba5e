//! A world: nodes, the log's servers, the links, controllers and packets. One seed, one run.

use crate::simulation::controllers::Controllers;
use crate::simulation::faults::Faults;
use crate::simulation::hub::{Hub, ms};
use crate::simulation::judge::Judge;
use crate::simulation::packets::Fabric;
use crate::simulation::process::{PARTITIONS, Plan, Process, id};
use crate::simulation::truth::Truth;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use scalebricks_control::codec::Encoded;
use scalebricks_control::membership::View;
use scalebricks_io::{Packet, PacketBuf, Pool};
use std::time::Duration;

/// A step of the world. Nodes run one after the other in it.
pub const STEP: Duration = ms(10);

/// A worker that makes no progress for so long makes its node unfit.
const STUCK: Duration = ms(500);

/// What a node's process is prevented from, and until when.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hindered {
    /// All of it stands still.
    pub frozen: Duration,
    /// Its control plane stands still, and its worker goes on.
    pub control: Duration,
    /// Its actor is busy: heartbeats go on beside it.
    pub busy: Duration,
    /// Its worker stands still, and its control plane goes on.
    pub worker: Duration,
}

/// Whether each fault and view is to be shown.
pub fn is_told() -> bool {
    std::env::var_os("SIM_TELL").is_some()
}

pub struct World {
    pub seed: u64,
    pub rng: SmallRng,
    pub now: Duration,
    pub hub: Hub,
    pub plan: Plan,
    pool: Pool,
    pub processes: Vec<Option<Process>>,
    /// How fast each node's clock is.
    rates: Vec<f64>,
    began: Vec<Duration>,
    pub hindered: Vec<Hindered>,
    started: u64,
    /// When each node's worker turned last.
    stuck_since: Vec<Duration>,
    pub fabric: Fabric,
    pub truth: Truth,
    pub controllers: Controllers,
    pub judge: Judge,
    pub faults: Faults,
    /// The record of membership, and how many changes of it were seen.
    pub view: View,
    views: usize,
    /// How likely it is in a step that a controller asks for something.
    pub requests: f64,
    /// Packets that come in with each step.
    pub packets: usize,
}

impl World {
    /// Nodes that have just started, with clocks of any rate from 1 - `drift` to 1 + `drift`.
    pub fn new(seed: u64, nodes: usize, drift: f64) -> Self {
        Self::with(seed, Plan::new(seed, nodes), drift)
    }

    pub fn with(seed: u64, plan: Plan, drift: f64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let nodes = plan.nodes;
        let rates = (0..nodes).map(|_| 1.0 + drift * rng.random_range(-1.0..=1.0)).collect();
        let mut world = Self {
            seed,
            rng,
            now: Duration::ZERO,
            hub: Hub::new(seed, nodes, PARTITIONS as usize),
            plan,
            pool: Pool::new(4_096, 2_000).unwrap(),
            processes: (0..nodes).map(|_| None).collect(),
            rates,
            began: vec![Duration::ZERO; nodes],
            hindered: vec![Hindered::default(); nodes],
            started: 0,
            stuck_since: vec![Duration::ZERO; nodes],
            fabric: Fabric::new(seed, nodes),
            truth: Truth::new(plan.params),
            controllers: Controllers::new(),
            judge: Judge::default(),
            faults: Faults::default(),
            view: View::empty(crate::simulation::process::partitions()),
            views: 0,
            requests: 0.1,
            packets: 2,
        };
        (0..nodes).for_each(|node| world.start(node));
        world
    }

    pub fn size(&self) -> usize {
        self.processes.len()
    }

    /// A process starts, with nothing in memory.
    pub fn start(&mut self, node: usize) {
        self.stop(node);
        self.started += 1;
        let process = Process::start(&self.hub, node, self.started, &self.plan, &self.pool);
        (self.processes[node], self.began[node]) = (Some(process), self.now);
        self.stuck_since[node] = self.now;
    }

    /// A process ends at once.
    pub fn stop(&mut self, node: usize) {
        self.processes[node] = None;
        self.hindered[node] = Hindered::default();
        self.hub.lock().network.begin(node, None);
    }

    /// Whether a node's process has its control plane running.
    pub fn runs(&self, node: usize) -> bool {
        let Hindered { frozen, control, busy, .. } = self.hindered[node];
        self.processes[node].is_some() && self.now >= frozen.max(control).max(busy)
    }

    /// Whether a node's worker runs.
    pub fn forwards(&self, node: usize) -> bool {
        let Hindered { frozen, worker, .. } = self.hindered[node];
        self.processes[node].is_some() && self.now >= frozen.max(worker)
    }

    /// Whether the view has a node alive in the life that it is in, and it has caught up.
    pub fn is_member(&self, node: usize) -> bool {
        let Some(process) = &self.processes[node] else { return false };
        self.view.member(id(node)).is_some_and(|member| member.is_alive && process.is_ready(member.life))
    }

    pub fn members(&self) -> Vec<usize> {
        (0..self.size()).filter(|node| self.is_member(*node)).collect()
    }

    pub fn alive(&self) -> Vec<usize> {
        self.view.alive().map(|node| usize::from(node.get())).collect()
    }

    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.step();
        }
    }

    pub fn step(&mut self) {
        self.now += STEP;
        self.follow_faults();
        {
            let mut shared = self.hub.lock();
            shared.now = self.now;
            shared.log.run_until(self.now);
            self.truth.follow(&shared.log);
        }
        self.follow_view();
        self.hear_answers();
        if self.requests > 0.0 && self.rng.random_bool(self.requests) {
            self.request();
        }
        (0..self.size()).for_each(|node| self.run_control(node));
        self.controllers.settle(&mut self.truth, self.now);
        (0..self.packets).for_each(|_| self.packet());
        self.forward();
    }

    /// Lets a node's control plane run for a step.
    fn run_control(&mut self, node: usize) {
        let Some(process) = &mut self.processes[node] else { return };
        let local =
            self.now.checked_sub(self.began[node]).unwrap().mul_f64(self.rates[node]).as_millis() as u64;
        let Hindered { frozen, control, busy, .. } = self.hindered[node];
        if self.now < frozen.max(control) {
            process.stand_still_until(ms(local));
        } else if self.now < busy {
            process.be_busy_until(ms(local));
        } else {
            process.run_until(ms(local));
        }
    }

    /// Lets all workers turn, and carries frames between them.
    fn forward(&mut self) {
        for (to, packet) in self.fabric.take(self.now) {
            self.passes(to, packet.data());
            if let Some(process) = &mut self.processes[to] {
                let _full = process.fabric.send(packet);
            }
        }
        for node in 0..self.size() {
            let (forwards, is_frozen) = (self.forwards(node), self.now < self.hindered[node].frozen);
            let Some(process) = &mut self.processes[node] else { continue };
            if !is_frozen {
                process.look_after_fabric();
                process.set_worker_progress(forwards || self.now < self.stuck_since[node] + STUCK);
            }
            if !forwards {
                continue;
            }
            self.stuck_since[node] = self.now;
            process.forward();
            while let Some(packet) = process.fabric.receive() {
                self.fabric.carry(node, packet, self.now);
            }
            let (mut down, mut up) = (Vec::new(), Vec::new());
            while let Some(packet) = process.base_station.receive() {
                down.extend(crate::simulation::packets::left_downstream(packet.data()));
            }
            while let Some(packet) = process.internet.receive() {
                up.extend(crate::simulation::packets::left_upstream(packet.data()));
            }
            for (teid, number) in down {
                self.left(node, number, Some(teid));
            }
            for number in up {
                self.left(node, number, None);
            }
        }
    }

    /// A frame comes in at a node. What finds no room is lost.
    pub fn put_in(&mut self, node: usize, frame: &[u8], is_up: bool) {
        let Some(process) = &mut self.processes[node] else { return };
        let packet: Packet = self.pool.packet(frame).unwrap();
        let port = if is_up { &mut process.base_station } else { &mut process.internet };
        let _full = port.send(packet);
    }

    /// Reads the record of membership, as often as it was changed.
    fn follow_view(&mut self) {
        let shared = self.hub.lock();
        let new: Vec<(Duration, View)> = shared.log.views[self.views..]
            .iter()
            .map(|(at, bytes)| (*at, View::decode(bytes).unwrap()))
            .collect();
        drop(shared);
        for (at, view) in new {
            self.views += 1;
            let before = std::mem::replace(&mut self.view, view);
            if is_told() {
                let lives: Vec<_> = self
                    .view
                    .members()
                    .map(|(node, member)| (node.get(), member.life, member.is_alive))
                    .collect();
                println!("{at:?}: view {}: {lives:?}", self.view.epoch());
            }
            self.judge.viewed(at, &before, &self.view);
        }
    }
}

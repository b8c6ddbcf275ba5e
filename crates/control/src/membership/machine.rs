//! A node's part in finding out who is alive.

use super::view::View;
use crate::engine::Revision;
use crate::version::Version;
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time between heartbeats.
pub const BEAT: Duration = Duration::from_millis(200);

/// A node that was not heard for so long is given up.
pub const SUSPICION: Duration = Duration::from_secs(1);

/// A node that was heard no longer ago than this is within hearing: three beats, and less than [`SUSPICION`] by more than one.
/// Whoever is cut off hears the last of the others at different times, within one beat. Once the first of them is silent, none is
/// within hearing, and so it knows that it is alone.
const HEARING: Duration = Duration::from_millis(600);

/// A node that did nothing for so long was stopped itself, and has heard nobody for that reason.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a proposal may take before it is made again.
const PATIENCE: Duration = Duration::from_millis(500);

/// A node that was given up and does not hear the others comes back no sooner: they would only give it up again.
const EXILE: Duration = Duration::from_secs(30);

/// Those who hear few others for so long, and have still not been given up, are the few that are left: had most been alive, they
/// would have done so after [`SUSPICION`] and one swap of the record. Who hears nobody at all waits on: it may be that nobody
/// hears anybody.
const LONELY: Duration = Duration::from_secs(5);

/// What a node has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Tell all others that it is alive, in this life.
    Beat(u64),
    /// Swap the record, if it is still at this revision (`None`: if there is none), for this view.
    Propose(Option<Revision>, View),
}

/// The machine. Time is that of a clock that never goes back, the same in all calls.
#[derive(Debug)]
pub struct Membership {
    me: NodeId,
    knows: Version,
    /// This life; 0 before the first view tells which was the last.
    life: u64,
    view: View,
    revision: Option<Revision>,
    /// When each node was last heard, in the life that the view has.
    heard: BTreeMap<NodeId, Duration>,
    last_poll: Duration,
    /// Since when it hears few, but not nobody, and the record has not changed: then it is itself who is cut off, or most are dead.
    alone_since: Option<Duration>,
    next_beat: Duration,
    proposed: Option<(Option<Revision>, Duration)>,
    /// When it learned that it was given up, if it was and is not back.
    given_up: Option<Duration>,
}

impl Membership {
    /// A node that starts. `view` and `revision` are the record as it was read, or an empty view and `None`.
    pub fn new(me: NodeId, view: View, revision: Option<Revision>, now: Duration) -> Self {
        // A life that nobody has heard of: what this node said before is of no account any more.
        let life = view.member(me).map_or(0, |member| member.life) + 1;
        let mut machine = Self {
            me,
            knows: Version::NEWEST,
            life,
            view,
            revision,
            heard: BTreeMap::new(),
            last_poll: now,
            alone_since: None,
            next_beat: now,
            proposed: None,
            given_up: None,
        };
        machine.give_everybody_time(now);
        machine
    }

    /// The same, of a node that holds itself to this version, as if it knew no newer.
    #[must_use]
    pub(crate) const fn holding_to(mut self, version: Version) -> Self {
        self.knows = version;
        self
    }

    /// The view as this node knows it.
    pub const fn view(&self) -> &View {
        &self.view
    }

    /// The revision of the record that the view is of.
    pub const fn revision(&self) -> Option<Revision> {
        self.revision
    }

    /// Its life.
    pub const fn life(&self) -> u64 {
        self.life
    }

    /// Whether the others have it for alive, in this life: only then is it to act on what it owns.
    pub fn is_in(&self) -> bool {
        self.view.member(self.me).is_some_and(|member| member.is_alive && member.life == self.life)
    }

    /// The record is now this one. Older ones than known are passed over.
    pub fn viewed(&mut self, revision: Revision, view: View, now: Duration) {
        if self.revision.is_some_and(|known| known >= revision) {
            return;
        }
        for node in view.alive() {
            if self.view.member(node) != view.member(node) {
                self.heard.insert(node, now);
            }
        }
        let life = view.member(self.me).map_or(0, |member| member.life);
        // Somebody starts under the same number, or this node was given up: a new life begins.
        if life > self.life
            || view.member(self.me).is_some_and(|member| member.life == self.life && !member.is_alive)
        {
            self.life = life.max(self.life) + 1;
            self.given_up = Some(now);
        }
        (self.view, self.revision, self.proposed) = (view, Some(revision), None);
        self.alone_since = self.alone_since.map(|_| now);
        if self.is_in() && self.given_up.take().is_some() {
            // If it was cut off, it hears the others again one after the other: none is silent before two beats have passed.
            let lately = now.saturating_sub(HEARING);
            for heard in self.heard.values_mut() {
                *heard = lately.max(*heard);
            }
        }
    }

    /// A heartbeat came.
    pub fn heard(&mut self, from: NodeId, life: u64, now: Duration) {
        if self.view.member(from).is_some_and(|member| member.life == life) {
            self.heard.insert(from, now);
        }
    }

    fn give_everybody_time(&mut self, now: Duration) {
        self.heard = self.view.alive().map(|node| (node, now)).collect();
    }

    fn was_heard(&self, node: NodeId, within: Duration, now: Duration) -> bool {
        self.heard.get(&node).is_some_and(|heard| now < *heard + within)
    }

    /// What is to be done now. To be called every 100 ms or so, and after everything that came.
    pub fn poll(&mut self, now: Duration) -> Vec<Action> {
        if now >= self.last_poll + PAUSE {
            self.give_everybody_time(now);
        }
        self.last_poll = now;
        // Whoever hears the others again hears them one after the other, and gives none up meanwhile.
        let hears_nobody = self.within_hearing(now) == 0;
        if self.is_alone(now) {
            let since = self.alone_since.get_or_insert(now);
            if hears_nobody {
                *since = now;
            }
        } else if self.alone_since.take().is_some() {
            self.give_everybody_time(now);
        }
        let mut actions = Vec::new();
        if now >= self.next_beat {
            self.next_beat = now + BEAT;
            actions.push(Action::Beat(self.life));
        }
        if let Some(view) = self.wish(now) {
            let is_new =
                self.proposed.is_none_or(|(revision, at)| revision != self.revision || now >= at + PATIENCE);
            if is_new {
                self.proposed = Some((self.revision, now));
                actions.push(Action::Propose(self.revision, view));
            }
        }
        actions
    }

    /// The others that live.
    fn others(&self) -> impl Iterator<Item = NodeId> {
        self.view.alive().filter(|node| *node != self.me)
    }

    /// Of the others, those within hearing.
    fn within_hearing(&self, now: Duration) -> usize {
        self.others().filter(|node| self.was_heard(*node, HEARING, now)).count()
    }

    /// Whether less than half of the others are within hearing.
    fn hears_few(&self, now: Duration) -> bool {
        self.within_hearing(now) * 2 < self.others().count()
    }

    /// Whether it hears hardly anybody, and so is cut off itself. Of a pair nobody can know.
    fn is_alone(&self, now: Duration) -> bool {
        let others = self.others().count();
        others > 1 && self.within_hearing(now) * 2 < others - 1
    }

    /// The view that this node would rather have.
    fn wish(&self, now: Duration) -> Option<View> {
        if !self.is_in() {
            let is_exiled = self.given_up.is_some_and(|at| now < at + EXILE) && self.hears_few(now);
            return (!is_exiled).then(|| self.view.with(self.me, self.life, self.knows));
        }
        // Of a pair each may give up the other, and the record knows one winner.
        let silent: Vec<NodeId> =
            self.others().filter(|node| !self.was_heard(*node, SUSPICION, now)).collect();
        let waits = self.alone_since.is_some_and(|since| now < since + LONELY);
        if silent.is_empty() || waits {
            return None;
        }
        Some(silent.iter().fold(self.view.clone(), |view, node| view.without(*node)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use scalebricks_types::PartitionCount;

    const TICK: Duration = Duration::from_millis(20);

    /// Nodes, the record, and a network that loses beats.
    struct World {
        rng: SmallRng,
        now: Duration,
        record: Option<(Revision, View)>,
        nodes: Vec<Membership>,
        stopped: Vec<bool>,
        /// Those whose beats nobody hears, and who hear nobody.
        cut: Vec<bool>,
        loss: f64,
    }

    fn id(number: usize) -> NodeId {
        NodeId::new(number as u8)
    }

    fn nobody() -> View {
        View::empty(PartitionCount::new(16).unwrap())
    }

    impl World {
        fn new(seed: u64, nodes: usize) -> Self {
            let mut rng = SmallRng::seed_from_u64(seed);
            let machines = (0..nodes).map(|number| {
                // Nobody beats in step with the others.
                let start = Duration::from_millis(rng.random_range(0..200));
                Membership::new(id(number), nobody(), None, start)
            });
            let machines: Vec<Membership> = machines.collect();
            Self {
                rng,
                now: Duration::ZERO,
                record: None,
                nodes: machines,
                stopped: vec![false; nodes],
                cut: vec![false; nodes],
                loss: 0.0,
            }
        }

        fn run(&mut self, time: Duration) {
            let until = self.now + time;
            while self.now < until {
                self.now += TICK;
                for number in 0..self.nodes.len() {
                    if !self.stopped[number] {
                        self.turn(number);
                    }
                }
            }
        }

        fn turn(&mut self, number: usize) {
            // The record is read with some delay.
            if let Some((revision, view)) = self.record.clone()
                && self.rng.random_bool(0.5)
            {
                self.nodes[number].viewed(revision, view, self.now);
            }
            for action in self.nodes[number].poll(self.now) {
                match action {
                    Action::Beat(life) => {
                        for other in 0..self.nodes.len() {
                            let is_lost =
                                self.cut[number] || self.cut[other] || self.rng.random_bool(self.loss);
                            if other != number && !self.stopped[other] && !is_lost {
                                self.nodes[other].heard(id(number), life, self.now);
                            }
                        }
                    }
                    Action::Propose(expected, view) => {
                        if self.record.as_ref().map(|(revision, _)| *revision) == expected {
                            let revision = Revision(expected.map_or(1, |revision| revision.0 + 1));
                            self.record = Some((revision, view));
                        }
                    }
                }
            }
        }

        fn alive(&self) -> Vec<usize> {
            let view = self.record.as_ref().map(|(_, view)| view);
            view.into_iter().flat_map(View::alive).map(|node| usize::from(node.get())).collect()
        }

        fn epoch(&self) -> u64 {
            self.record.as_ref().map_or(0, |(_, view)| view.epoch())
        }
    }

    #[test]
    fn all_find_together_and_nothing_changes_without_a_reason() {
        for seed in 0..50 {
            for nodes in [1, 2, 3, 4, 8] {
                let mut world = World::new(seed, nodes);
                world.run(Duration::from_secs(3));
                assert_eq!(world.alive(), (0..nodes).collect::<Vec<_>>(), "seed {seed}");
                let epoch = world.epoch();
                world.loss = 0.02; // four in a row are hardly ever lost
                world.run(Duration::from_secs(5));
                assert_eq!(world.epoch(), epoch, "seed {seed}");
                assert!(world.nodes.iter().all(Membership::is_in));
            }
        }
    }

    #[test]
    fn the_few_that_are_left_give_up_all_others() {
        for seed in 0..50 {
            for (nodes, left) in [(5, 2), (8, 2), (16, 3)] {
                let mut world = World::new(seed, nodes);
                world.run(Duration::from_secs(3));
                world.stopped[left..].fill(true);
                world.run(LONELY + HEARING + Duration::from_secs(1));
                assert_eq!(world.alive(), (0..left).collect::<Vec<_>>(), "seed {seed}");
            }
        }
    }

    #[test]
    fn nobody_is_given_up_while_nobody_hears_anybody() {
        for seed in 0..50 {
            for nodes in [3, 4, 8] {
                let mut world = World::new(seed, nodes);
                world.run(Duration::from_secs(3));
                let epoch = world.epoch();
                world.cut.fill(true);
                world.run(LONELY * 4);
                assert_eq!(world.epoch(), epoch, "seed {seed}");
                world.cut.fill(false);
                world.run(Duration::from_secs(5));
                assert_eq!(world.epoch(), epoch, "seed {seed}");
            }
        }
    }

    #[test]
    fn the_few_that_are_cut_off_give_up_nobody() {
        for seed in 0..50 {
            for (nodes, few) in [(3, 1), (4, 1), (5, 1), (8, 1)] {
                let mut world = World::new(seed, nodes);
                world.run(Duration::from_secs(3));
                world.cut[..few].fill(true);
                world.run(LONELY * 2);
                assert_eq!(world.alive(), (few..nodes).collect::<Vec<_>>(), "seed {seed}");
                world.cut.fill(false);
                world.run(Duration::from_secs(3));
                assert_eq!(world.alive(), (0..nodes).collect::<Vec<_>>(), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_dead_node_is_given_up_within_a_second_and_a_little() {
        for seed in 0..50 {
            for nodes in [2, 3, 4, 8] {
                let mut world = World::new(seed, nodes);
                world.run(Duration::from_secs(3));
                world.stopped[1] = true;
                // Its last beat may be 200 ms old.
                world.run(Duration::from_millis(780));
                assert!(world.alive().contains(&1), "seed {seed}: too soon");
                world.run(Duration::from_millis(420));
                assert!(!world.alive().contains(&1), "seed {seed}: {nodes} nodes");
                let view = &world.record.as_ref().unwrap().1;
                assert_eq!(view.partitions_of(id(1)).count(), 0);
                // It wakes, gives nobody up, learns that it was given up, and begins another life.
                let epoch = world.epoch();
                world.stopped[1] = false;
                world.run(Duration::from_secs(2));
                assert_eq!((world.alive().len(), world.epoch()), (nodes, epoch + 1), "seed {seed}");
                assert!(world.nodes[1].is_in() && world.nodes[1].life() == 2);
            }
        }
    }

    #[test]
    fn a_node_alone_gives_up_nobody_and_is_given_up() {
        for seed in 0..50 {
            let mut world = World::new(seed, 4);
            world.run(Duration::from_secs(3));
            // The first in turn: it would be the first to give up, too.
            world.cut[0] = true;
            world.run(Duration::from_millis(1_200));
            assert_eq!(world.alive(), [1, 2, 3], "seed {seed}");
            let epoch = world.epoch();
            world.run(Duration::from_secs(20));
            assert_eq!(world.epoch(), epoch, "it does not come and go");
            world.cut[0] = false;
            world.run(Duration::from_secs(2));
            assert_eq!(world.alive(), [0, 1, 2, 3], "seed {seed}");
            assert_eq!(
                world.epoch(),
                epoch + 1,
                "seed {seed}: it came back, and gave nobody up whom it heard late"
            );
        }
    }

    /// Their beats come one after the other when it hears them again, and the last may come late.
    #[test]
    fn whoever_hears_the_others_again_gives_none_of_them_up() {
        for seed in 0..50 {
            for cut in [700, 900, 3_000] {
                let mut world = World::new(seed, 8);
                world.run(Duration::from_secs(3));
                world.cut[3] = true;
                world.run(Duration::from_millis(cut));
                world.cut[3] = false;
                world.run(Duration::from_secs(3));
                let lives: Vec<u64> = world.nodes.iter().map(Membership::life).collect();
                let others = [0, 1, 2, 4, 5, 6, 7];
                assert!(others.iter().all(|&other| lives[other] == 1), "seed {seed}, {cut} ms: {lives:?}");
                assert_eq!(world.alive().len(), 8, "seed {seed}");
            }
        }
    }

    #[test]
    fn when_all_were_stopped_at_once_nobody_is_given_up() {
        for seed in 0..50 {
            let mut world = World::new(seed, 4);
            world.run(Duration::from_secs(3));
            let epoch = world.epoch();
            world.stopped.fill(true);
            world.run(Duration::from_secs(5));
            world.stopped.fill(false);
            world.run(Duration::from_secs(3));
            assert_eq!((world.alive().len(), world.epoch()), (4, epoch), "seed {seed}");
        }
    }

    #[test]
    fn one_of_a_pair_goes_on_alone() {
        for seed in 0..50 {
            let mut world = World::new(seed, 2);
            world.run(Duration::from_secs(3));
            world.cut[0] = true;
            world.run(Duration::from_secs(10));
            assert_eq!(world.alive().len(), 1, "seed {seed}");
            world.cut[0] = false;
            world.run(Duration::from_secs(2));
            assert_eq!(world.alive(), [0, 1], "seed {seed}");
        }
    }
}

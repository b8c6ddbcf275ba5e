//! Decides which nodes are alive.
//!
//! `docs/adr/0028-membership-by-witnesses.md` explains the rules, and proves that they cannot cycle. Suspension is in `unfit.rs`.

use super::beat::{Beat, HearingReport};
use super::fitness::Fitness;
use super::hearing::Hearing;
use super::pulses::{PULSE, PULSELESS, Pulses};
use super::returning::RejoinDelay;
use super::unfit::FitnessState;
use super::view::View;
use super::{BEAT, CONFIRM, CONTEST, HEARING, PATIENCE, PAUSE, REFUTE_EVERY, SUSPICION};
use crate::engine::Revision;
use crate::version::Version;
use scalebricks_types::{NodeId, NodeSet};
use std::collections::BTreeMap;
use std::time::Duration;

/// An action for the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send this heartbeat to all other nodes.
    Beat(Beat),
    /// Swap the record, if it is still at this revision (`None`: if there is none), for this view.
    Propose(Option<Revision>, View),
    /// Publish a pulse of this node through the engine.
    Pulse,
    /// Hand the pulses of all nodes, this one's too, to [`Membership::pulsed`] from now on, or stop that.
    Listen(bool),
}

/// The machine. Time is that of a clock that never goes back, the same in all calls.
#[derive(Debug)]
pub struct Membership {
    me: NodeId,
    knows: Version,
    /// This life; 0 before the first view, which names the previous life.
    life: u64,
    view: View,
    revision: Option<Revision>,
    hearing: Hearing,
    pulses: Pulses,
    pub(super) fit: FitnessState,
    last_poll: Duration,
    next_beat: Duration,
    last_beat: Duration,
    /// Another node reported that it does not hear this node.
    refutes: bool,
    next_pulse: Duration,
    listens: bool,
    proposed: Option<(Option<Revision>, Duration)>,
    returning: RejoinDelay,
}

impl Membership {
    /// A node that starts. `view` and `revision` are the record as it was read, or an empty view and `None`.
    pub fn new(me: NodeId, view: View, revision: Option<Revision>, now: Duration) -> Self {
        // A new life: messages of earlier lives are ignored.
        let life = view.member(me).map_or(0, |member| member.life) + 1;
        let mut machine = Self {
            me,
            knows: Version::NEWEST,
            life,
            view,
            revision,
            hearing: Hearing::default(),
            pulses: Pulses::new(me),
            fit: FitnessState::default(),
            last_poll: now,
            next_beat: now,
            last_beat: Duration::ZERO,
            refutes: false,
            next_pulse: now,
            listens: false,
            proposed: None,
            returning: RejoinDelay::default(),
        };
        machine.give_everybody_time(now);
        machine.fit.viewed(&machine.view, now);
        machine
    }

    /// The same, of a node that holds itself to this version, as if it knew no newer.
    #[must_use]
    pub(crate) const fn holding_to(mut self, version: Version) -> Self {
        self.knows = version;
        self
    }

    /// The node.
    pub(super) const fn me(&self) -> NodeId {
        self.me
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

    /// Whether the view has this node alive in this life. Only then may it act on what it owns.
    pub fn is_in(&self) -> bool {
        self.view.member(self.me).is_some_and(|member| member.is_alive && member.life == self.life)
    }

    /// How fit this node is, to be sent with its heartbeats.
    pub const fn set_fitness(&mut self, fitness: Fitness) {
        self.fit.now = fitness;
    }

    /// The newest report of another node; `None` before the first.
    pub fn report(&self, of: NodeId) -> Option<&HearingReport> {
        self.hearing.report(of)
    }

    /// The record was read. Older revisions are ignored.
    pub fn viewed(&mut self, revision: Revision, view: View, now: Duration) {
        if self.revision.is_some_and(|known| known >= revision) {
            return;
        }
        for node in view.alive() {
            if self.view.member(node) != view.member(node) {
                self.hearing.grant(node, now);
            }
        }
        let was_in = self.is_in();
        let member = view.member(self.me);
        let life = member.map_or(0, |member| member.life);
        // Another process started under the same number, or this node was removed: a new life begins.
        if life > self.life || member.is_some_and(|member| life == self.life && !member.is_alive) {
            self.life = life.max(self.life) + 1;
        }
        (self.view, self.revision, self.proposed) = (view, Some(revision), None);
        self.fit.viewed(&self.view, now);
        if self.is_in() {
            self.returning.joined(now);
        } else if was_in {
            self.returning.removed(now);
        }
    }

    /// A heartbeat was received.
    pub fn heard(&mut self, from: NodeId, beat: &Beat, now: Duration) {
        self.hearing.received(from, beat, now);
        self.refutes |= !beat.report.hears.contains(self.me);
    }

    /// A pulse of a node came through the engine.
    pub fn pulsed(&mut self, node: NodeId, now: Duration) {
        self.pulses.received(node, now);
    }

    fn give_everybody_time(&mut self, now: Duration) {
        self.view.alive().for_each(|node| self.hearing.grant(node, now));
    }

    /// Returns the actions that are due. Call it about every 100 ms and after every event.
    pub fn poll(&mut self, now: Duration) -> Vec<Action> {
        // After such a pause this node itself was stopped, and has received nothing for that reason.
        if now >= self.last_poll + PAUSE {
            self.give_everybody_time(now);
            self.fit.paused();
        }
        self.last_poll = now;
        let mut actions = Vec::new();
        let is_news = self.refutes || self.fit.now != self.fit.told;
        let refutes = is_news && now >= self.last_beat + REFUTE_EVERY;
        if now >= self.next_beat || refutes {
            (self.next_beat, self.last_beat, self.refutes) = (now + BEAT, now, false);
            self.fit.told = self.fit.now;
            actions.push(Action::Beat(self.beat(now)));
        }
        if now >= self.next_pulse {
            self.next_pulse = now + PULSE;
            actions.push(Action::Pulse);
        }
        let listens =
            !self.is_in() || self.others().any(|(node, life)| self.is_silent(node, life, HEARING, now));
        if listens != self.listens {
            self.listens = listens;
            actions.push(Action::Listen(listens));
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

    fn beat(&self, now: Duration) -> Beat {
        let mut hears: NodeSet = self.hearing.set(now);
        hears.insert(self.me);
        let grants = self.witnesses(now).collect();
        let report = HearingReport { epoch: self.view.epoch(), hears, fitness: self.fit.now, grants };
        Beat { life: self.life, report }
    }

    /// The other members, with their lives.
    fn others(&self) -> impl Iterator<Item = (NodeId, u64)> {
        let alive = self.view.members().filter(|(node, member)| member.is_alive && *node != self.me);
        alive.map(|(node, member)| (node, member.life))
    }

    fn is_silent(&self, node: NodeId, life: u64, within: Duration, now: Duration) -> bool {
        self.hearing.is_silent(node, life, within, now)
    }

    /// The newest report of a member that this node hears, and when it was received.
    pub(super) fn witness_report(&self, node: NodeId, now: Duration) -> Option<(Duration, &HearingReport)> {
        let member = self.view.member(node)?;
        let is_heard = self.hearing.hears(node, member.life, HEARING, now);
        self.hearing.newest(node).filter(|_| is_heard)
    }

    /// The other members that this node hears: their reports count.
    fn witnesses(&self, now: Duration) -> impl Iterator<Item = NodeId> {
        let heard = self.others().filter(move |(node, life)| self.hearing.hears(*node, *life, HEARING, now));
        heard.map(|(node, _)| node)
    }

    /// The members with whom this node has contact in both directions.
    fn mutual(&self, now: Duration) -> impl Iterator<Item = NodeId> {
        let hears_me =
            |node: &NodeId| self.hearing.report(*node).is_none_or(|report| report.hears.contains(self.me));
        self.witnesses(now).filter(hears_me)
    }

    /// The view that this node would rather have.
    fn wish(&mut self, now: Duration) -> Option<View> {
        if self.is_in() {
            let gone: Vec<NodeId> = self
                .others()
                .filter(|(node, life)| self.is_gone(*node, *life, now))
                .map(|(node, _)| node)
                .collect();
            let next = gone.iter().fold(self.view.clone(), |view, node| view.without(*node));
            let next = self.with_suspensions(next, now);
            return (next.epoch() != self.view.epoch()).then(|| self.forgiving(next, now));
        }
        let is_new = !self.returning.has_been_in();
        let joins = if self.view.member(self.me).is_some_and(|member| member.is_alive) {
            // The view has an earlier process under this number. The first view that a process knows may be replaced at once;
            // a process that was replaced itself waits until its successor is removed.
            is_new
        } else {
            let (members, mutual) = (self.others().count(), self.mutual(now).count());
            let all_gone = self.others().all(|(node, _)| self.pulses.is_missing(node, now));
            self.returning.may_join(members, mutual, now) || all_gone
        };
        let joined = || self.joined(self.view.with(self.me, self.life, self.knows), is_new, now);
        joins.then(|| self.forgiving(joined(), now))
    }

    /// Whether a member is to be removed: this node does not hear it, and
    ///
    /// - it beats in a newer life, so this one is over, or
    /// - at least half of all members, this node included, do not hear it, or
    /// - no witness hears it, and it has no contact with the engine while this node has.
    fn is_gone(&self, node: NodeId, life: u64, now: Duration) -> bool {
        if !self.is_silent(node, life, SUSPICION, now) {
            return false;
        }
        self.hearing.has_ended(node, life, SUSPICION, now)
            || self.is_given_up_by_half(node, life, now)
            || (self.is_silent(node, life, PULSELESS, now)
                && self.pulses.is_missing(node, now)
                && !self.witnesses(now).any(|witness| self.hearing.vouches(witness, node)))
    }

    /// Whether at least half of all members do not hear a node that this node does not hear. If a member may still hear it, the
    /// others have to deny that for longer, as a few lost heartbeats could decide.
    fn is_given_up_by_half(&self, node: NodeId, life: u64, now: Duration) -> bool {
        let members = 1 + self.others().count();
        let denials = |span: Duration| {
            1 + self.witnesses(now).filter(|witness| self.hearing.denies(*witness, node, span)).count()
        };
        let against = denials(CONFIRM);
        if against * 2 < members {
            return false;
        }
        // The members that are heard: this node, its witnesses, and the nodes that these hear.
        let is_heard = |other: NodeId| {
            let mut witnesses = self.witnesses(now);
            witnesses.any(|witness| witness == other || self.hearing.vouches(witness, other))
        };
        let heard = 1 + self.others().filter(|(other, _)| *other != node && is_heard(*other)).count();
        against == heard
            || (self.is_silent(node, life, SUSPICION + CONTEST, now) && denials(CONTEST) * 2 >= members)
    }

    /// The members to reach through another, and through which.
    pub fn relays(&self, now: Duration) -> BTreeMap<NodeId, NodeId> {
        self.others().filter_map(|(node, _)| Some((node, self.relay(node, now)?))).collect()
    }

    /// The relay to a member that has no contact with this node in both directions: a node that has contact with both. `None`: send
    /// directly.
    fn relay(&self, to: NodeId, now: Duration) -> Option<NodeId> {
        if to == self.me || self.mutual(now).any(|node| node == to) {
            return None;
        }
        let hears = |witness: &NodeId| match self.hearing.report(to) {
            // Its last report, if that is recent.
            Some(report) if self.witnesses(now).any(|node| node == to) => report.hears.contains(*witness),
            _ => true,
        };
        let reports =
            |witness: &NodeId| self.hearing.report(*witness).is_some_and(|report| report.hears.contains(to));
        let between = self.mutual(now).filter(|witness| *witness != to && reports(witness) && hears(witness));
        // Pairs of nodes choose different ones, and a pair the same as long as it can.
        between.min_by_key(|witness| witness.get().wrapping_sub(to.get()).wrapping_sub(self.me.get()))
    }
}

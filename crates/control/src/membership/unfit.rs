//! A node's part in deciding which members are suspended, and in lifting its own suspension.
//!
//! The rules are argued, and proven not to cycle, in `docs/adr/0030-unfit-members-are-suspended.md`.

use super::fitness::{Fitness, Unfitness};
use super::machine::Membership;
use super::returning::{CALM, LONGEST_HOLD};
use super::suspension::Suspension;
use super::view::View;
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a suspended member has to be fit before it takes flows again, the first time.
pub const FIT_HOLD: Duration = Duration::from_secs(2);

/// A new process of a node with at least so many recent lapses takes flows only after it has run for a while.
pub const RESTARTS: u8 = 2;

impl Unfitness {
    /// How long a node has to report this reason before others act on it: nodes with the same failure notice it within this time.
    pub const fn confirm(self) -> Duration {
        match self {
            Self::Worker => Duration::from_millis(300),
            Self::FabricLink | Self::Fabric | Self::InternetLink | Self::RanLink => {
                Duration::from_millis(600)
            }
            // Each node finds out by questions of its own.
            Self::InternetNextHop | Self::RanNextHop => Duration::from_millis(800),
        }
    }

    /// Whether another node does better than one with this reason. A node that reaches few others over the fabric
    /// does better than one without a link: it may be the one that is not reached.
    pub fn is_better(self, other: Fitness) -> bool {
        match self {
            Self::FabricLink => !other.has(Self::FabricLink),
            _ => other.is_fit_in(self.respect()),
        }
    }
}

/// This node's fitness, and how long other nodes have been able.
#[derive(Debug, Default)]
pub(super) struct FitnessState {
    pub(super) now: Fitness,
    /// The fitness in the last heartbeat.
    pub(super) told: Fitness,
    /// Since when members have given reasons why they are not fit, while at least half of the others did better.
    worse: BTreeMap<(NodeId, Unfitness), Duration>,
    /// Since when nothing has stood against lifting this suspension of this node.
    lifts: Option<(Suspension, Duration)>,
    /// Since when nodes have been able, by life and lapses.
    able: BTreeMap<NodeId, (u64, u8, Duration)>,
}

impl FitnessState {
    /// The view is now this one.
    pub(super) fn viewed(&mut self, view: &View, now: Duration) {
        let before = std::mem::take(&mut self.able);
        for (node, member) in view.members().filter(|(node, _)| view.is_able(*node)) {
            let same = (member.life, view.lapses(node));
            let since = before.get(&node).filter(|(life, lapses, _)| (*life, *lapses) == same);
            self.able.insert(node, (same.0, same.1, since.map_or(now, |(_, _, since)| *since)));
        }
    }

    /// Whether a node has been able for long enough for its lapses to be forgotten.
    fn is_calm(&self, node: NodeId, now: Duration) -> bool {
        self.able.get(&node).is_some_and(|(_, _, since)| now >= *since + CALM)
    }

    /// This node was paused: it does not know how fit other nodes were.
    pub(super) fn paused(&mut self) {
        self.lifts = None;
        self.worse.clear();
    }
}

/// How long a member that is suspended for this reason has to be fit, after so many lapses.
fn hold(suspension: Suspension, lapses: u8) -> Duration {
    let free = match suspension {
        Suspension::Unfit(_) => 1,
        Suspension::Restarts => RESTARTS,
    };
    let doublings = u32::from(lapses.saturating_sub(free)).min(5); // more is beyond the longest
    (FIT_HOLD * 2_u32.pow(doublings)).min(LONGEST_HOLD)
}

impl Membership {
    /// The view with the suspensions that it should have.
    pub(super) fn with_suspensions(&mut self, mut view: View, now: Duration) -> View {
        self.compare(now);
        let me = self.me();
        // One after the other: a suspended node does not count as a replacement for the next.
        let members: Vec<NodeId> = self.view().alive().collect();
        let mut is_unfit = false;
        for node in members {
            let reasons = self.reasons_against(node, &view, now);
            let known = self.view().suspension(node);
            let is_known = |reason: Unfitness| matches!(known, Some(Suspension::Unfit(known)) if !known.is_fit_in(reason.respect()));
            if reasons.reasons().any(|reason| !is_known(reason)) {
                is_unfit |= node == me;
                view = view.with_suspended(node, Suspension::Unfit(reasons));
            }
        }
        if self.lifts(now) && !is_unfit { view.without_suspension(me) } else { view }
    }

    /// The view without lapses that are long ago.
    pub(super) fn forgiving(&self, view: View, now: Duration) -> View {
        view.forgiving(|node| self.fit.is_calm(node, now))
    }

    /// The view by which this node joins. The node is suspended from the beginning if the others would suspend it for its present
    /// fitness, or if it is a new process and earlier ones ended too often recently, more often than those of other nodes.
    pub(super) fn joined(&self, view: View, is_new: bool, now: Duration) -> View {
        let is_other_able = view.alive().any(|node| node != self.me() && view.is_able(node));
        if !is_other_able {
            return view;
        }
        let is_worse = |reason: &Unfitness| self.do_better(self.me(), *reason, &view, None, now);
        let unfit: Fitness = self.fit.now.reasons().filter(is_worse).collect();
        let suspension = if !unfit.is_fit() {
            Suspension::Unfit(unfit)
        } else if is_new && self.is_less_steady(&view) {
            Suspension::Restarts
        } else {
            return view;
        };
        view.joined_suspended(self.me(), suspension)
    }

    /// Whether this node has [`RESTARTS`] more lapses than at least half of the others. If all were restarted at once, no node is a
    /// better heir than another.
    fn is_less_steady(&self, view: &View) -> bool {
        let lapses = view.lapses(self.me());
        let others = || view.alive().filter(|node| *node != self.me());
        let is_steadier = |node: &NodeId| view.lapses(*node).saturating_add(RESTARTS) <= lapses;
        let steadier = others().filter(|node| view.is_able(*node)).filter(is_steadier).count();
        steadier > 0 && steadier * 2 >= others().count()
    }

    /// Notes which members do worse than at least half of the others, and since when.
    fn compare(&mut self, now: Duration) {
        let before = std::mem::take(&mut self.fit.worse);
        let mut worse = BTreeMap::new();
        for node in self.view().alive() {
            let Some((_, fitness)) = self.said(node, now) else { continue };
            for reason in
                fitness.reasons().filter(|reason| self.do_better(node, *reason, self.view(), None, now))
            {
                worse.insert((node, reason), before.get(&(node, reason)).copied().unwrap_or(now));
            }
        }
        self.fit.worse = worse;
    }

    /// The reasons to suspend a member: it did worse than at least half of the others for long enough, by reports that are newer than
    /// that time. `view` is the next view so far.
    fn reasons_against(&self, node: NodeId, view: &View, now: Duration) -> Fitness {
        let Some((last, _)) = self.said(node, now) else { return Fitness::FIT };
        let is_due = |reason: &Unfitness| {
            self.fit.worse.get(&(node, *reason)).is_some_and(|since| {
                let confirmed = *since + reason.confirm();
                last >= confirmed && self.do_better(node, *reason, view, Some(confirmed), now)
            })
        };
        Unfitness::ALL.into_iter().filter(is_due).collect()
    }

    /// The fitness of a member and its time: now for this node, the last heartbeat for others that are heard.
    fn said(&self, node: NodeId, now: Duration) -> Option<(Duration, Fitness)> {
        if node == self.me() {
            return self.is_in().then_some((now, self.fit.now));
        }
        self.witness_report(node, now).map(|(at, report)| (at, report.fitness))
    }

    /// Whether at least half of the other members do better in this respect: they are not suspended, and have reported so since
    /// `no_earlier`.
    fn do_better(
        &self,
        than: NodeId,
        reason: Unfitness,
        view: &View,
        no_earlier: Option<Duration>,
        now: Duration,
    ) -> bool {
        let others = || view.alive().filter(|node| *node != than);
        let is_better = |node: &NodeId| {
            let said =
                self.said(*node, now).filter(|(at, _)| no_earlier.is_none_or(|earliest| *at >= earliest));
            said.is_some_and(|(_, fitness)| reason.is_better(fitness))
        };
        let better = others().filter(|node| view.is_able(*node)).filter(is_better).count();
        better > 0 && better * 2 >= others().count()
    }

    /// Whether this node's suspension is to end: nothing that it is suspended for has been the case for long enough.
    fn lifts(&mut self, now: Duration) -> bool {
        let me = self.me();
        let suspension = self.view().suspension(me);
        let well = suspension.filter(|suspension| match suspension {
            Suspension::Unfit(reasons) => {
                reasons.reasons().all(|reason| self.fit.now.is_fit_in(reason.respect()))
            }
            Suspension::Restarts => self.fit.now.is_fit(),
        });
        let since = self.fit.lifts.filter(|(of, _)| Some(*of) == well).map_or(now, |(_, since)| since);
        self.fit.lifts = well.map(|suspension| (suspension, since));
        well.is_some_and(|suspension| now >= since + hold(suspension, self.view().lapses(me)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::HEARING;

    #[test]
    fn whoever_lapses_often_waits_longer_up_to_a_minute() {
        let seconds = |suspension, lapses| hold(suspension, lapses).as_secs();
        let unfit = Suspension::Unfit(Fitness::FIT.with(Unfitness::Worker));
        assert_eq!([1, 2, 3, 5, 6, 255].map(|lapses| seconds(unfit, lapses)), [2, 4, 8, 32, 60, 60]);
        assert_eq!([2, 3, 4, 7, 255].map(|lapses| seconds(Suspension::Restarts, lapses)), [2, 4, 8, 60, 60]);
    }

    #[test]
    fn a_node_without_a_link_is_worse_off_than_one_that_does_not_reach_it() {
        let [link, unreached] =
            [Unfitness::FabricLink, Unfitness::Fabric].map(|reason| Fitness::FIT.with(reason));
        assert!(Unfitness::FabricLink.is_better(unreached) && !Unfitness::FabricLink.is_better(link));
        assert!(!Unfitness::Fabric.is_better(link) && !Unfitness::Fabric.is_better(unreached));
        for reason in Unfitness::ALL {
            assert!(reason.is_better(Fitness::FIT) && !reason.is_better(Fitness::FIT.with(reason)));
            // A report counts for [`HEARING`]: all that are given for a longer time were given in several.
            assert!(reason.confirm() < HEARING * 2);
        }
    }
}

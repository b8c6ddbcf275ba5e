//! Derives from observations why a node is unfit. Does no I/O: observations and the time go in, conditions come out.
//!
//! | reason | observed if | for |
//! |---|---|---|
//! | `worker` | a worker made no turn for 500 ms | at once |
//! | `*_link` | the link is down | 100 ms |
//! | `fabric` | fewer than half of the other members are reached over the fabric | 500 ms |
//! | `*_next_hop` | no next hop of the link answers ([`LinkSilence`]) | at once |
//!
//! A reason ends when it was not observed for 1 s, so that a flapping link makes one change and not many. If the last
//! observation is 500 ms old, the whole process was stopped: then reasons that this may explain do not count until 500
//! ms have passed again.

use scalebricks_control::membership::{Fitness, Unfitness};
use scalebricks_elements::gateway::PortRole;
use scalebricks_elements::gateway::local::LinkSilence;
use scalebricks_types::NodeId;
use std::time::Duration;

/// A worker that made no turn for this time is stuck.
pub const WORKER_SILENCE: Duration = Duration::from_millis(500);
/// An observation that is late by this time shows that the process was stopped.
pub const STOPPED: Duration = Duration::from_millis(500);
/// How long a link must be down before the node is unfit.
pub const LINK_DEBOUNCE: Duration = Duration::from_millis(100);
/// How long too few nodes must be reached before the node is unfit.
pub const FABRIC_DEBOUNCE: Duration = Duration::from_millis(500);
/// How long a reason must not be observed before it ends.
pub const RECOVERY: Duration = Duration::from_secs(1);

/// The nodes that a node reaches over the fabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Number of other members that take part in probing.
    pub others: usize,
    /// The members that are not reached, ascending.
    pub missing: Vec<NodeId>,
}

impl Reach {
    /// Whether fewer than half are reached.
    const fn is_poor(&self) -> bool {
        let reached = self.others.saturating_sub(self.missing.len());
        2 * reached < self.others
    }
}

/// An observation at one moment.
#[derive(Debug, Clone, Default)]
pub struct Observation {
    /// Its time since the process's start.
    pub now: Duration,
    /// When each worker last made a turn.
    pub workers: Vec<Duration>,
    /// Whether each port's link is up, by [`PortRole`]; `None` if unknown.
    pub links: [Option<bool>; 3],
    /// The silences of the Internet link and the base-station link.
    pub silences: [Option<LinkSilence>; 2],
    /// The nodes reached over the fabric; `None` if unknown.
    pub reach: Option<Reach>,
}

/// Why a node is unfit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The reason.
    pub reason: Unfitness,
    /// When it was first observed: the time since the process's start.
    pub since: Duration,
    /// The last observation, as text.
    pub detail: String,
}

/// The state of one reason.
#[derive(Debug, Clone, Default)]
struct Track {
    /// Since when it has been observed, without a break of [`RECOVERY`].
    seen_since: Option<Duration>,
    last_seen: Duration,
    is_held: bool,
    detail: String,
}

/// Derives from observations why a node is unfit.
#[derive(Debug, Default)]
pub struct Health {
    last_observed: Option<Duration>,
    /// When the process last began to run; earlier observations do not count.
    runs_since: Duration,
    tracks: [Track; Unfitness::ALL.len()],
}

impl Health {
    /// Creates the state of a node that was not observed yet: fit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an observation; times must not decrease.
    pub fn observe(&mut self, observed: &Observation) {
        let now = observed.now;
        let was_stopped = self.last_observed.is_none_or(|last| last.saturating_add(STOPPED) <= now);
        self.last_observed = Some(now);
        if was_stopped {
            self.runs_since = now;
            for track in self.tracks.iter_mut().filter(|track| !track.is_held) {
                track.seen_since = None;
            }
        }
        for (reason, track) in Unfitness::ALL.into_iter().zip(&mut self.tracks) {
            match detail(reason, observed, self.runs_since) {
                Some(detail) => track.see(detail, now, debounce(reason)),
                None => track.miss(now, was_stopped),
            }
        }
    }

    /// Why the node is unfit, in the order of [`Unfitness::ALL`].
    pub fn conditions(&self) -> Vec<Condition> {
        let held = Unfitness::ALL.into_iter().zip(&self.tracks).filter(|(_, track)| track.is_held);
        held.map(|(reason, track)| Condition {
            reason,
            since: track.seen_since.unwrap_or_default(),
            detail: track.detail.clone(),
        })
        .collect()
    }

    /// The reasons as a set.
    pub fn fitness(&self) -> Fitness {
        let held = Unfitness::ALL.into_iter().zip(&self.tracks).filter(|(_, track)| track.is_held);
        held.map(|(reason, _)| reason).collect()
    }

    /// Whether a port's link is known to be down: frames for it would be lost.
    pub fn is_down(&self, port: PortRole) -> bool {
        let reason = link(port);
        let is_seen = |track: &Track| track.is_held && self.last_observed == Some(track.last_seen);
        Unfitness::ALL.into_iter().zip(&self.tracks).any(|(of, track)| of == reason && is_seen(track))
    }
}

impl Track {
    fn see(&mut self, detail: String, now: Duration, debounce: Duration) {
        let since = *self.seen_since.get_or_insert(now);
        self.last_seen = now;
        self.detail = detail;
        self.is_held |= now >= since.saturating_add(debounce);
    }

    /// Time without observations does not count as recovery.
    fn miss(&mut self, now: Duration, was_stopped: bool) {
        if !self.is_held {
            self.seen_since = None;
        } else if was_stopped {
            self.last_seen = now;
        } else if now >= self.last_seen.saturating_add(RECOVERY) {
            *self = Self::default();
        }
    }
}

/// How long a reason must be observed before it counts.
const fn debounce(reason: Unfitness) -> Duration {
    match reason {
        Unfitness::Worker | Unfitness::InternetNextHop | Unfitness::RanNextHop => Duration::ZERO,
        Unfitness::FabricLink | Unfitness::InternetLink | Unfitness::RanLink => LINK_DEBOUNCE,
        Unfitness::Fabric => FABRIC_DEBOUNCE,
    }
}

/// The reason for a port's link that is down.
const fn link(port: PortRole) -> Unfitness {
    match port {
        PortRole::Internet => Unfitness::InternetLink,
        PortRole::BaseStation => Unfitness::RanLink,
        PortRole::Fabric => Unfitness::FabricLink,
    }
}

/// The observation that supports a reason, as text; `None` if there is none.
fn detail(reason: Unfitness, observed: &Observation, runs_since: Duration) -> Option<String> {
    match reason {
        Unfitness::Worker => workers(observed, runs_since),
        Unfitness::FabricLink => down(observed, PortRole::Fabric),
        Unfitness::InternetLink => down(observed, PortRole::Internet),
        Unfitness::RanLink => down(observed, PortRole::BaseStation),
        Unfitness::Fabric => {
            let reach = observed.reach.as_ref().filter(|reach| reach.is_poor())?;
            let missing: Vec<String> = reach.missing.iter().map(|node| node.get().to_string()).collect();
            let reached = reach.others.saturating_sub(reach.missing.len());
            let (others, missing) = (reach.others, missing.join(", "));
            Some(format!("{reached} of {others} other members reached over the fabric, not node {missing}"))
        }
        Unfitness::InternetNextHop => silent(observed, PortRole::Internet, 0),
        Unfitness::RanNextHop => silent(observed, PortRole::BaseStation, 1),
    }
}

fn workers(observed: &Observation, runs_since: Duration) -> Option<String> {
    let rests = observed.workers.iter().map(|turned| observed.now.saturating_sub((*turned).max(runs_since)));
    let stuck: Vec<String> = rests
        .enumerate()
        .filter(|(_, rest)| *rest >= WORKER_SILENCE)
        .map(|(worker, rest)| format!("worker {worker} made no turn for {:.1} s", rest.as_secs_f64()))
        .collect();
    (!stuck.is_empty()).then(|| stuck.join(", "))
}

fn down(observed: &Observation, port: PortRole) -> Option<String> {
    let is_up = observed.links.get(port as usize).copied().flatten();
    (is_up == Some(false)).then(|| format!("the {port} link is down"))
}

fn silent(observed: &Observation, port: PortRole, at: usize) -> Option<String> {
    let LinkSilence { since, asked } = observed.silences.get(at)?.as_ref()?;
    let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
    let rest = observed.now.saturating_sub(*since).as_secs_f64();
    Some(format!("no answer from {} on the {port} link for {rest:.1} s", asked.join(", ")))
}

#[cfg(test)]
mod tests;

//! From what is seen to why a node is unfit. A machine without I/O: what is seen and the time go in, conditions come out.
//!
//! | reason | seen when | for |
//! |---|---|---|
//! | `worker` | a worker made no turn for 500 ms | at once |
//! | `*_link` | the link is down | 100 ms |
//! | `fabric` | fewer than half of the other members are reached over the fabric | 500 ms |
//! | `*_next_hop` | no next hop of the link answers ([`LinkSilence`]) | at once |
//!
//! A reason goes when it was not seen for 1 s, so that a link that comes and goes makes one change and not many. Whoever looks was
//! stopped himself, with all the process, when his last look is 500 ms old: then nothing is held against the node that may be only
//! that, until 500 ms have passed again.

use scalebricks_control::membership::{Fitness, Unfitness};
use scalebricks_elements::gateway::PortRole;
use scalebricks_elements::gateway::local::LinkSilence;
use scalebricks_types::NodeId;
use std::time::Duration;

/// A worker that made no turn for so long makes no progress.
pub const WORKER_SILENCE: Duration = Duration::from_millis(500);
/// A look that is so late shows that the process was stopped.
pub const STOPPED: Duration = Duration::from_millis(500);
/// How long a link is down before the node is unfit.
pub const LINK_DEBOUNCE: Duration = Duration::from_millis(100);
/// How long too few nodes are reached before the node is unfit.
pub const FABRIC_DEBOUNCE: Duration = Duration::from_millis(500);
/// How long a reason must not be seen before it goes.
pub const RECOVERY: Duration = Duration::from_secs(1);

/// How many of the others a node reaches over the fabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// The other members that take part in probing.
    pub others: usize,
    /// Those of them that are not reached, ascending.
    pub missing: Vec<NodeId>,
}

impl Reach {
    /// Whether fewer than half are reached.
    const fn is_poor(&self) -> bool {
        let reached = self.others.saturating_sub(self.missing.len());
        2 * reached < self.others
    }
}

/// What is seen at one moment.
#[derive(Debug, Clone, Default)]
pub struct Observation {
    /// When: the time since the process's start.
    pub now: Duration,
    /// When each worker last made a turn.
    pub workers: Vec<Duration>,
    /// Whether each port's link is up, by [`PortRole`]; `None` if nobody knows.
    pub links: [Option<bool>; 3],
    /// Whether the next hops of the Internet link and the base-station link are silent.
    pub silences: [Option<LinkSilence>; 2],
    /// Whom the node reaches over the fabric; `None` if nobody knows.
    pub reach: Option<Reach>,
}

/// Why a node is unfit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The reason.
    pub reason: Unfitness,
    /// Since when it has been seen: the time since the process's start.
    pub since: Duration,
    /// What exactly was seen last, in words.
    pub detail: String,
}

/// What is remembered of one reason.
#[derive(Debug, Clone, Default)]
struct Track {
    /// Since when it has been seen without a break of [`RECOVERY`].
    seen_since: Option<Duration>,
    last_seen: Duration,
    is_held: bool,
    detail: String,
}

/// The machine.
#[derive(Debug, Default)]
pub struct Health {
    last_look: Option<Duration>,
    /// When the process last began to run: nothing before that is held against it.
    runs_since: Duration,
    tracks: [Track; Unfitness::ALL.len()],
}

impl Health {
    /// A node of which nothing was seen yet: fit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in what is seen now; time must not go back.
    pub fn look(&mut self, look: &Observation) {
        let now = look.now;
        let was_stopped = self.last_look.is_none_or(|last| last.saturating_add(STOPPED) <= now);
        self.last_look = Some(now);
        if was_stopped {
            self.runs_since = now;
            for track in self.tracks.iter_mut().filter(|track| !track.is_held) {
                track.seen_since = None;
            }
        }
        for (reason, track) in Unfitness::ALL.into_iter().zip(&mut self.tracks) {
            match seen(reason, look, self.runs_since) {
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

    /// The same as a set.
    pub fn fitness(&self) -> Fitness {
        let held = Unfitness::ALL.into_iter().zip(&self.tracks).filter(|(_, track)| track.is_held);
        held.map(|(reason, _)| reason).collect()
    }

    /// Whether a port's link is known to be down now: frames for it would be lost.
    pub fn is_down(&self, port: PortRole) -> bool {
        let reason = link(port);
        let is_seen = |track: &Track| track.is_held && self.last_look == Some(track.last_seen);
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

    /// Time in which nobody looked is no time in which it was well.
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

/// How long a reason must be seen before it counts.
const fn debounce(reason: Unfitness) -> Duration {
    match reason {
        Unfitness::Worker | Unfitness::InternetNextHop | Unfitness::RanNextHop => Duration::ZERO,
        Unfitness::FabricLink | Unfitness::InternetLink | Unfitness::RanLink => LINK_DEBOUNCE,
        Unfitness::Fabric => FABRIC_DEBOUNCE,
    }
}

/// The reason that a port's link is.
const fn link(port: PortRole) -> Unfitness {
    match port {
        PortRole::Internet => Unfitness::InternetLink,
        PortRole::BaseStation => Unfitness::RanLink,
        PortRole::Fabric => Unfitness::FabricLink,
    }
}

/// What is seen of a reason, in words; `None` if nothing speaks for it.
fn seen(reason: Unfitness, look: &Observation, runs_since: Duration) -> Option<String> {
    match reason {
        Unfitness::Worker => workers(look, runs_since),
        Unfitness::FabricLink => down(look, PortRole::Fabric),
        Unfitness::InternetLink => down(look, PortRole::Internet),
        Unfitness::RanLink => down(look, PortRole::BaseStation),
        Unfitness::Fabric => {
            let reach = look.reach.as_ref().filter(|reach| reach.is_poor())?;
            let missing: Vec<String> = reach.missing.iter().map(|node| node.get().to_string()).collect();
            let reached = reach.others.saturating_sub(reach.missing.len());
            let (others, missing) = (reach.others, missing.join(", "));
            Some(format!("{reached} of {others} other members reached over the fabric, not node {missing}"))
        }
        Unfitness::InternetNextHop => silent(look, PortRole::Internet, 0),
        Unfitness::RanNextHop => silent(look, PortRole::BaseStation, 1),
    }
}

fn workers(look: &Observation, runs_since: Duration) -> Option<String> {
    let rests = look.workers.iter().map(|turned| look.now.saturating_sub((*turned).max(runs_since)));
    let stuck: Vec<String> = rests
        .enumerate()
        .filter(|(_, rest)| *rest >= WORKER_SILENCE)
        .map(|(worker, rest)| format!("worker {worker} made no turn for {:.1} s", rest.as_secs_f64()))
        .collect();
    (!stuck.is_empty()).then(|| stuck.join(", "))
}

fn down(look: &Observation, port: PortRole) -> Option<String> {
    let is_up = look.links.get(port as usize).copied().flatten();
    (is_up == Some(false)).then(|| format!("the {port} link is down"))
}

fn silent(look: &Observation, port: PortRole, at: usize) -> Option<String> {
    let LinkSilence { since, asked } = look.silences.get(at)?.as_ref()?;
    let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
    let rest = look.now.saturating_sub(*since).as_secs_f64();
    Some(format!("no answer from {} on the {port} link for {rest:.1} s", asked.join(", ")))
}

#[cfg(test)]
mod tests;

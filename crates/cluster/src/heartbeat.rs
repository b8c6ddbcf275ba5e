//! Sends heartbeats while the actor is busy.
//!
//! The actor sends heartbeats for the agent. The death of a node with many flows keeps it busy for longer than other nodes wait for
//! a heartbeat. So after the agent has requested one, heartbeats continue without it for a while: a slow process stays a member,
//! and a stuck one does not. They report the nodes that the process hears meanwhile, and its fitness.

use super::inbox::Beats;
use scalebricks_control::membership::{Beat, HearingReport};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// A heartbeat is overdue this long after the last.
const OVERDUE: Duration = Duration::from_millis(250);

/// Heartbeats continue for this long after the agent requested one.
const ENDURANCE: Duration = Duration::from_secs(5);

/// Time between two looks.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The beats of a node.
#[derive(Debug, Default)]
pub struct BackupHeartbeat(Mutex<Option<Request>>);

#[derive(Debug, Clone)]
struct Request {
    beat: Beat,
    /// Heartbeats received from other nodes.
    received: Arc<Beats>,
    asked: Instant,
    sent: Instant,
}

impl BackupHeartbeat {
    fn beat(&self) -> MutexGuard<'_, Option<Request>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // whole at any time
    }

    /// The agent has asked for a beat, which is sent.
    pub fn asked(&self, beat: Beat, received: &Arc<Beats>, now: Instant) {
        *self.beat() = Some(Request { beat, received: Arc::clone(received), asked: now, sent: now });
    }

    /// The heartbeat to send now, if one is overdue and the agent requested one recently.
    pub fn overdue(&self, now: Instant) -> Option<Beat> {
        let mut request = self.beat();
        let request = request.as_mut()?;
        let is_due = now >= request.sent + OVERDUE && now < request.asked + ENDURANCE;
        is_due.then(|| {
            request.sent = now;
            let hears = request.received.hears(now);
            // A node that began another life since then may not be the one in the view.
            let same = request.received.hears_since(request.asked, now);
            let fitness = request.received.fitness();
            let grants = request.beat.report.grants.intersection(&same);
            Beat { report: HearingReport { hears, fitness, grants, ..request.beat.report }, ..request.beat }
        })
    }
}

/// Sends heartbeats for a busy agent over a link, until the link ends.
pub async fn beat_on<L: Send + Sync>(
    link: Weak<L>,
    heartbeat: Arc<BackupHeartbeat>,
    send: impl Fn(&L, &Beat) + Send,
) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(link) = link.upgrade() else { return };
        if let Some(beat) = heartbeat.overdue(Instant::now()) {
            send(&link, &beat);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_control::membership::{Fitness, Unfitness};
    use scalebricks_types::NodeId;

    /// A node that is busy reports whom it hears now, not whom it heard when it was asked.
    #[test]
    fn overdue_heartbeats_report_heard_nodes_and_fitness() {
        let (events, _came) = tokio::sync::mpsc::channel(1);
        let inbox = super::super::inbox::Inbox { events, beats: Arc::default() };
        let (heartbeat, start, node) = (BackupHeartbeat::default(), Instant::now(), NodeId::new(7));
        let report =
            HearingReport { hears: [node].into_iter().collect(), epoch: 5, ..HearingReport::default() };
        heartbeat.asked(Beat { life: 1, report }, &inbox.beats, start);
        let overdue = heartbeat.overdue(start + OVERDUE).unwrap().report;
        assert!(!overdue.hears.contains(node) && overdue.epoch == 5);
        inbox.beat(node, Beat { life: 1, report: HearingReport::default() });
        let unfit = Fitness::FIT.with(Unfitness::RanLink);
        inbox.beats.set_fitness(unfit);
        let overdue = heartbeat.overdue(start + OVERDUE * 2).unwrap().report;
        assert!(overdue.hears.contains(node) && overdue.fitness == unfit);
    }

    #[test]
    fn overdue_heartbeats_grant_nothing_to_a_node_in_another_life() {
        let (events, _came) = tokio::sync::mpsc::channel(1);
        let inbox = super::super::inbox::Inbox { events, beats: Arc::default() };
        let (heartbeat, same, other) = (BackupHeartbeat::default(), NodeId::new(7), NodeId::new(8));
        let beat = |life| Beat { life, report: HearingReport::default() };
        inbox.beat(same, beat(1));
        inbox.beat(other, beat(1));
        let (asked, grants) = (Instant::now(), [same, other].into_iter().collect());
        let report = HearingReport { grants, ..HearingReport::default() };
        heartbeat.asked(Beat { life: 1, report }, &inbox.beats, asked);
        while Instant::now() == asked {}
        inbox.beat(other, beat(2));
        let overdue = heartbeat.overdue(asked + OVERDUE).unwrap().report;
        assert!(overdue.grants.contains(same) && !overdue.grants.contains(other));
        assert!(overdue.hears.contains(other));
    }

    #[test]
    fn heartbeats_continue_for_a_busy_actor_and_stop_for_a_stuck_one() {
        let heartbeat = BackupHeartbeat::default();
        let start = Instant::now();
        let received = Arc::default();
        let beat = |life| Beat { life, report: HearingReport::default() };
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        assert_eq!(heartbeat.overdue(at(0)), None, "not requested yet");
        heartbeat.asked(beat(3), &received, at(0));
        assert_eq!(heartbeat.overdue(at(200)), None);
        heartbeat.asked(beat(4), &received, at(200));
        let looks = (4..400).map(|look| look * 50);
        let sent: Vec<u64> = looks.filter(|look| heartbeat.overdue(at(*look)) == Some(beat(4))).collect();
        assert!(sent.windows(2).all(|pair| pair[1] - pair[0] == 250), "{sent:?}");
        assert_eq!((sent.first(), sent.last()), (Some(&450), Some(&4_950)));
        heartbeat.asked(beat(5), &received, at(21_000));
        assert_eq!((heartbeat.overdue(at(21_200)), heartbeat.overdue(at(21_250))), (None, Some(beat(5))));
    }
}

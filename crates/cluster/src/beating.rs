//! Signs of life while the control plane has its hands full.
//!
//! Beats are asked for by the one task that owns the agent. A death of a node with many flows keeps that task busy for longer than
//! the others wait for a beat; so whoever has asked of late goes on beating beside it, for a while: a process that only
//! is slow is not given up, one that stands still is. These beats report whom the process hears meanwhile, and how fit it is.

use super::inbox::Beats;
use scalebricks_control::membership::{Beat, HearingReport};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A beat is overdue so long after the last.
const OVERDUE: Duration = Duration::from_millis(250);

/// For so long after the agent asked for one, beats go on without it.
const ENDURANCE: Duration = Duration::from_secs(5);

/// Time between two looks.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The beats of a node.
#[derive(Debug, Default)]
pub struct Beating(Mutex<Option<Request>>);

#[derive(Debug, Clone)]
struct Request {
    beat: Beat,
    /// What came from the others.
    received: Arc<Beats>,
    asked: Instant,
    sent: Instant,
}

impl Beating {
    fn beat(&self) -> MutexGuard<'_, Option<Request>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // whole at any time
    }

    /// The agent has asked for a beat, which is sent.
    pub fn asked(&self, beat: Beat, received: &Arc<Beats>, now: Instant) {
        *self.beat() = Some(Request { beat, received: Arc::clone(received), asked: now, sent: now });
    }

    /// The beat to send, if one is overdue and the agent has asked of late; it is sent then.
    pub fn overdue(&self, now: Instant) -> Option<Beat> {
        let mut request = self.beat();
        let request = request.as_mut()?;
        let is_due = now >= request.sent + OVERDUE && now < request.asked + ENDURANCE;
        is_due.then(|| {
            request.sent = now;
            let hears = request.received.hears(now);
            // Whoever is in another life since then may not be the one that the view has.
            let same = request.received.hears_since(request.asked, now);
            let fitness = request.received.fitness();
            let report = request.beat.report.map(|report| {
                let grants = report.grants.intersection(&same);
                HearingReport { hears, fitness, grants, ..report }
            });
            Beat { report, ..request.beat }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_control::membership::{Fitness, Unfitness};
    use scalebricks_types::NodeId;

    /// A node that is busy reports whom it hears now, not whom it heard when it was asked.
    #[test]
    fn who_is_busy_reports_whom_it_hears_and_how_fit_it_is() {
        let (events, _came) = tokio::sync::mpsc::channel(1);
        let inbox = super::super::inbox::Inbox { events, beats: Arc::default() };
        let (beating, start, node) = (Beating::default(), Instant::now(), NodeId::new(7));
        let report =
            HearingReport { hears: [node].into_iter().collect(), epoch: 5, ..HearingReport::default() };
        beating.asked(Beat { life: 1, report: Some(report) }, &inbox.beats, start);
        let overdue = beating.overdue(start + OVERDUE).unwrap().report.unwrap();
        assert!(!overdue.hears.contains(node) && overdue.epoch == 5);
        inbox.beat(node, Beat { life: 1, report: None });
        let unfit = Fitness::FIT.with(Unfitness::RanLink);
        inbox.beats.set_fitness(unfit);
        let overdue = beating.overdue(start + OVERDUE * 2).unwrap().report.unwrap();
        assert!(overdue.hears.contains(node) && overdue.fitness == unfit);
    }

    #[test]
    fn who_is_busy_grants_nothing_to_a_node_in_another_life() {
        let (events, _came) = tokio::sync::mpsc::channel(1);
        let inbox = super::super::inbox::Inbox { events, beats: Arc::default() };
        let (beating, same, other) = (Beating::default(), NodeId::new(7), NodeId::new(8));
        let beat = |life| Beat { life, report: None };
        inbox.beat(same, beat(1));
        inbox.beat(other, beat(1));
        let (asked, grants) = (Instant::now(), [same, other].into_iter().collect());
        let report = HearingReport { grants, ..HearingReport::default() };
        beating.asked(Beat { life: 1, report: Some(report) }, &inbox.beats, asked);
        while Instant::now() == asked {}
        inbox.beat(other, beat(2));
        let overdue = beating.overdue(asked + OVERDUE).unwrap().report.unwrap();
        assert!(overdue.grants.contains(same) && !overdue.grants.contains(other));
        assert!(overdue.hears.contains(other));
    }

    #[test]
    fn who_is_busy_beats_on_and_who_stands_still_does_not() {
        let beating = Beating::default();
        let start = Instant::now();
        let received = Arc::default();
        let beat = |life| Beat { life, report: None };
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        assert_eq!(beating.overdue(at(0)), None, "nobody asked yet");
        beating.asked(beat(3), &received, at(0));
        assert_eq!(beating.overdue(at(200)), None);
        beating.asked(beat(4), &received, at(200));
        let looks = (4..400).map(|look| look * 50);
        let sent: Vec<u64> = looks.filter(|look| beating.overdue(at(*look)) == Some(beat(4))).collect();
        assert!(sent.windows(2).all(|pair| pair[1] - pair[0] == 250), "{sent:?}");
        assert_eq!((sent.first(), sent.last()), (Some(&450), Some(&4_950)));
        beating.asked(beat(5), &received, at(21_000));
        assert_eq!((beating.overdue(at(21_200)), beating.overdue(at(21_250))), (None, Some(beat(5))));
    }
}

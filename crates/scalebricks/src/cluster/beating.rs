//! Signs of life while the control plane has its hands full.
//!
//! Beats are asked for by the one task that owns the agent. A death of a node with many flows keeps that task busy for longer than
//! the others wait for a beat; so whoever has asked of late goes on beating beside it, for a while: a process that only
//! is slow is not given up, one that stands still is.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A beat is overdue so long after the last.
const OVERDUE: Duration = Duration::from_millis(250);

/// For so long after the agent asked for one, beats go on without it.
const ENDURANCE: Duration = Duration::from_secs(5);

/// Time between two looks.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The beats of a node.
#[derive(Debug, Default)]
pub(super) struct Beating(Mutex<Option<Beat>>);

#[derive(Debug, Clone, Copy)]
struct Beat {
    life: u64,
    asked: Instant,
    sent: Instant,
}

impl Beating {
    fn beat(&self) -> MutexGuard<'_, Option<Beat>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // whole at any time
    }

    /// The agent has asked for a beat, which is sent.
    pub(super) fn asked(&self, life: u64, now: Instant) {
        *self.beat() = Some(Beat { life, asked: now, sent: now });
    }

    /// The life to beat in, if a beat is overdue and the agent has asked of late; it is sent then.
    pub(super) fn overdue(&self, now: Instant) -> Option<u64> {
        let mut beat = self.beat();
        let beat = beat.as_mut()?;
        let is_due = now >= beat.sent + OVERDUE && now < beat.asked + ENDURANCE;
        is_due.then(|| {
            beat.sent = now;
            beat.life
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_busy_beats_on_and_who_stands_still_does_not() {
        let beating = Beating::default();
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        assert_eq!(beating.overdue(at(0)), None, "nobody asked yet");
        beating.asked(3, at(0));
        assert_eq!(beating.overdue(at(200)), None);
        beating.asked(4, at(200));
        let looks = (4..400).map(|look| look * 50);
        let sent: Vec<u64> = looks.filter(|look| beating.overdue(at(*look)) == Some(4)).collect();
        assert!(sent.windows(2).all(|pair| pair[1] - pair[0] == 250), "{sent:?}");
        assert_eq!((sent.first(), sent.last()), (Some(&450), Some(&4_950)));
        beating.asked(5, at(21_000));
        assert_eq!((beating.overdue(at(21_200)), beating.overdue(at(21_250))), (None, Some(5)));
    }
}

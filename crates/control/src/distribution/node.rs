//! An owner's state of one node.

use super::RESEND;
use super::bulk::{FibTransfer, GptTransfer};
use super::message::{Part, Report};
use super::room::OnTheirWay;
use super::transfer::TAKE_OVER;
use scalebricks_types::Position;
use std::cmp::Ordering;
use std::time::Duration;

/// How long a FIB is left alone that was loaded again twice and is still wrong. Doubles each time.
const FIRST_REST: Duration = Duration::from_secs(10);

/// The longest rest: a FIB that cannot be mended, as the node holds another form of a value, costs one image in this time.
const LAST_REST: Duration = Duration::from_secs(640);

/// Updates that are sent in order, and repeated if the node's position does not advance.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sending {
    /// The last position sent.
    pub(super) upto: Position,
    /// The node's position when it last advanced.
    have: Position,
    /// When it did, or when the update after its position was last sent.
    at: Duration,
}

impl Sending {
    /// The position to continue from for a node at `have`, or `None` if all updates up to `target` were sent. Returns to `have` if the
    /// node has not advanced for [`RESEND`], however much was sent since.
    pub(super) fn from(&mut self, have: Position, target: Position, now: Duration) -> Option<Position> {
        if have > self.have {
            (self.have, self.at) = (have, now);
        }
        if have >= target {
            None
        } else if have >= self.upto || now >= self.at + RESEND {
            self.at = now;
            Some(have)
        } else {
            Some(self.upto).filter(|from| *from < target)
        }
    }
}

/// A statement that is repeated.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Repeated {
    /// The position in it.
    pub(super) upto: Position,
    /// When.
    pub(super) at: Duration,
}

/// An image that some owner sends the node, and when the node last got more of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    part: Part,
    at: Duration,
}

impl Progress {
    fn see(&mut self, part: Part, now: Duration) {
        if self.part != part {
            *self = Self { part, at: now };
        }
    }

    /// Whether some owner is sending the node an image.
    pub(super) fn is_served(&self, now: Duration) -> bool {
        self.part.at > Position(0) && now < self.at + TAKE_OVER
    }
}

/// State of one node.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Which of its lives it is in.
    pub(super) life: u64,
    /// The node's last report; `None` before the first.
    pub(super) report: Option<Report>,
    pub(super) fib: Sending,
    pub(super) gpt: Sending,
    pub(super) settled: Repeated,
    /// Keys given to it.
    pub(super) keys: OnTheirWay,
    /// A whole FIB being sent.
    pub(super) image: Option<FibTransfer>,
    pub(super) image_seen: Progress,
    /// A long delta being sent.
    pub(super) bits: Option<GptTransfer>,
    pub(super) bits_seen: Progress,
    /// The last of its sweeps that was compared.
    pub(super) compared: u32,
    /// No FIB is loaded again before this time.
    pub(super) rests_until: Duration,
    rest: Duration,
    /// The node's state comes from lost entries: `again` of the report that showed it. Nothing else is sent to the node before it has
    /// restarted the partition.
    pub(super) rewound: Option<u32>,
    pub(super) rewind: Sending,
}

impl Node {
    pub(super) fn new(life: u64) -> Self {
        Self { life, ..Self::default() }
    }

    /// Notes when images advanced.
    pub(super) fn look(&mut self, report: &Report, now: Duration) {
        self.image_seen.see(report.fib_part, now);
        self.bits_seen.see(report.gpt_part, now);
    }

    /// Its FIB was found to be as it should be.
    pub(super) const fn is_right(&mut self) {
        (self.rests_until, self.rest) = (Duration::ZERO, Duration::ZERO);
    }

    /// Its FIB was wrong and was loaded again.
    pub(super) fn mended(&mut self, now: Duration) {
        self.rests_until = now + self.rest;
        self.rest = (self.rest * 2).clamp(FIRST_REST, LAST_REST);
    }

    /// Handles a report.
    pub(super) fn heard(&mut self, report: Report) {
        self.keys.reported(report.fib);
        // Reports overtake each other, and within a life a node never goes back.
        let before = self.report.unwrap_or(report);
        // Except if the node restarted the partition.
        match report.again.cmp(&before.again) {
            Ordering::Less => return self.report = Some(before),
            Ordering::Equal => {}
            Ordering::Greater => {
                (self.gpt, self.bits, self.image) = (Sending::default(), None, None);
                if report.fib < before.fib {
                    (self.fib, self.compared) = (Sending::default(), 0);
                }
                self.report = Some(report);
                return;
            }
        }
        self.report = Some(Report {
            fib: report.fib.max(before.fib),
            whole: report.whole.max(before.whole),
            gpt: report.gpt.max(before.gpt),
            wholes: report.wholes.max(before.wholes),
            let_go: report.let_go.max(before.let_go),
            fib_part: newer(report.wholes, before.wholes, report.fib_part, before.fib_part),
            gpt_part: newer(report.gpt, before.gpt, report.gpt_part, before.gpt_part),
            sweep: std::cmp::max_by_key(before.sweep, report.sweep, |sweep| sweep.number),
            ..report
        });
    }
}

/// The newer of two states of an image, ordered by the reports' words.
fn newer<T: Ord + Copy>(word: T, before: T, part: Part, part_before: Part) -> Part {
    match word.cmp(&before) {
        Ordering::Less => part_before,
        Ordering::Equal => part_before.later(part),
        Ordering::Greater => part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_updates_are_repeated_while_newer_ones_are_sent() {
        let (mut sending, mut now) = (Sending::default(), Duration::from_secs(1));
        assert_eq!(sending.from(Position(0), Position(1), now), Some(Position(0)));
        sending.upto = Position(1); // and lost
        for target in 2..40 {
            now += RESEND / 10;
            let from = sending.from(Position(0), Position(target), now);
            if from == Some(Position(0)) {
                assert_eq!(target, 11, "after {RESEND:?}");
                return;
            }
            assert_eq!(from, Some(Position(target - 1)));
            sending.upto = Position(target);
        }
        panic!("not sent again");
    }
}

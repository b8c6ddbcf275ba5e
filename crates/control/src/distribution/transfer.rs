//! Transfers tables that are larger than a message, in pieces.
//!
//! The receiver accepts pieces in order and reports how many it has; the sender keeps a window of pieces unconfirmed and returns to
//! the receiver's position if that does not advance (go-back-N). A lost, duplicated or reordered piece only costs time. Any owner
//! can continue another's transfer, since all make the same image of a position.

use super::RESEND;
use super::message::Part;
use std::ops::Range;
use std::time::Duration;

/// How long another owner's transfer may stall before this owner starts one.
pub(super) const TAKE_OVER: Duration = Duration::from_secs(1);

/// Sizes of messages, far below the frame limit of a link between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a piece, about.
    pub piece_bytes: usize,
    /// Bytes of updates, about, that go in one message. A longer update goes as an image, in pieces.
    pub message_bytes: usize,
    /// Most unconfirmed pieces of one image.
    pub window: u64,
}

impl Default for Limits {
    /// Pieces of 256 KiB, 8 of them unconfirmed; messages of up to 4 MiB.
    fn default() -> Self {
        Self { piece_bytes: 256 << 10, message_bytes: 4 << 20, window: 8 }
    }
}

/// The state of a sender. Numbers count entries or bytes, depending on the image.
#[derive(Debug)]
pub(super) struct Transfer {
    /// The image; `have` is what the node has of it.
    part: Part,
    total: u64,
    sent: u64,
    /// Whether the last piece was sent.
    is_out: bool,
    /// The last progress, or the last time that it went back.
    at: Duration,
}

impl Transfer {
    /// Nothing sent yet of this image.
    pub(super) const fn new(part: Part, total: u64, now: Duration) -> Self {
        Self { part: Part { have: 0, ..part }, total, sent: 0, is_out: false, at: now }
    }

    /// Which image it is.
    pub(super) const fn part(&self) -> Part {
        self.part
    }

    /// Handles the node's report.
    pub(super) fn heard(&mut self, node: Part, now: Duration) {
        if node.is_of(&self.part) && node.have > self.part.have {
            self.part.have = node.have.min(self.total);
            self.sent = self.sent.max(self.part.have);
            self.at = now;
        }
    }

    /// The next range to send, of up to `piece`; `None` if enough is unconfirmed.
    pub(super) fn next(&mut self, piece: u64, window: u64, now: Duration) -> Option<Range<u64>> {
        if now >= self.at + RESEND {
            (self.sent, self.is_out, self.at) = (self.part.have, false, now);
        }
        if self.is_out || self.sent >= self.part.have.saturating_add(piece.saturating_mul(window)) {
            return None;
        }
        let end = self.sent.saturating_add(piece).min(self.total);
        let next = self.sent..end;
        (self.sent, self.is_out) = (end, end == self.total);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_types::Position;

    fn all(transfer: &mut Transfer, now: Duration) -> Vec<Range<u64>> {
        std::iter::from_fn(|| transfer.next(10, 3, now)).collect()
    }

    #[test]
    fn a_window_is_under_way_and_goes_back_when_nothing_is_heard() {
        let part = Part { at: Position(7), ..Part::default() };
        let mut transfer = Transfer::new(part, 45, Duration::ZERO);
        assert_eq!(all(&mut transfer, Duration::ZERO), [0..10, 10..20, 20..30]);
        assert_eq!(all(&mut transfer, RESEND / 2), []);
        transfer.heard(Part { have: 20, ..part }, RESEND / 2);
        transfer.heard(Part { at: Position(8), have: 30, ..part }, RESEND / 2); // of another image
        assert_eq!(all(&mut transfer, RESEND), [30..40, 40..45]);
        assert_eq!(all(&mut transfer, RESEND * 3 / 2), [20..30, 30..40, 40..45], "not heard of since");
        transfer.heard(Part { have: 45, ..part }, RESEND * 2);
        assert_eq!(all(&mut transfer, RESEND * 2), []);
    }

    #[test]
    fn an_empty_image_is_one_piece() {
        let mut transfer = Transfer::new(Part::default(), 0, Duration::ZERO);
        assert_eq!(all(&mut transfer, Duration::ZERO), vec![0..0; 1]);
        assert_eq!(all(&mut transfer, RESEND), vec![0..0; 1]);
    }
}

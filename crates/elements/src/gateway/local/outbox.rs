//! Frames that wait to be sent, and packets that were lost.

use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::reason::DropReason;
use std::collections::VecDeque;

/// What a frame is to whoever counts packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// It stands for a packet that came in, which is sent or dropped with it: once.
    Packet,
    /// Anything else: messages of the node itself, and all fragments of a packet but its first.
    Other,
}

/// What becomes of a frame that was given to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum HoldOutcome {
    /// It waits, or is sent with the [`Outbox`].
    Accepted,
    /// It is counted, and lost: the caller drops it.
    Dropped(DropReason),
}

/// Frames to send, bounded.
#[derive(Debug)]
pub struct Outbox {
    frames: VecDeque<(OutputPort, Vec<u8>, FrameKind)>,
    capacity: usize,
    lost: Vec<(Vec<u8>, DropReason)>,
}

impl Outbox {
    /// Room for this many frames.
    pub fn new(capacity: usize) -> Self {
        Self { frames: VecDeque::new(), capacity, lost: Vec::new() }
    }

    /// The frames and where each leaves, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (OutputPort, &[u8])> {
        self.frames.iter().map(|(port, frame, _)| (*port, frame.as_slice()))
    }

    /// Takes all frames out, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = (OutputPort, Vec<u8>, FrameKind)> {
        self.frames.drain(..)
    }

    /// Takes out the packets that were held and will not be sent, each with the reason. At most as many as can be held at once for
    /// each call that was given this outbox.
    pub fn drain_lost(&mut self) -> impl Iterator<Item = (Vec<u8>, DropReason)> {
        self.lost.drain(..)
    }

    /// How many frames wait.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether no more fits.
    pub fn is_full(&self) -> bool {
        self.frames.len() >= self.capacity
    }

    /// Puts a frame last; `false` if it does not fit.
    #[must_use]
    pub(super) fn push(&mut self, port: OutputPort, frame: Vec<u8>, kind: FrameKind) -> bool {
        let fits = !self.is_full();
        if fits {
            self.frames.push_back((port, frame, kind));
        }
        fits
    }

    /// Takes a frame that will not be sent.
    pub(super) fn lose(&mut self, frame: Vec<u8>, kind: FrameKind, reason: DropReason) {
        if kind == FrameKind::Packet {
            self.lost.push((frame, reason));
        }
    }
}

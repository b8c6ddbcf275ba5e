//! Frames to send, and lost packets.

use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::reason::DropReason;
use std::collections::VecDeque;

/// How a frame counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// It represents a received packet, which is sent or dropped with it, exactly once.
    Packet,
    /// It does not count: messages of the node itself, and all fragments of a packet but the first.
    Other,
}

/// The result of holding a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum HoldOutcome {
    /// The frame waits, or is sent with the [`Outbox`].
    Accepted,
    /// The frame was counted and lost: the caller drops it.
    Dropped(DropReason),
}

/// A bounded queue of frames to send.
#[derive(Debug)]
pub struct Outbox {
    frames: VecDeque<(OutputPort, Vec<u8>, FrameKind)>,
    capacity: usize,
    lost: Vec<(Vec<u8>, DropReason)>,
}

impl Outbox {
    /// Creates a queue for this many frames.
    pub fn new(capacity: usize) -> Self {
        Self { frames: VecDeque::new(), capacity, lost: Vec::new() }
    }

    /// The frames and their outgoing ports, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (OutputPort, &[u8])> {
        self.frames.iter().map(|(port, frame, _)| (*port, frame.as_slice()))
    }

    /// Takes all frames out, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = (OutputPort, Vec<u8>, FrameKind)> {
        self.frames.drain(..)
    }

    /// Removes the held packets that will not be sent, each with the reason. Each call that was given this outbox adds
    /// at most as many as can be held at once.
    pub fn drain_lost(&mut self) -> impl Iterator<Item = (Vec<u8>, DropReason)> {
        self.lost.drain(..)
    }

    /// Number of waiting frames.
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

    /// Appends a frame; `false` if the queue is full.
    #[must_use]
    pub(super) fn push(&mut self, port: OutputPort, frame: Vec<u8>, kind: FrameKind) -> bool {
        let fits = !self.is_full();
        if fits {
            self.frames.push_back((port, frame, kind));
        }
        fits
    }

    /// Records a frame that will not be sent.
    pub(super) fn lose(&mut self, frame: Vec<u8>, kind: FrameKind, reason: DropReason) {
        if kind == FrameKind::Packet {
            self.lost.push((frame, reason));
        }
    }
}

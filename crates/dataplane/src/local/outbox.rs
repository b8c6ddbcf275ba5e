//! Frames that wait to be sent.

use crate::fabric_mac::OutputPort;
use std::collections::VecDeque;

/// Frames to send, bounded.
#[derive(Debug)]
pub struct Outbox {
    frames: VecDeque<(OutputPort, Vec<u8>)>,
    capacity: usize,
}

impl Outbox {
    /// Room for this many frames.
    pub fn new(capacity: usize) -> Self {
        Self { frames: VecDeque::new(), capacity }
    }

    /// The frames and where each leaves, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (OutputPort, &[u8])> {
        self.frames.iter().map(|(port, frame)| (*port, frame.as_slice()))
    }

    /// Takes all frames out, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = (OutputPort, Vec<u8>)> {
        self.frames.drain(..)
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
    pub(super) fn push(&mut self, port: OutputPort, frame: Vec<u8>) -> bool {
        let fits = !self.is_full();
        if fits {
            self.frames.push_back((port, frame));
        }
        fits
    }
}

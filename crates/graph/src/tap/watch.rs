//! What a worker must observe for the running captures.

use super::session::CaptureSession;
use super::{CaptureBoard, CapturePoint, CapturedPacket, Direction, DropSelection};
use crate::graph::EdgeInfo;
use scalebricks_io::{Burst, PacketBuf};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, TryLockError};
use std::time::Duration;

/// A worker's copy of the running captures, and what they observe in its graph.
pub(crate) struct Watch {
    board: Arc<CaptureBoard>,
    version: u64,
    running: Vec<Running>,
    /// By edge: whether a capture observes it. Empty if none does.
    edges: Vec<bool>,
    has_ports: bool,
    has_drops: bool,
}

struct Running {
    session: Arc<CaptureSession>,
    /// The edges it observes.
    edges: Vec<u32>,
}

impl Watch {
    pub(super) fn new(board: Arc<CaptureBoard>) -> Self {
        // No real version, so that the first check updates the list.
        let version = u64::MAX;
        Self { board, version, running: Vec::new(), edges: Vec::new(), has_ports: false, has_drops: false }
    }

    /// Takes the current captures. Cost without changes: one relaxed load. Never waits: if the list is being changed,
    /// the old one is used for another turn.
    #[inline]
    pub(crate) fn renew(&mut self, edges: &[EdgeInfo]) {
        if self.board.version.load(Ordering::Relaxed) != self.version {
            self.take(edges);
        }
    }

    /// Another graph runs, with other edges.
    pub(crate) fn forget(&mut self) {
        self.version = u64::MAX;
        self.edges.clear();
    }

    #[cold]
    fn take(&mut self, edges: &[EdgeInfo]) {
        let running = match self.board.running.try_lock() {
            Ok(running) => running,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        self.version = self.board.version.load(Ordering::Relaxed);
        let of = |session: &Arc<CaptureSession>| {
            let wants = |edge: &EdgeInfo| {
                session
                    .selection
                    .edges
                    .iter()
                    .any(|(from, output)| **from == *edge.from && *output == edge.output)
            };
            let edges = edges.iter().zip(0..).filter(|(edge, _)| wants(edge)).map(|(_, at)| at);
            Running { session: Arc::clone(session), edges: edges.collect() }
        };
        self.running = running.iter().map(of).collect();
        drop(running);
        self.edges.clear();
        if self.running.iter().any(|one| !one.edges.is_empty()) {
            self.edges.resize(edges.len(), false);
            self.running.iter().flat_map(|one| &one.edges).for_each(|&edge| self.edges[edge as usize] = true);
        }
        let mut selections = self.running.iter().map(|one| &one.session.selection);
        self.has_ports = selections.clone().any(|one| !one.ports.is_empty());
        self.has_drops = selections.any(|one| one.drops != DropSelection::None);
    }

    #[inline(always)]
    pub(crate) fn has_edge(&self, edge: u32) -> bool {
        self.edges.get(edge as usize).is_some_and(|is_watched| *is_watched)
    }

    /// Whether a capture observes any edge.
    #[inline(always)]
    pub(crate) const fn has_edges(&self) -> bool {
        !self.edges.is_empty()
    }

    #[inline(always)]
    pub(crate) const fn has_ports(&self) -> bool {
        self.has_ports
    }

    fn now(&self) -> Duration {
        (self.board.clock)()
    }

    fn sessions(&self, wants: impl Fn(&Running) -> bool) -> impl Iterator<Item = &CaptureSession> {
        self.running.iter().filter(move |one| wants(one)).map(|one| &*one.session)
    }

    /// Copies packets on an edge.
    #[cold]
    pub(crate) fn passed<'a>(&self, edge: u32, info: &EdgeInfo, packets: impl Iterator<Item = &'a [u8]>) {
        let at = self.now();
        for packet in packets {
            for session in self.sessions(|one| one.edges.contains(&edge)) {
                let seen = || CapturePoint::Edge { from: Arc::clone(&info.from), output: info.output };
                if let Some(copy) = session.copy(at, seen, packet) {
                    session.push(copy);
                }
            }
        }
    }

    /// Copies a packet that is dropped.
    pub(crate) fn dropped(&self, reason: &'static str, packet: &[u8]) {
        if !self.has_drops {
            return;
        }
        let at = self.now();
        for session in self.sessions(|one| one.session.selection.wants_drop(reason)) {
            if let Some(copy) = session.copy(at, || CapturePoint::Dropped(reason), packet) {
                session.push(copy);
            }
        }
    }

    /// Copies received packets: the burst without the first packets, which had arrived before.
    #[cold]
    pub(crate) fn received<P: PacketBuf>(&self, port: usize, burst: &Burst<P>, before: usize) {
        let (at, direction) = (self.now(), Direction::Received);
        for session in self.sessions(|one| one.session.selection.wants_port(port, direction)) {
            let packets = burst.iter().skip(before).map(PacketBuf::data);
            let copies =
                packets.filter_map(|data| session.copy(at, || CapturePoint::Port(port, direction), data));
            copies.for_each(|copy| session.push(copy));
        }
    }

    /// Copies the packets of a burst that `send` sends, from its front on.
    ///
    /// A sent packet is gone, so all are copied first, and copies of refused packets are discarded.
    #[cold]
    pub(crate) fn sending<P: PacketBuf>(
        &self,
        port: usize,
        burst: &mut Burst<P>,
        send: impl FnOnce(&mut Burst<P>) -> usize,
    ) -> usize {
        let (at, direction) = (self.now(), Direction::Sent);
        let mut copies: Vec<(usize, &CaptureSession, CapturedPacket)> = Vec::new();
        for session in self.sessions(|one| one.session.selection.wants_port(port, direction)) {
            let copy = |packet: &P| session.copy(at, || CapturePoint::Port(port, direction), packet.data());
            copies
                .extend(burst.iter().enumerate().filter_map(|(n, packet)| Some((n, session, copy(packet)?))));
        }
        let sent = send(burst);
        copies.into_iter().filter(|(n, ..)| *n < sent).for_each(|(_, session, copy)| session.push(copy));
        sent
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("running", &self.running.len()).finish_non_exhaustive()
    }
}

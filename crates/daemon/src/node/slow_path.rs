//! The slow path, shared by the workers: packets without a flow, answers of the node itself, next hops.

use super::errors::Errors;
use arc_swap::{ArcSwap, Guard};
use scalebricks_apps::gateway::Node;
use scalebricks_elements::gateway::local::{
    Claims, Consumed, FrameKind, HoldOutcome, LinkSilence, LocalStack, Neighbour, Outbox,
};
use scalebricks_elements::gateway::{Adjacencies, DropReason, Lease, OutputPort, Punt, PuntReason};
use scalebricks_io::{PacketBuf, PacketSource};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most frames that the node itself sends in one turn.
const ANSWERS: usize = 512;

/// The node as a host on its links, shared by all workers.
#[derive(Debug)]
pub struct SlowPath {
    local: Mutex<LocalStack>,
    errors: Arc<Errors>,
    adjacencies: ArcSwap<Adjacencies>,
    /// Time of the next timer, in nanoseconds.
    deadline_ns: AtomicU64,
    no_buffer: AtomicU64,
    link_down: AtomicU64,
    /// By [`OutputPort`].
    silences: ArcSwap<[Option<LinkSilence>; 2]>,
}

impl SlowPath {
    /// Creates the slow path of a node whose tables come from a file.
    pub fn new(local: LocalStack) -> Self {
        Self::with_errors(local, Errors::new(Arc::new(Lease::unlimited()), None))
    }

    /// Creates the slow path of a node. `errors` decides about its errors, and their lease about its addresses.
    pub fn with_errors(mut local: LocalStack, errors: Arc<Errors>) -> Self {
        local.set_lease(Arc::clone(errors.lease()));
        Self {
            errors,
            adjacencies: ArcSwap::new(local.adjacencies()),
            local: Mutex::new(local),
            deadline_ns: AtomicU64::new(0),
            no_buffer: AtomicU64::new(0),
            link_down: AtomicU64::new(0),
            silences: ArcSwap::default(),
        }
    }

    fn local(&self) -> MutexGuard<'_, LocalStack> {
        // A panic in another thread leaves the stack consistent, between two frames.
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current next hops.
    pub fn adjacencies(&self) -> Arc<Adjacencies> {
        self.adjacencies.load_full()
    }

    /// The current next hops, without a reference count.
    pub fn peek(&self) -> Guard<Arc<Adjacencies>> {
        self.adjacencies.load()
    }

    /// The node's lease.
    pub fn lease(&self) -> &Arc<Lease> {
        self.errors.lease()
    }

    /// Time of the next work: a timer, or packets that waited for an answer.
    pub fn deadline(&self) -> Duration {
        if self.errors.has_ready() {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.deadline_ns.load(Ordering::Relaxed))
    }

    /// Processes the punted packets of a node, and due timers; `node` sends the answers.
    pub fn work<P: PacketBuf + 'static>(
        &self,
        node: &mut Node<P>,
        punts: &mut Vec<Punt<P>>,
        buffers: &mut dyn PacketSource<P>,
        due: bool,
        now: Duration,
    ) {
        let mut out = Outbox::new(ANSWERS);
        let mut local = self.local();
        let generation = local.generation();
        if due {
            for (link, frame) in self.errors.take_ready(now) {
                send_error(&mut local, link, &frame, now, &mut out);
            }
        }
        for punt in punts.drain(..) {
            match punt.why {
                PuntReason::NoFlow(_) => {
                    if local.receive(punt.link, punt.packet.data(), now, &mut out) == Consumed::No {
                        node.drop_punt(punt);
                    }
                }
                PuntReason::Unresolved { next_hop, kind } => {
                    let held = local.hold(punt.link, next_hop, punt.packet.data(), kind, now, &mut out);
                    if let (HoldOutcome::Dropped(reason), FrameKind::Packet) = (held, kind) {
                        node.drop_frame(punt.packet.data(), reason);
                    }
                }
                PuntReason::UnknownFlow(key) => {
                    let frame = punt.packet.data();
                    if self.errors.is_due(&key, punt.link, frame, now) {
                        send_error(&mut local, punt.link, frame, now, &mut out);
                    }
                    node.drop_punt(punt);
                }
            }
        }
        // After the received packets: a node that was stopped for a while processes answers before it asks again.
        if due {
            local.poll(now, &mut out);
        }
        if local.generation() != generation {
            self.adjacencies.store(local.adjacencies());
        }
        self.set_deadline(&local);
        self.set_silences(&local);
        drop(local);
        for (frame, reason) in out.drain_lost() {
            node.drop_frame(&frame, reason);
        }
        for (port, frame, kind) in out.drain() {
            let made = buffers.alloc().and_then(|mut packet| packet.append(&frame).ok().map(|()| packet));
            if let Some(packet) = made {
                let is_sent = node.send_frame(port, packet, kind);
                self.link_down.fetch_add(u64::from(!is_sent), Ordering::Relaxed);
                continue;
            }
            self.no_buffer.fetch_add(1, Ordering::Relaxed);
            if kind == FrameKind::Packet {
                node.drop_frame(&frame, DropReason::NoBuffer);
            }
        }
    }

    /// Publishes the silent links, if they have changed.
    fn set_silences(&self, local: &LocalStack) {
        let now = OutputPort::ALL.map(|port| local.silence(port));
        let is_same = self.silences.load().iter().map(Option::as_ref).eq(now);
        if !is_same {
            self.silences.store(Arc::new(now.map(Option::<&LinkSilence>::cloned)));
        }
    }

    /// The silence of a link whose next hops do not answer. Never waits for a worker.
    pub fn silence(&self, port: OutputPort) -> Option<LinkSilence> {
        self.silences.load()[port as usize].clone()
    }

    /// Number of frames that wait for their next hops.
    pub fn held_frames(&self) -> usize {
        self.local().occupancy().held_frames
    }

    /// Answers for these addresses from now on. The worker that runs the timers announces the new ones.
    pub fn claim(&self, claims: &Claims, now: Duration) {
        let mut local = self.local();
        local.claim(claims, now);
        self.adjacencies.store(local.adjacencies());
        self.set_deadline(&local);
    }

    /// To be called while the stack is locked.
    fn set_deadline(&self, local: &LocalStack) {
        let deadline_ns = u64::try_from(local.next_deadline().as_nanos()).unwrap_or(u64::MAX);
        self.deadline_ns.store(deadline_ns, Ordering::Relaxed);
    }

    /// Its counters, by name.
    pub fn stats(&self) -> BTreeMap<String, u64> {
        let mut stats: BTreeMap<String, u64> =
            self.local().stats().iter().map(|(name, count)| (name.to_owned(), count)).collect();
        stats.insert("no_buffer".to_owned(), self.no_buffer.load(Ordering::Relaxed));
        stats.insert("link_down".to_owned(), self.link_down.load(Ordering::Relaxed));
        stats.extend(self.errors.stats());
        stats
    }

    /// The known hosts on the outside links.
    pub fn neighbours(&self) -> Vec<Neighbour> {
        self.local().neighbours().collect()
    }
}

/// Reports to the sender of a packet that its flow does not exist.
fn send_error(local: &mut LocalStack, link: OutputPort, frame: &[u8], now: Duration, out: &mut Outbox) {
    match link {
        OutputPort::BaseStation => local.unknown_tunnel(frame, now, out),
        OutputPort::Internet => local.unknown_user(frame, now, out),
    }
}

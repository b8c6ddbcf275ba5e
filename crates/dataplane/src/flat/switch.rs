//! The switch: bursts in, names, one lookup for all, bursts out.
//!
//! ```text
//! port ─▶ burst ─▶ parse ─▶ hash ─▶ FIB, once a burst ─▶ action ─▶ a burst a port ─▶ port
//!                    └── group address ─▶ storm guard ─▶ copies ───────┘
//! ```

use super::action::{Action, PortNo};
use super::fib::{Answer, FibReader, Unknown};
use super::name::NameKind;
use super::output::{Output, SwitchPort};
use super::parse::{Seen, parse};
use super::reason::SwitchDrop;
use super::route::route;
use super::stats::PortCounts;
use super::storm::StormGuard;
use arrayvec::ArrayVec;
use scalebricks_io::{BURST, Burst, PacketBuf, PacketSource};
use scalebricks_types::{KeyHash, KeyHasher};
use std::sync::Arc;
use std::time::Duration;

/// What a switch decides about frames, apart from where names go.
#[derive(Debug, Clone)]
pub struct SwitchPolicy {
    /// What of a frame is its name.
    pub kind: NameKind,
    /// The keyed hash of names: that of the name table.
    pub hasher: KeyHasher,
    /// Whether packets to be routed have their IPv4 header checksum verified. Captures taken with checksum offload need it off.
    pub verify_ipv4_checksum: bool,
    /// How much may be flooded, shared by all workers; `None`: everything.
    pub storm: Option<Arc<StormGuard>>,
}

/// A worker's switch: its queues of all ports, and a reader of the FIB.
pub struct FlatSwitch<P> {
    policy: SwitchPolicy,
    fib: FibReader,
    output: Output<P>,
    buffers: Box<dyn PacketSource<P> + Send>,
}

/// A frame of a burst.
#[derive(Clone, Copy)]
enum Sighting {
    /// Its name is that of this place among the burst's names.
    Name(u8),
    Group,
    Dropped(SwitchDrop),
}

impl<P: PacketBuf> FlatSwitch<P> {
    /// A switch with these ports, whose numbers are their places; those beyond [`MAX_PORTS`](super::MAX_PORTS) are left out.
    pub fn new(
        policy: SwitchPolicy,
        fib: FibReader,
        ports: Vec<SwitchPort<P>>,
        buffers: Box<dyn PacketSource<P> + Send>,
    ) -> Self {
        Self { policy, fib, output: Output::new(ports), buffers }
    }

    /// What each port has counted.
    pub fn counts(&self) -> impl Iterator<Item = PortCounts> + '_ {
        self.output.counts()
    }

    /// Takes a burst of each port and sends all that comes of it. Returns how many frames came. Allocates nothing.
    ///
    /// `now` counts from any moment, the same for all workers.
    pub fn turn(&mut self, now: Duration) -> usize {
        let mut moved = 0;
        for number in 0..self.output.len() {
            let Some(port) = PortNo::new(number) else { continue };
            let mut burst = Burst::new();
            let came = self.output.receive(port, &mut burst);
            if came > 0 {
                moved += came;
                self.forward(port, &mut burst, now);
            }
        }
        self.output.flush();
        moved
    }

    fn forward(&mut self, port: PortNo, burst: &mut Burst<P>, now: Duration) {
        let mut hashes: ArrayVec<KeyHash, BURST> = ArrayVec::new();
        let mut sightings: ArrayVec<Sighting, BURST> = ArrayVec::new();
        let SwitchPolicy { kind, hasher, .. } = &self.policy;
        for packet in burst.iter() {
            let seen = parse(*kind, port, packet.data(), |name| hasher.hash_bytes(name));
            sightings.push(match seen {
                Seen::Name(hash) => {
                    hashes.push(hash);
                    Sighting::Name((hashes.len() - 1) as u8) // below BURST
                }
                Seen::Group => Sighting::Group,
                Seen::Dropped(reason) => Sighting::Dropped(reason),
            });
        }
        let mut answers = [Answer::default(); BURST];
        self.fib.lookup_batch(&hashes, &mut answers);
        for (packet, sighting) in burst.drain(..).zip(sightings) {
            match sighting {
                Sighting::Name(at) => self.by_answer(port, packet, answers[usize::from(at)], now),
                Sighting::Group => self.flood(port, packet, now),
                Sighting::Dropped(reason) => self.output.drop(port, reason),
            }
        }
    }

    fn by_answer(&mut self, port: PortNo, packet: P, answer: Answer, now: Duration) {
        if answer.is_alien {
            self.output.count(port).unknown += 1;
        }
        match answer.action {
            Some(action) => self.act(port, packet, action, now),
            None if self.fib.unknown() == Unknown::Flood => self.flood(port, packet, now),
            None => self.output.drop(port, SwitchDrop::UnknownName),
        }
    }

    fn act(&mut self, port: PortNo, mut packet: P, action: Action, now: Duration) {
        match action {
            Action::Forward(to) => self.output.send(port, to, packet),
            Action::Route { port: to, next_hop, source } => {
                // Before it is changed: a packet that goes nowhere is dropped for that.
                if let Err(reason) = self.output.may_send(port, to) {
                    return self.output.drop(port, reason);
                }
                match route(packet.data_mut(), next_hop, source, self.policy.verify_ipv4_checksum) {
                    Ok(()) => self.output.send(port, to, packet),
                    Err(reason) => self.output.drop(port, reason),
                }
            }
            Action::Drop => self.output.drop(port, SwitchDrop::ByAction),
            Action::Flood => self.flood(port, packet, now),
        }
    }

    /// Sends a frame to all ports of other groups: a copy each, and itself to the last.
    fn flood(&mut self, port: PortNo, packet: P, now: Duration) {
        let Some(last) = self.output.others(port).last() else {
            return self.output.drop(port, SwitchDrop::SplitHorizon);
        };
        if self.policy.storm.as_ref().is_some_and(|guard| !guard.take(port, now)) {
            return self.output.drop(port, SwitchDrop::Storm);
        }
        self.output.count(port).flooded += 1;
        for number in 0..last.index() {
            let Some(to) = PortNo::new(number).filter(|&to| self.output.may_send(port, to).is_ok()) else {
                continue;
            };
            match copy(&packet, &mut *self.buffers) {
                Some(copy) => self.output.send(port, to, copy),
                None => self.output.drop(port, SwitchDrop::NoBuffer),
            }
        }
        self.output.send(port, last, packet);
    }
}

fn copy<P: PacketBuf>(packet: &P, buffers: &mut dyn PacketSource<P>) -> Option<P> {
    let mut copy = buffers.alloc()?;
    copy.append(packet.data()).ok()?;
    copy.set_tag(packet.tag());
    Some(copy)
}

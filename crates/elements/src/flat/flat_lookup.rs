//! `FlatLookup`.

use super::action::{Action, PortNo};
use super::fib::{FibAnswer, FibReader, UnknownNamePolicy};
use super::key::{FrameClass, parse};
use super::name::NameKind;
use super::route::route;
use crate::gateway::DropReason;
use crate::shared_names::drops;
use arrayvec::ArrayVec;
use scalebricks_graph::{Control, DropId, Element, Frame, Out, SLOTS, Slot, SlotList, element};
use scalebricks_io::PacketBuf;
use scalebricks_types::{KeyHash, KeyHasher};

/// How frames are parsed.
#[derive(Debug, Clone, Copy)]
pub struct LookupRules {
    /// Which part of a frame is its name.
    pub kind: NameKind,
    /// The keyed hash of names; the same as the name table's.
    pub hasher: KeyHasher,
    /// Whether IPv4 header checksums of packets to be routed are verified. Turn it off for captures taken with checksum
    /// offload.
    pub verify_ipv4_checksum: bool,
}

element! {
    /// Looks up the names of a port's frames in a Concise FIB, a batch at a time, and applies their actions: sends
    /// frames to the output of a port, routes them, drops them or has them flooded. Frames to group addresses are
    /// flooded unless names are bytes of the frame. Only programs make it; configurations cannot name it.
    pub struct FlatLookup as "FlatLookup" {
        rules: LookupRules,
        port: PortNo,
        may_send: Box<[bool]>,
        fib: FibReader,
        work: Box<LookupState>,
    }
    inputs { push "in": "Frames of one port.", }
    outputs {
        push "flood" [Optional]: "Frames to flood.",
        push "port" [ZeroOrMore]: "Frames for the port whose number is one less than the output's.",
    }
    drops {
        TRUNCATED = "truncated": "The frame ends before its name, or before the headers that lead to it.",
        NO_NAME = "no_name": "The frame has no name of the switch's kind: another ethertype or IP version.",
        MALFORMED = drops::MALFORMED,
        BAD_NAME = "bad_name": "The name has no bytes, or more than 255.",
        LATER_FRAGMENT = drops::LATER_FRAGMENT,
        BAD_IPV4_CHECKSUM = DropReason::BadIpv4Checksum,
        LINK_LOCAL = "link_local": "Sent to a MAC address that bridges do not forward (IEEE 802.1Q §8.6.3).",
        UNKNOWN_NAME = "unknown_name": "The name is not in the table.",
        BY_ACTION = "by_action": "The name's action is to drop it.",
        SPLIT_HORIZON = drops::SPLIT_HORIZON,
        EXPIRED = "expired": "Its TTL or hop limit is used up.",
        NOT_ROUTABLE = "not_routable": "Its action is to route it, but it is not an IP packet.",
        NO_SUCH_PORT = "no_such_port": "Its action names a port that the switch does not have.",
    }
    counters { UNKNOWN = "unknown": "Frames received whose name was not in the table; the policy decides what happens to them.", }
}

/// Per-batch lookup state; empty between batches.
#[derive(Debug)]
struct LookupState {
    /// By frame.
    seen: ArrayVec<FrameClass, SLOTS>,
    /// By name.
    hashes: ArrayVec<KeyHash, SLOTS>,
    answers: [FibAnswer; SLOTS],
}

/// Where a frame goes.
enum ForwardTo {
    Port(PortNo),
    Flood,
}

impl FlatLookup {
    /// For the frames of one port. Entry `i` of `may_send` says whether they may leave by port `i`.
    pub fn new(rules: LookupRules, port: PortNo, may_send: Box<[bool]>, fib: FibReader) -> Self {
        let work = LookupState {
            seen: ArrayVec::new(),
            hashes: ArrayVec::new(),
            answers: [FibAnswer::default(); SLOTS],
        };
        Self { rules, port, may_send, fib, work: Box::new(work) }
    }

    /// The destination of frames to this port, or the drop reason.
    #[inline]
    fn leave_by(&self, to: PortNo) -> Result<PortNo, DropId> {
        match self.may_send.get(to.index()) {
            Some(true) => Ok(to),
            Some(false) => Err(Self::SPLIT_HORIZON),
            None => Err(Self::NO_SUCH_PORT),
        }
    }

    #[inline]
    fn act<P: PacketBuf>(
        &self,
        action: Action,
        slot: &Slot,
        frame: &mut Frame<P>,
    ) -> Result<ForwardTo, DropId> {
        match action {
            Action::Forward(to) => self.leave_by(to).map(ForwardTo::Port),
            Action::Route { port: to, next_hop, source } => {
                // Before the frame is changed: a packet without a usable port is dropped for that reason.
                let to = self.leave_by(to)?;
                let bytes = frame.packet_mut(slot).data_mut();
                route(bytes, next_hop, source, self.rules.verify_ipv4_checksum)?;
                Ok(ForwardTo::Port(to))
            }
            Action::Drop => Err(Self::BY_ACTION),
            Action::Flood => Ok(ForwardTo::Flood),
        }
    }

    /// Classifies each frame and looks up those that have a name.
    fn look_up<P: PacketBuf>(&mut self, batch: &SlotList, frame: &Frame<P>) {
        let Self { rules: LookupRules { kind, hasher, .. }, port, fib, work, .. } = self;
        work.seen.clear();
        work.hashes.clear();
        for slot in batch {
            let named = |name: &[u8]| work.hashes.push(hasher.hash_bytes(name));
            work.seen.push(parse(*kind, *port, frame.packet(slot).data(), named));
        }
        fib.lookup_batch(&work.hashes, &mut work.answers);
    }
}

impl Control for FlatLookup {}

impl<P: PacketBuf> Element<P> for FlatLookup {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        self.look_up(batch, frame);
        let floods = self.fib.unknown() == UnknownNamePolicy::Flood;
        let (mut names, mut unknown) = (0, 0);
        for (at, slot) in batch.drain().enumerate() {
            let way = match self.work.seen[at] {
                FrameClass::Name => {
                    let FibAnswer { action, is_alien } = self.work.answers[names];
                    names += 1;
                    unknown += u64::from(is_alien);
                    match action {
                        Some(action) => self.act(action, &slot, frame),
                        None if floods => Ok(ForwardTo::Flood),
                        None => Err(Self::UNKNOWN_NAME),
                    }
                }
                FrameClass::Group => Ok(ForwardTo::Flood),
                FrameClass::Dropped(reason) => Err(reason),
            };
            match way {
                Ok(ForwardTo::Port(port)) => out.push(1 + port.index(), slot),
                Ok(ForwardTo::Flood) => out.push(0, slot),
                Err(reason) => out.drop(slot, reason),
            }
        }
        out.count(Self::UNKNOWN, unknown);
    }
}

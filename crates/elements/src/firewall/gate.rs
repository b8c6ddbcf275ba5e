//! Judges packets with the state of their flow.

use super::opening::{Opening, reversed};
use super::rules::{Action, Decision, Rules, Side};
use super::sources::Sources;
use super::tallies::Tallies;
use scalebricks_flows::tracker::{Ended, Family, Packet, Sink, Tracker, Untracked};
use scalebricks_flows::{Direction, Tracked};
use scalebricks_tables::dhash::Column;
use scalebricks_types::FiveTuple;
use scalebricks_wire::transport::{Tcp, TcpFlags};
use scalebricks_wire::{IpPacket, parse_ip, protocol};

/// Why a packet does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is in no flow.
    Untracked(Untracked),
    /// A fragment that repeats another one.
    Repeated,
    /// A rule denies the flow.
    Denied,
    /// A rule rejects the flow.
    Rejected,
    /// Its source has too many flows.
    SourceLimit,
    /// It came from the side where the flow has the other end.
    WrongSide,
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It passes, for this rule.
    Pass(Tracked, u16),
    /// It does not.
    Refuse(Refusal),
}

/// The value beside a flow's record. It is reset with the record, so no other flow ever sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Which rules decided.
    generation: u32,
    rule: u16,
    /// Where the packets in the flow's forward direction come from.
    forward: Side,
    /// The flow was picked up, and belongs to the other end.
    is_reply_first: bool,
    /// Type and code of the first packet, if it is ICMP.
    icmp: [u8; 2],
}

/// The arrays of verdicts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verdicts {
    pub(crate) v4: Column<Verdict>,
    pub(crate) v6: Column<Verdict>,
}

impl Verdicts {
    fn of<'a>(&self, tracker: &'a mut Tracker, tracked: &Tracked) -> &'a mut Verdict {
        match tracked.family {
            Family::V4 => &mut tracker.table_v4().column_mut(self.v4)[tracked.record],
            Family::V6 => &mut tracker.table_v6().column_mut(self.v6)[tracked.record],
        }
    }
}

/// The rules in force.
#[derive(Debug)]
pub(crate) struct InForce {
    pub(crate) rules: Rules,
    /// Changes with the rules.
    pub(crate) generation: u32,
    /// Flows of other rules go on, although these rules deny them.
    pub(crate) keeps: bool,
    /// Flows may begin with any segment.
    pub(crate) picks_up: bool,
    /// Most flows of a source; 0: any number.
    pub(crate) source_flows: u32,
}

/// Flows per source, and counters per rule.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) sources: Sources,
    pub(crate) tallies: Tallies,
    pub(crate) dismissed: u64,
}

impl Sink for Books {
    fn ended(&mut self, ended: &Ended<'_>) {
        self.sources.remove(ended.tuple.src);
    }
}

/// The answer to a flow's first packet.
#[derive(Debug, Clone, Copy)]
struct Judged {
    decision: Decision,
    is_over_limit: bool,
    source: std::net::IpAddr,
    verdict: Verdict,
}

/// A batch on its way through the tracker.
pub(crate) struct Gate<'a> {
    pub(crate) force: &'a InForce,
    pub(crate) books: &'a mut Books,
    pub(crate) verdicts: Verdicts,
    /// Where the packets come from.
    pub(crate) side: Side,
    pub(crate) packets: &'a [Packet<'a>],
    /// The packet that is tracked.
    pub(crate) at: usize,
    /// The packet that its fragments made.
    completed: Option<Vec<u8>>,
    /// Repeated fragments so far.
    repeated: u64,
    judged: Option<Judged>,
}

impl<'a> Gate<'a> {
    pub(crate) fn new(
        force: &'a InForce,
        books: &'a mut Books,
        verdicts: Verdicts,
        side: Side,
        packets: &'a [Packet<'a>],
        tracker: &Tracker,
    ) -> Self {
        let repeated = repeated(tracker);
        Self { force, books, verdicts, side, packets, at: 0, completed: None, repeated, judged: None }
    }

    /// The decision about a packet that would begin a flow with this tuple.
    fn judge(&self, packet: &IpPacket<'_>, tuple: &FiveTuple) -> Judged {
        let (rules, ip) = (&self.force.rules, &packet.summary);
        let icmp = ip.icmp.map_or([0; 2], |(kind, code)| [kind, code]);
        let verdict =
            Verdict { generation: self.force.generation, forward: self.side, icmp, ..Verdict::default() };
        let synthetic = |side, tuple: &FiveTuple| decide(rules, side, tuple, icmp);
        let (decision, verdict) = if (ip.src, ip.dst) != (tuple.src, tuple.dst) {
            // The answer to a connection that the tracker did not believe at first.
            let forward = self.side.other();
            (synthetic(forward, tuple), Verdict { forward, ..verdict })
        } else {
            let decision = rules.decide(self.side, packet);
            if decision.action != Action::Allow && self.force.picks_up && is_midway(packet) {
                let other = synthetic(self.side.other(), &reversed(tuple));
                if other.action == Action::Allow {
                    (other, Verdict { is_reply_first: true, ..verdict })
                } else {
                    (decision, verdict)
                }
            } else {
                (decision, verdict)
            }
        };
        let limit = self.force.source_flows;
        let is_over_limit = limit > 0 && self.books.sources.of(tuple.src) >= limit;
        Judged {
            decision,
            is_over_limit,
            source: tuple.src,
            verdict: Verdict { rule: decision.rule, ..verdict },
        }
    }

    /// What becomes of the packet that was tracked, and the number of its fragments if it was their last. Afterwards the
    /// next packet is tracked.
    pub(crate) fn settle(
        &mut self,
        tracker: &mut Tracker,
        tracked: Result<Tracked, Untracked>,
    ) -> (Fate, usize) {
        let pieces = if self.completed.take().is_some() { tracker.defragmenter().pieces() } else { 0 };
        (self.fate(tracker, tracked), pieces)
    }

    fn fate(&mut self, tracker: &mut Tracker, tracked: Result<Tracked, Untracked>) -> Fate {
        let bytes = self.packets.get(self.at).map_or(0, |packet| ip_len(packet.bytes));
        self.at += 1;
        let judged = self.judged.take();
        match (tracked, judged) {
            (Ok(tracked), judged) => self.of_flow(tracker, tracked, judged),
            (Err(Untracked::NotAllowed), Some(Judged { decision, is_over_limit, .. })) => {
                let refusal = match decision.action {
                    Action::Allow if is_over_limit => Refusal::SourceLimit,
                    Action::Reject => Refusal::Rejected,
                    Action::Allow | Action::Deny => Refusal::Denied,
                };
                if refusal != Refusal::SourceLimit {
                    self.books.tallies.packet(decision.rule, bytes);
                }
                Fate::Refuse(refusal)
            }
            (Err(Untracked::FragmentRefused), _) if repeated(tracker) > self.repeated => {
                self.repeated = repeated(tracker);
                Fate::Refuse(Refusal::Repeated)
            }
            (Err(untracked), _) => Fate::Refuse(Refusal::Untracked(untracked)),
        }
    }

    fn of_flow(&mut self, tracker: &mut Tracker, tracked: Tracked, judged: Option<Judged>) -> Fate {
        let verdict = self.verdicts.of(tracker, &tracked);
        if let Some(judged) = judged.filter(|_| tracked.is_new) {
            *verdict = judged.verdict;
            self.books.sources.add(judged.source);
            self.books.tallies.flow(judged.verdict.rule);
        }
        let from =
            if tracked.direction == Direction::Forward { verdict.forward } else { verdict.forward.other() };
        if from != self.side {
            return Fate::Refuse(Refusal::WrongSide);
        }
        if verdict.generation == self.force.generation {
            return Fate::Pass(tracked, verdict.rule);
        }
        let before = *verdict;
        self.again(tracker, tracked, before)
    }

    /// Other rules have allowed the flow.
    #[cold]
    fn again(&mut self, tracker: &mut Tracker, tracked: Tracked, before: Verdict) -> Fate {
        let Some(tuple) = tracker.tuple(&tracked) else { return Fate::Refuse(Refusal::Denied) }; // not reached
        let (side, tuple) = if before.is_reply_first {
            (before.forward.other(), reversed(&tuple))
        } else {
            (before.forward, tuple)
        };
        let Decision { action, rule } = decide(&self.force.rules, side, &tuple, before.icmp);
        let goes_on = action == Action::Allow || self.force.keeps;
        let rule = if action != Action::Allow && goes_on { self.books.tallies.kept() } else { rule };
        if goes_on {
            let generation = self.force.generation;
            *self.verdicts.of(tracker, &tracked) = Verdict { generation, rule, ..before };
            self.books.tallies.flow(rule);
            return Fate::Pass(tracked, rule);
        }
        let bytes = self.packets.get(self.at - 1).map_or(0, |packet| ip_len(packet.bytes));
        self.books.tallies.packet(rule, bytes);
        self.books.dismissed += 1;
        tracker.dismiss(&tracked, self.books);
        Fate::Refuse(if action == Action::Reject { Refusal::Rejected } else { Refusal::Denied })
    }
}

impl Sink for Gate<'_> {
    fn completed(&mut self, packet: &IpPacket<'_>) {
        self.completed = Some(packet.bytes().to_vec());
    }

    fn may_begin(&mut self, tuple: &FiveTuple, _: u16) -> bool {
        let given = self.packets.get(self.at).map_or(&[][..], |packet| packet.bytes);
        let Ok(packet) = parse_ip(self.completed.as_deref().unwrap_or(given)) else { return false };
        let judged = self.judge(&packet, tuple);
        self.judged = Some(judged);
        judged.decision.action == Action::Allow && !judged.is_over_limit
    }

    fn ended(&mut self, ended: &Ended<'_>) {
        self.books.ended(ended);
    }
}

fn repeated(tracker: &Tracker) -> u64 {
    tracker.defragmenter().refusals().get(scalebricks_flows::fragments::Refusal::Repeated)
}

/// The decision about a flow whose first packet is not at hand.
fn decide(rules: &Rules, side: Side, tuple: &FiveTuple, icmp: [u8; 2]) -> Decision {
    match Opening::new(tuple, icmp).packet() {
        Ok(packet) => rules.decide(side, &packet),
        Err(_) => Decision { action: Action::Deny, rule: u16::MAX }, // not reached
    }
}

/// Whether a packet is of a TCP connection that began before.
fn is_midway(packet: &IpPacket<'_>) -> bool {
    let tcp = (packet.summary.protocol == protocol::TCP).then(|| Tcp::parse(packet.l4()));
    tcp.is_some_and(|tcp| {
        tcp.is_ok_and(|tcp| tcp.flags().0 & (TcpFlags::SYN.0 | TcpFlags::ACK.0) != TcpFlags::SYN.0)
    })
}

/// Octets of an IP packet without what follows it.
pub(crate) fn ip_len(bytes: &[u8]) -> u64 {
    parse_ip(bytes).map_or(0, |packet| packet.bytes().len() as u64)
}

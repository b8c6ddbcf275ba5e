//! Drives a capture through one cluster, a limited number of packets at a time.

use super::captures::NodeCaptures;
use super::frames::{Frame, Frames};
use super::pinning::{FlowId, Pinning};
use super::plan::{Entrance, Outcome, Plan, Planner};
use super::{Counts, ReplayError, ReplayRun, Step};
use crate::demo::config::DemoConfig;
use crate::demo::stopwatch::rate_of_run;
use crate::ledger::{Expected, Ledger};
use crate::memory_cluster::{Left, MemoryCluster};
use crate::tunnel::{self, TunnelForm, Uplink};
use scalebricks_apps::gateway::Architecture;
use scalebricks_console::Interrupt;
use scalebricks_elements::gateway::packet::oversize::ICMP_PIECE;
use scalebricks_elements::gateway::{OutputPort, OutsideMacs};
use scalebricks_io::{CapturedFrame, PacketBuf, Pool, Tag};
use scalebricks_types::{NodeId, Teid};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Most packets in the cluster at a time.
const ROUND_PACKETS: usize = 1_024;
/// Most frames as which they may leave, with fragments and ICMP errors.
const ROUND_PIECES: usize = 8_192;
/// Frames that each pair of nodes can have in flight. More frames wait in the nodes, which have room for a whole round.
const FABRIC_CAPACITY: usize = 256;
/// Least size of buffers for packets that nodes create: an ICMP error about an IPv6 packet.
const ANSWER_BYTES: usize = 14 + 1_280;

/// A packet that was put in.
struct Sent {
    /// Its frame number in the capture.
    number: u64,
    frame: CapturedFrame,
    plan: Plan,
}

/// One cluster and the packets in it.
pub(super) struct Drive<'a> {
    config: &'a DemoConfig,
    pinning: &'a Pinning,
    architecture: Architecture,
    cluster: MemoryCluster,
    macs: Vec<OutsideMacs>,
    buffers: Pool,
    ledger: Ledger,
    round: Vec<Sent>,
    pieces: usize,
    wrapped: Vec<u8>,
    random: u64,
    counts: Counts,
    forwarding: Duration,
    captures: Option<NodeCaptures>,
}

impl<'a> Drive<'a> {
    /// A cluster for the flows of a capture whose longest frame has `longest` octets.
    pub(super) fn new(
        config: &'a DemoConfig,
        architecture: Architecture,
        pinning: &'a Pinning,
        longest: usize,
        captures: Option<NodeCaptures>,
    ) -> Result<Self, ReplayError> {
        let mtu = usize::from(config.policy.base_station_mtu);
        let packet_bytes = (longest + tunnel::MAX_HEADERS).min(scalebricks_io::pool::MAX_PACKET_BYTES);
        let mut cluster = MemoryCluster::new(
            config,
            architecture,
            &pinning.flows,
            pinning.base_stations.clone(),
            (ROUND_PIECES + ROUND_PACKETS, FABRIC_CAPACITY),
            Pool::new(ROUND_PIECES + ROUND_PACKETS, ANSWER_BYTES.max(mtu + 14))?,
        )?;
        Ok(Self {
            config,
            pinning,
            architecture,
            macs: cluster.macs(),
            cluster,
            // Twice the size, so that the ledger and not the pool detects packets that stay in a cluster.
            buffers: Pool::new(2 * ROUND_PACKETS, packet_bytes)?,
            ledger: Ledger::new(),
            round: Vec::with_capacity(ROUND_PACKETS),
            pieces: 0,
            wrapped: Vec::new(),
            random: config.seed,
            counts: Counts::default(),
            forwarding: Duration::ZERO,
            captures,
        })
    }

    /// Puts every frame in, in file order, and follows it.
    pub(super) fn run(
        mut self,
        frames: Frames,
        mut planner: Planner<'_>,
        progress: &mut dyn FnMut(Step),
        interrupt: &Interrupt,
    ) -> Result<(ReplayRun, Counts), ReplayError> {
        let architecture = self.architecture;
        for frame in frames {
            let Frame { number, captured: frame } = frame?;
            let plan = planner.plan(&frame.data);
            let pieces = self.pieces_of(&plan);
            if self.round.len() == ROUND_PACKETS || self.pieces + pieces > ROUND_PIECES {
                self.forward()?;
                progress(Step::Forwarded { architecture, frames: self.counts.frames });
                interrupt.check()?;
            }
            self.counts.frame(&frame, &plan);
            self.pieces += pieces;
            if self.fits(&frame, &plan) {
                self.round.push(Sent { number, frame, plan });
            } else {
                self.counts.not_put_in += 1;
            }
        }
        self.forward()?;
        progress(Step::Forwarded { architecture, frames: self.counts.frames });
        self.finish()
    }

    /// Most frames as which a packet may leave.
    fn pieces_of(&self, plan: &Plan) -> usize {
        let payload = usize::from(self.config.policy.base_station_mtu).saturating_sub(20) / 8 * 8;
        1 + (plan.user.len() + tunnel::MAX_HEADERS) / payload.max(8)
    }

    /// Whether a packet can be put in.
    fn fits(&mut self, frame: &CapturedFrame, plan: &Plan) -> bool {
        match plan.entrance {
            Entrance::Internet => frame.data.len() <= self.buffers.packet_bytes(),
            Entrance::BaseStation(flow) => {
                // Only the length matters here.
                let uplink = self.uplink(flow, [0; 6], 0, TunnelForm::Plain);
                let inner = &frame.data[plan.user.clone()];
                u16::try_from(inner.len() + tunnel::MAX_HEADERS - 14).is_ok()
                    || tunnel::wrap(inner, &uplink, &mut self.wrapped).is_ok()
            }
        }
    }

    fn uplink(&self, flow: FlowId, dst_mac: [u8; 6], draw: u64, form: TunnelForm) -> Uplink {
        let station = self.pinning.station(flow);
        Uplink {
            dst_mac,
            src_mac: station.mac.octets(),
            src: station.address,
            dst: self.config.policy.gateway_address,
            teid: self.pinning.flow(flow).uplink_teid,
            form,
            qfi: 9,
            number: draw as u16,
            has_checksum: draw >> 40 & 1 == 1,
        }
    }

    /// Puts the round's packets in, lets the cluster forward, and passes the results to the ledger.
    fn forward(&mut self) -> Result<(), ReplayError> {
        self.ledger.begin_round(self.round.iter().map(|sent| sent.number));
        for id in 0..self.round.len() {
            self.put_in(id)?;
        }
        self.forwarding += self.cluster.forward();
        self.collect()?;
        self.ledger.end_round();
        self.round.clear();
        self.pieces = 0;
        Ok(())
    }

    fn put_in(&mut self, id: usize) -> Result<(), ReplayError> {
        let draw = self.next_random();
        let mut bytes = std::mem::take(&mut self.wrapped);
        let Sent { frame, plan, .. } = &self.round[id];
        let node = self.ingress(plan, draw);
        let macs = self.macs[node.index()];
        let from = match plan.entrance {
            Entrance::Internet => {
                bytes.clear();
                bytes.extend_from_slice(&frame.data);
                // Unicast frames are sent to the node.
                if let Some(destination) = bytes.first_chunk_mut::<6>()
                    && destination[0] & 1 == 0
                {
                    *destination = macs.internet.octets();
                }
                OutputPort::Internet
            }
            Entrance::BaseStation(flow) => {
                let inner = &frame.data[plan.user.clone()];
                // The optional parts may not fit.
                let wrapped =
                    [TunnelForm::ALL[(draw >> 48 & 3) as usize], TunnelForm::Plain].iter().any(|form| {
                        let uplink = self.uplink(flow, macs.base_station.octets(), draw, *form);
                        tunnel::wrap(inner, &uplink, &mut bytes).is_ok()
                    });
                if !wrapped {
                    return Err(ReplayError::NoRoom("an IP packet"));
                }
                OutputPort::BaseStation
            }
        };
        let packet = self.buffers.packet(&bytes);
        self.wrapped = bytes;
        let mut packet = packet.ok_or(ReplayError::NoRoom("the buffers"))?;
        packet.set_tag(Tag { id: id as u64, hops: 0, piece: 0 });
        self.cluster.put_in(node, from, packet).ok_or(ReplayError::NoRoom("a link"))
    }

    /// A random node; the same for all fragments of a datagram, as if routers chose paths by addresses.
    fn ingress(&self, plan: &Plan, draw: u64) -> NodeId {
        let draw = plan.datagram.map_or(draw, |datagram| {
            let mut hasher = DefaultHasher::new();
            (self.config.seed, datagram).hash(&mut hasher);
            hasher.finish()
        });
        // A cluster has at most 256 nodes.
        NodeId::new(((u128::from(draw) * self.config.size.get() as u128) >> 64) as u8)
    }

    /// The next number of `SplitMix64`.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn collect(&mut self) -> Result<(), ReplayError> {
        let mut left = self.cluster.take_left();
        // A node's capture has both links, in the order of the replayed capture.
        left.sort_by_key(|left| (left.node, left.packet.tag().id));
        left.iter().try_for_each(|left| self.account(left))?;
        for dropped in self.cluster.take_drops() {
            let sent = usize::try_from(dropped.tag.id).ok().and_then(|id| self.round.get(id));
            let causes = match sent.map(|sent| sent.plan.outcome) {
                Some(Outcome::Drops(causes) | Outcome::Either(_, causes)) => causes,
                Some(Outcome::Leaves(_)) | None => &[],
            };
            self.ledger.dropped(&dropped, causes);
        }
        Ok(())
    }

    fn account(&mut self, &Left { node, output, ref packet }: &Left) -> Result<(), ReplayError> {
        let (tag, bytes) = (packet.tag(), packet.data());
        let Some(sent) = usize::try_from(tag.id).ok().and_then(|id| self.round.get(id)) else {
            self.ledger.left_wrongly(tag, "was never put in");
            return Ok(());
        };
        let inner = &sent.frame.data[sent.plan.user.clone()];
        match sent.plan.outcome {
            _ if tag.piece == ICMP_PIECE => self.ledger.answered(output, tag, bytes, inner),
            Outcome::Leaves(flow) | Outcome::Either(flow, _) => {
                let expected = self.expected(flow, sent.plan.entrance, inner);
                self.ledger.left(node, output, tag, bytes, &expected);
            }
            Outcome::Drops(causes) => {
                let why = causes.first().map_or("two parsers disagree about it", |cause| cause.meaning());
                self.ledger.left_wrongly(tag, why);
            }
        }
        let at = sent.frame.timestamp;
        self.captures.as_mut().map_or(Ok(()), |captures| captures.write(node, at, bytes))
    }

    fn expected<'p>(&self, flow: FlowId, entrance: Entrance, inner: &'p [u8]) -> Expected<'p> {
        let spec = self.pinning.flow(flow);
        let upstream = Expected {
            node: spec.node,
            output: OutputPort::Internet,
            teid: Teid::new(0),
            base_station: Ipv4Addr::UNSPECIFIED,
            qfi: None,
            inner,
        };
        match entrance {
            Entrance::BaseStation(_) => upstream,
            Entrance::Internet => Expected {
                output: OutputPort::BaseStation,
                teid: spec.downlink_teid,
                base_station: self.pinning.station(flow).address,
                qfi: spec.qfi,
                ..upstream
            },
        }
    }

    fn finish(self) -> Result<(ReplayRun, Counts), ReplayError> {
        let totals = self.ledger.totals().clone();
        let run = ReplayRun {
            architecture: self.architecture,
            mpps: rate_of_run(totals.packets_in, self.forwarding),
            totals,
            footprint: self.cluster.footprint(),
            captures: self.captures.map_or(Ok(Vec::new()), NodeCaptures::finish)?,
        };
        Ok((run, self.counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{self, tests};

    /// Drives UDP packets both ways through a cluster whose flows differ from the expected ones.
    fn with_other_flows(change: impl Fn(&mut scalebricks_apps::gateway::FlowSpec)) -> crate::ledger::Totals {
        // The first frame is too large for a tunnel: it is numbered, but not put in.
        let frames = [vec![tests::too_large()], tests::udp_both_ways(20)].concat();
        let (_directory, file) = tests::capture(&frames);
        let config = tests::options(&file).config;
        let sorted = replay::sort(&file, &Interrupt::default()).unwrap();
        let pin = || Pinning::new(&sorted.conversations, &config);
        let (expected, mut changed) = (pin(), pin());
        changed.flows.iter_mut().for_each(change);
        let architecture = Architecture::ScaleBricks;
        let mut drive = Drive::new(&config, architecture, &changed, sorted.longest, None).unwrap();
        drive.pinning = &expected;
        let planner = Planner::new(&sorted.conversations, &expected, config.policy);
        let frames = Frames::open(&file).unwrap();
        let (run, counts) = drive.run(frames, planner, &mut |_| {}, &Interrupt::default()).unwrap();
        assert_eq!((counts.frames, run.totals.packets_in, run.totals.lost), (41, 40, 0));
        run.totals
    }

    #[test]
    fn a_cluster_with_other_flows_is_detected() {
        assert_eq!(with_other_flows(|_| {}).misdelivered, 0);
        let elsewhere = with_other_flows(|flow| flow.node = NodeId::new((flow.node.get() + 1) % 4));
        assert_eq!((elsewhere.misdelivered, elsewhere.packets_out), (40, 40));
        let tunnel = with_other_flows(|flow| flow.downlink_teid = Teid::new(flow.downlink_teid.get() ^ 1));
        assert_eq!((tunnel.misdelivered, tunnel.packets_out), (20, 40), "downstream only");
        let station = with_other_flows(|flow| flow.base_station.0 ^= 1);
        assert_eq!((station.misdelivered, station.packets_out), (20, 40), "downstream only");
        // No such tunnel: the cluster drops with a reason that the packets do not justify.
        let unknown = with_other_flows(|flow| flow.uplink_teid = Teid::new(flow.uplink_teid.get() ^ 1));
        assert_eq!((unknown.misdelivered, unknown.packets_out), (20, 20), "upstream only");
        // Every other frame is a mobile's, from the second on.
        assert_eq!(
            unknown.problems.lines(),
            ["packet 2 was dropped as unknown_flow, which nothing in it calls for; \
              19 more like it: packet 4, 6, 8, 10, …"]
        );
    }
}

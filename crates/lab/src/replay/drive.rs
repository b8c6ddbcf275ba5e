//! Drives a capture through one cluster, a bounded number of packets at a time.

use super::captures::NodeCaptures;
use super::frames::{Frame, Frames};
use super::pinning::{FlowId, Pinning};
use super::plan::{Entrance, Fate, Plan, Planner};
use super::tunnel::{self, Uplink};
use super::{ArchitectureRun, Counts, ReplayError, ReplayOptions, Step};
use crate::ledger::{Expected, Ledger};
use scalebricks_apps::gateway::{Architecture, Cluster, ClusterConfig, FlowTables};
use scalebricks_elements::gateway::OutputPort;
use scalebricks_elements::gateway::packet::oversize::ICMP_PIECE;
use scalebricks_io::{CapturedFrame, Packet, PacketBuf, Pool, Tag};
use scalebricks_types::{HashSeed, NodeId, Teid};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Packets under way at a time.
const ROUND_PACKETS: usize = 1_024;
/// Frames they may leave as, fragments and answers counted.
const ROUND_PIECES: usize = 8_192;
/// Frames each pair of nodes can have under way; more wait in the nodes, which have room for a whole round.
const FABRIC_CAPACITY: usize = 256;
/// Least room for the frames a node makes itself: an ICMP error about an IPv6 packet.
const ANSWER_BYTES: usize = 14 + 1_280;

/// A packet that was put in.
struct Sent {
    /// Its frame number in the capture.
    number: u64,
    frame: CapturedFrame,
    plan: Plan,
}

/// One cluster and all that goes through it.
pub(super) struct Drive<'a> {
    options: &'a ReplayOptions,
    pinning: &'a Pinning,
    architecture: Architecture,
    cluster: Cluster,
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
        options: &'a ReplayOptions,
        architecture: Architecture,
        pinning: &'a Pinning,
        longest: usize,
        captures: Option<NodeCaptures>,
    ) -> Result<Self, ReplayError> {
        let mtu = usize::from(options.policy.base_station_mtu);
        let packet_bytes = (longest + tunnel::MAX_HEADERS).min(scalebricks_io::pool::MAX_PACKET_BYTES);
        let config = ClusterConfig {
            size: options.size,
            architecture,
            gpt: options.gpt,
            policy: options.policy,
            seed: HashSeed::from_u64(options.seed),
            base_stations: pinning.base_stations.clone(),
            outside_capacity: ROUND_PIECES + ROUND_PACKETS,
            fabric_capacity: FABRIC_CAPACITY,
            buffers: Pool::new(ROUND_PIECES + ROUND_PACKETS, ANSWER_BYTES.max(mtu + 14))?,
        };
        let mut cluster = Cluster::new(&config, &pinning.flows)?;
        cluster.nodes_mut().iter_mut().for_each(scalebricks_apps::gateway::Node::list_drops);
        Ok(Self {
            options,
            pinning,
            architecture,
            cluster,
            // Twice, so that packets stuck in a cluster are found by the ledger and not by the pool.
            buffers: Pool::new(2 * ROUND_PACKETS, packet_bytes)?,
            ledger: Ledger::new(),
            round: Vec::with_capacity(ROUND_PACKETS),
            pieces: 0,
            wrapped: Vec::new(),
            random: options.seed,
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
        stop: &dyn Fn() -> bool,
    ) -> Result<(ArchitectureRun, Counts), ReplayError> {
        for frame in frames {
            let Frame { number, captured: frame } = frame?;
            let plan = planner.plan(&frame.data);
            let pieces = self.pieces_of(&plan);
            if self.round.len() == ROUND_PACKETS || self.pieces + pieces > ROUND_PIECES {
                self.forward()?;
                progress(Step::Forwarded { architecture: self.architecture, frames: self.counts.frames });
                if stop() {
                    return Err(ReplayError::Stopped);
                }
            }
            self.counts.frame(&frame, &plan);
            self.pieces += pieces;
            self.put_in_later(Sent { number, frame, plan });
        }
        self.forward()?;
        progress(Step::Forwarded { architecture: self.architecture, frames: self.counts.frames });
        self.finish()
    }

    /// Frames a packet may leave as.
    fn pieces_of(&self, plan: &Plan) -> usize {
        let payload = usize::from(self.options.policy.base_station_mtu).saturating_sub(20) / 8 * 8;
        1 + (plan.user.len() + tunnel::MAX_HEADERS) / payload.max(8)
    }

    fn put_in_later(&mut self, sent: Sent) {
        let Sent { frame, plan, .. } = &sent;
        if let Entrance::BaseStation(flow) = plan.entrance {
            let inner = &frame.data[plan.user.clone()];
            // Only the length counts here; the addresses are known once the ingress node is drawn.
            if inner.len() + tunnel::MAX_HEADERS - 14 > usize::from(u16::MAX) {
                let uplink = self.uplink(flow, [0; 6], 0);
                if tunnel::wrap(inner, &uplink, &mut self.wrapped).is_err() {
                    self.counts.not_put_in += 1;
                    return;
                }
            }
        } else if frame.data.len() > self.buffers.packet_bytes() {
            self.counts.not_put_in += 1;
            return;
        }
        self.round.push(sent);
    }

    fn uplink(&self, flow: FlowId, dst_mac: [u8; 6], draw: u64) -> Uplink {
        let station = self.pinning.station(flow);
        Uplink {
            dst_mac,
            src_mac: station.mac.octets(),
            src: station.address,
            dst: self.options.policy.gateway_address,
            teid: self.pinning.flow(flow).uplink_teid,
            draw,
        }
    }

    /// Puts the round's packets in, lets the cluster work, and accounts for what came of it.
    fn forward(&mut self) -> Result<(), ReplayError> {
        self.ledger.begin_round(self.round.iter().map(|sent| sent.number));
        for id in 0..self.round.len() {
            self.put_in(id)?;
        }
        self.forwarding += self.cluster.run_until_idle(self.options.threads);
        self.collect()?;
        self.ledger.end_round();
        self.round.clear();
        self.pieces = 0;
        Ok(())
    }

    fn put_in(&mut self, id: usize) -> Result<(), ReplayError> {
        let draw = self.next_random();
        let Sent { frame, plan, .. } = &self.round[id];
        let node = self.ingress(plan, draw);
        let macs = self.cluster.links_mut()[node].macs;
        let bytes = match plan.entrance {
            Entrance::Internet => {
                self.wrapped.clear();
                self.wrapped.extend_from_slice(&frame.data);
                address(&mut self.wrapped, macs.internet.octets());
                &self.wrapped
            }
            Entrance::BaseStation(flow) => {
                let inner = &frame.data[plan.user.clone()];
                let uplink = self.uplink(flow, macs.base_station.octets(), draw);
                // Optional parts are what may not fit.
                let plain = Uplink { draw: 0, ..uplink };
                let wrapped = tunnel::wrap(inner, &uplink, &mut self.wrapped);
                if wrapped.or_else(|_| tunnel::wrap(inner, &plain, &mut self.wrapped)).is_err() {
                    return Err(ReplayError::NoRoom("an IP packet"));
                }
                &self.wrapped
            }
        };
        let mut packet = self.buffers.packet(bytes).ok_or(ReplayError::NoRoom("the buffers"))?;
        packet.set_tag(Tag { id: id as u64, hops: 0, piece: 0 });
        let link = &mut self.cluster.links_mut()[node];
        let port = match plan.entrance {
            Entrance::Internet => &mut link.internet,
            Entrance::BaseStation(_) => &mut link.base_station,
        };
        port.send(packet).map_err(|_| ReplayError::NoRoom("a link"))
    }

    /// Any node for any packet; fragments of one datagram share one, as they do where paths are chosen by addresses.
    fn ingress(&self, plan: &Plan, draw: u64) -> usize {
        let draw = plan.datagram.map_or(draw, |datagram| {
            let mut hasher = DefaultHasher::new();
            (self.options.seed, datagram).hash(&mut hasher);
            hasher.finish()
        });
        ((u128::from(draw) * self.options.size.get() as u128) >> 64) as usize
    }

    /// The next number of a Weyl sequence, mixed (`SplitMix64`).
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn collect(&mut self) -> Result<(), ReplayError> {
        for node in self.options.size.nodes() {
            let link = &mut self.cluster.links_mut()[node.index()];
            let mut left: Vec<(OutputPort, Packet)> = Vec::new();
            while let Some(packet) = link.internet.receive() {
                left.push((OutputPort::Internet, packet));
            }
            while let Some(packet) = link.base_station.receive() {
                left.push((OutputPort::BaseStation, packet));
            }
            // Both links in one file: in the order of the capture, each link's own order within a packet.
            left.sort_by_key(|(_, packet)| packet.tag().id);
            for (port, packet) in left {
                self.account(node, port, &packet)?;
            }
        }
        for node in self.cluster.nodes_mut() {
            for dropped in node.take_drops() {
                let sent = usize::try_from(dropped.tag.id).ok().and_then(|id| self.round.get(id));
                let grounds = match sent.map(|sent| sent.plan.fate) {
                    Some(Fate::Drops(grounds) | Fate::Either(_, grounds)) => grounds,
                    Some(Fate::Leaves(_)) | None => &[],
                };
                self.ledger.dropped(&dropped, grounds);
            }
        }
        Ok(())
    }

    fn account(&mut self, node: NodeId, port: OutputPort, packet: &Packet) -> Result<(), ReplayError> {
        let (tag, bytes) = (packet.tag(), packet.data());
        let Some(sent) = usize::try_from(tag.id).ok().and_then(|id| self.round.get(id)) else {
            self.ledger.left_wrongly(tag, "was never put in");
            return Ok(());
        };
        let inner = &sent.frame.data[sent.plan.user.clone()];
        match sent.plan.fate {
            _ if tag.piece == ICMP_PIECE => self.ledger.answered(port, tag, bytes, inner),
            Fate::Leaves(flow) | Fate::Either(flow, _) => {
                let expected = self.expected(flow, sent.plan.entrance, inner);
                self.ledger.left(node, port, tag, bytes, &expected);
            }
            Fate::Drops(grounds) => {
                let why = grounds.first().map_or("two readers disagree about it", |ground| ground.meaning());
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

    fn finish(self) -> Result<(ArchitectureRun, Counts), ReplayError> {
        let captures = self.captures.map_or(Ok(Vec::new()), NodeCaptures::finish)?;
        let sizes = || self.cluster.tables().iter().map(FlowTables::sizes);
        let run = ArchitectureRun {
            architecture: self.architecture,
            totals: self.ledger.totals().clone(),
            forwarding: self.forwarding,
            fabric_bytes: self.cluster.fabric_stats().bytes,
            gpt_bytes_per_node: sizes().map(|sizes| sizes.gpt_bytes).max().unwrap_or(0),
            fib_bytes_per_node: sizes().map(|sizes| sizes.fib_bytes).max().unwrap_or(0),
            captures,
        };
        Ok((run, self.counts))
    }
}

/// Gives a frame its destination, unless it is for many.
fn address(frame: &mut [u8], mac: [u8; 6]) {
    if let Some(destination) = frame.first_chunk_mut::<6>()
        && destination[0] & 1 == 0
    {
        *destination = mac;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{self, tests};

    /// Drives UDP packets both ways through a cluster that was told something else than what is expected.
    fn told_otherwise(change: impl Fn(&mut scalebricks_apps::gateway::FlowSpec)) -> crate::ledger::Totals {
        // The first frame finds no room in a tunnel: it counts in the numbers of those behind it, but is not put in.
        let frames = [vec![tests::too_large()], tests::udp_both_ways(20)].concat();
        let (_directory, file) = tests::capture(&frames);
        let options = tests::options(&file);
        let sorted = replay::sort(&options, &mut |_| {}, &|| false).unwrap();
        let pin = || {
            let profile = options.policy.key_profile;
            Pinning::new(&sorted.conversations, profile, options.size, HashSeed::from_u64(options.seed))
        };
        let (expected, mut told) = (pin(), pin());
        told.flows.iter_mut().for_each(change);
        let architecture = Architecture::ScaleBricks;
        let mut drive = Drive::new(&options, architecture, &told, sorted.longest, None).unwrap();
        drive.pinning = &expected;
        let planner = Planner::new(&sorted.conversations, &expected, options.policy);
        let frames = Frames::open(&file).unwrap();
        let (run, counts) = drive.run(frames, planner, &mut |_| {}, &|| false).unwrap();
        assert_eq!((counts.frames, run.totals.packets_in, run.totals.lost), (41, 40, 0));
        run.totals
    }

    #[test]
    fn a_cluster_that_does_something_else_is_found_out() {
        assert_eq!(told_otherwise(|_| {}).misdelivered, 0);
        let elsewhere = told_otherwise(|flow| flow.node = NodeId::new((flow.node.get() + 1) % 4));
        assert_eq!((elsewhere.misdelivered, elsewhere.packets_out), (40, 40));
        let tunnel = told_otherwise(|flow| flow.downlink_teid = Teid::new(flow.downlink_teid.get() ^ 1));
        assert_eq!((tunnel.misdelivered, tunnel.packets_out), (20, 40), "downstream only");
        let station = told_otherwise(|flow| flow.base_station.0 ^= 1);
        assert_eq!((station.misdelivered, station.packets_out), (20, 40), "downstream only");
        // No such tunnel: dropped for a good reason, but the packets give none.
        let unknown = told_otherwise(|flow| flow.uplink_teid = Teid::new(flow.uplink_teid.get() ^ 1));
        assert_eq!((unknown.misdelivered, unknown.packets_out), (20, 20), "upstream only");
        // Every other frame is a mobile's, from the second on.
        assert_eq!(
            unknown.problems.lines(),
            ["packet 2 was dropped as unknown_flow, which nothing in it calls for; \
              19 more like it: packet 4, 6, 8, 10, …"]
        );
    }
}

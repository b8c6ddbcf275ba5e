//! A line of the log.

use super::counted;
use scalebricks_flows::tcp::Anomaly;
use scalebricks_flows::tracker::{Ended, State};
use scalebricks_flows::{Direction, Named, Tally};
use scalebricks_wire::protocol;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// A value of each direction. Forward is as the flow's first packet.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Both<T> {
    pub(super) forward: T,
    pub(super) reverse: T,
}

impl<T> Both<T> {
    fn by(of: impl Fn(Direction) -> T) -> Self {
        Self { forward: of(Direction::Forward), reverse: of(Direction::Reverse) }
    }
}

impl Both<u64> {
    pub(super) const fn sum(self) -> u64 {
        self.forward + self.reverse
    }
}

/// A flow that has ended, or lasts and is reported.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    /// Number, in order of first packets.
    pub(super) flow: u64,
    pub(super) protocol: String,
    pub(super) source: IpAddr,
    pub(super) source_port: u16,
    pub(super) destination: IpAddr,
    pub(super) destination_port: u16,
    /// Since 1970-01-01 UTC.
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    pub(super) packets: Both<u64>,
    /// Of IP packets.
    pub(super) bytes: Both<u64>,
    pub(super) state: &'static str,
    pub(super) ended: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp: Option<Tcp>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    anomalies: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Serialize)]
struct Tcp {
    /// The handshake was not seen from its beginning.
    picked_up: bool,
    syn: Both<bool>,
    syn_acknowledged: Both<bool>,
    fin: Both<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reset_by: Option<&'static str>,
    /// Reassembled, without what is missing.
    stream_bytes: Both<u64>,
    missing_bytes: Both<u64>,
    repeated_segments: Both<u32>,
}

impl Record {
    pub(super) fn new(ended: &Ended<'_>, anomalies: Option<&Tally<Anomaly>>) -> Self {
        let (tuple, flow) = (ended.tuple, ended.flow);
        let tcp = ended.connection.zip(ended.streams).map(|(connection, streams)| Tcp {
            picked_up: connection.is_picked_up(),
            syn: Both::by(|from| connection.has_syn(from)),
            syn_acknowledged: Both::by(|from| connection.is_syn_acknowledged(from)),
            fin: Both::by(|from| connection.has_fin(from)),
            reset_by: connection.reset_by().map(|from| match from {
                Direction::Forward => "forward",
                Direction::Reverse => "reverse",
            }),
            stream_bytes: Both::by(|from| streams[from.index()].delivered()),
            missing_bytes: Both::by(|from| streams[from.index()].missing()),
            repeated_segments: Both::by(|from| connection.repeated(from)),
        });
        Self {
            flow: flow.serial,
            protocol: name(tuple.protocol),
            source: tuple.src,
            source_port: tuple.src_port,
            destination: tuple.dst,
            destination_port: tuple.dst_port,
            first_ns: flow.first_ns,
            last_ns: flow.last_ns,
            packets: Both::by(|from| flow.packets[from.index()]),
            bytes: Both::by(|from| flow.bytes[from.index()]),
            state: match ended.state {
                State::Tcp(state) => state.name(),
                State::Simple(state) => state.name(),
            },
            ended: ended.cause.name(),
            tcp,
            anomalies: anomalies
                .map(|anomalies| counted(anomalies).into_iter().collect())
                .unwrap_or_default(),
        }
    }
}

/// An end of a flow: the address, with a port if there is one.
pub(super) fn end(address: IpAddr, port: u16) -> String {
    match port {
        0 => address.to_string(),
        port => SocketAddr::from((address, port)).to_string(),
    }
}

/// A protocol's name, or its number.
pub(super) fn name(protocol: u8) -> String {
    let name = match protocol {
        protocol::TCP => "tcp",
        protocol::UDP => "udp",
        protocol::UDP_LITE => "udp-lite",
        protocol::ICMPV4 => "icmp",
        protocol::ICMPV6 => "icmpv6",
        protocol::SCTP => "sctp",
        protocol::ESP => "esp",
        other => return other.to_string(),
    };
    name.to_owned()
}

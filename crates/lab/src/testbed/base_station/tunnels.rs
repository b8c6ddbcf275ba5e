//! The tunnels at the base station's end: which packet goes into which tunnel, and what each may deliver.

use scalebricks_apps::gateway::FlowSpec;
use scalebricks_types::{FlowKey, Teid};
use scalebricks_wire::gtpu::extension::{self, PduSessionContainer};
use scalebricks_wire::gtpu::{CONTAINER_HEADER_LEN, Gtpu, MessageType, message};
use scalebricks_wire::ipv4::{self, Ipv4Header};
use scalebricks_wire::parse_ip;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::Ipv4Addr;

/// The tunnels of all phones.
#[derive(Debug)]
pub struct Tunnels {
    by_ue: HashMap<FlowKey, FlowSpec>,
    by_teid: HashMap<Teid, FlowSpec>,
}

/// A packet that was put into its tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// A hash of addresses, protocol and ports: packets of one flow use one path.
    pub path: u64,
    /// The TEID at the gateway.
    pub teid: Teid,
    /// Octets of the message.
    pub len: usize,
}

/// The content of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived<'a> {
    /// A packet for a phone.
    Packet(&'a [u8]),
    /// An echo request with this sequence number, to be answered.
    EchoRequest(u16),
    /// An echo response.
    EchoResponse,
    /// The gateway does not know a tunnel.
    ErrorIndication,
    /// Any other valid message.
    Other,
}

/// Why a packet was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Not a well-formed IP packet.
    Malformed,
    /// Its source is not a phone.
    NoSuchUe,
    /// Its tunnel does not exist.
    BadTeid,
    /// In the tunnel of another phone.
    WrongUe,
    /// Without the QoS flow of its phone, or with another.
    WrongQfi,
    /// Too long for the tunnel.
    TooLong,
}

impl Tunnels {
    /// The tunnels of flows whose key is the phone's address.
    pub fn new(flows: &[FlowSpec]) -> Self {
        Self {
            by_ue: flows.iter().map(|flow| (flow.key, *flow)).collect(),
            by_teid: flows.iter().map(|flow| (flow.downlink_teid, *flow)).collect(),
        }
    }

    /// Writes a phone's packet into `out`, in its tunnel.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn up(&self, packet: &[u8], out: &mut [u8]) -> Result<Sent, Refused> {
        let summary = parse_ip(packet).map_err(|_| Refused::Malformed)?.summary;
        let flow = self.by_ue.get(&FlowKey::ue(summary.src)).ok_or(Refused::NoSuchUe)?;
        let too_long = |_| Refused::TooLong;
        let header = match flow.qfi {
            None => message::gpdu_header(flow.uplink_teid, packet.len()).map_err(too_long)?.to_vec(),
            Some(qfi) => {
                let header = message::gpdu_header_with_container(flow.uplink_teid, qfi, false, packet.len());
                let mut header = header.map_err(too_long)?.to_vec();
                // The same header, with the container of the other direction.
                header[CONTAINER_HEADER_LEN - 4..].copy_from_slice(&extension::uplink_container(qfi));
                header
            }
        };
        let len = header.len() + packet.len();
        let (to_header, to_packet) = out.get_mut(..len).ok_or(Refused::TooLong)?.split_at_mut(header.len());
        to_header.copy_from_slice(&header);
        to_packet.copy_from_slice(packet);
        let mut hasher = DefaultHasher::new();
        summary.five_tuple().hash(&mut hasher);
        Ok(Sent { path: hasher.finish(), teid: flow.uplink_teid, len })
    }

    /// Parses a message to the base station.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn down<'a>(&self, message: &'a [u8]) -> Result<Arrived<'a>, Refused> {
        let message = Gtpu::parse(message).map_err(|_| Refused::Malformed)?;
        match message.message_type() {
            MessageType::GPdu => self.packet(&message).map(Arrived::Packet),
            MessageType::EchoRequest => Ok(Arrived::EchoRequest(message.sequence().unwrap_or(0))),
            MessageType::EchoResponse => Ok(Arrived::EchoResponse),
            MessageType::ErrorIndication => Ok(Arrived::ErrorIndication),
            _ => Ok(Arrived::Other),
        }
    }

    fn packet<'a>(&self, message: &Gtpu<'a>) -> Result<&'a [u8], Refused> {
        let flow = self.by_teid.get(&message.teid()).ok_or(Refused::BadTeid)?;
        let qfi = match message.pdu_session_container() {
            None => None,
            Some(Ok(PduSessionContainer::Downlink { qfi, .. })) => Some(qfi),
            Some(_) => return Err(Refused::WrongQfi),
        };
        let summary = parse_ip(message.payload()).map_err(|_| Refused::Malformed)?.summary;
        if FlowKey::ue(summary.dst) != flow.key {
            return Err(Refused::WrongUe);
        }
        if qfi == flow.qfi { Ok(message.payload()) } else { Err(Refused::WrongQfi) }
    }
}

/// An empty IPv4 packet of an unknown source, in a tunnel.
pub fn empty_packet(teid: Teid) -> Vec<u8> {
    let packet = Ipv4Header {
        dscp_ecn: 0,
        total_len: ipv4::MIN_HEADER_LEN as u16,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_units: 0,
        ttl: 64,
        protocol: 253, // RFC 3692: for experiments
        src: Ipv4Addr::new(198, 51, 100, 1),
        dst: Ipv4Addr::new(192, 0, 2, 1),
    };
    let header = message::gpdu_header(teid, ipv4::MIN_HEADER_LEN).unwrap_or_default();
    [&header[..], &packet.to_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::plan::{Family, Plan, STATION};
    use etherparse::PacketBuilder;
    use scalebricks_admin::flow_list::Reading;
    use scalebricks_console::Console;
    use scalebricks_types::KeyProfile;

    fn tunnels() -> Tunnels {
        let reading =
            Reading { profile: KeyProfile::Ue, size: Plan::sample().size, base_stations: &[STATION] };
        let flows = reading.read(Plan::sample().flows_csv().as_bytes(), &Console::new(true).progress("", 0));
        Tunnels::new(&flows.unwrap())
    }

    /// UDP from a phone to the Internet host, or back.
    fn packet(ue: u16, is_upstream: bool, port: u16) -> Vec<u8> {
        let ue = Plan::sample().ues().nth(usize::from(ue)).unwrap();
        let (phone, host) = (ue.v6().octets(), [1; 16]);
        let (from, to) = if is_upstream { (phone, host) } else { (host, phone) };
        let mut out = Vec::new();
        PacketBuilder::ipv6(from, to, 64).udp(port, 53).write(&mut out, &[7; 100]).unwrap();
        out
    }

    #[test]
    fn upstream_packets_carry_their_uplink_teid_and_with_a_qfi_an_uplink_container() {
        for ue in Plan::sample().ues() {
            let packet = packet(ue.number, true, 9);
            let mut out = [0; 2000];
            let sent = tunnels().up(&packet, &mut out).unwrap();
            // By TS 29.281 §5.1 and TS 38.415 §5.5.2.2, octet by octet.
            let teid = ue.uplink_teid(Family::V6).to_be_bytes();
            let len = |extra: usize| u16::try_from(packet.len() + extra).unwrap().to_be_bytes();
            let header = match ue.qfi() {
                None => [&[0x30, 255][..], &len(0), &teid].concat(),
                Some(qfi) => {
                    [&[0x34, 255][..], &len(8), &teid, &[0, 0, 0, 0x85], &[1, 0x10, qfi, 0]].concat()
                }
            };
            assert_eq!(&out[..sent.len], [header, packet].concat(), "UE {}", ue.number);
        }
    }

    #[test]
    fn flows_of_a_phone_use_several_paths_and_each_flow_uses_one() {
        let mut out = [0; 2000];
        let mut path = |port| tunnels().up(&packet(0, true, port), &mut out).unwrap().path;
        assert_eq!(path(1), path(1));
        assert!((1..50).map(&mut path).collect::<std::collections::HashSet<_>>().len() > 40);
    }

    fn downlink(teid: u32, qfi: Option<u8>, packet: &[u8]) -> Vec<u8> {
        let extra = if qfi.is_some() { 8 } else { 0 };
        let len = u16::try_from(packet.len() + extra).unwrap().to_be_bytes();
        let first = if qfi.is_some() { 0x34 } else { 0x30 };
        let mut out = [&[first, 255][..], &len, &teid.to_be_bytes()].concat();
        if let Some(qfi) = qfi {
            out.extend([0, 0, 0, 0x85, 1, 0, qfi, 0]);
        }
        out.extend(packet);
        out
    }

    #[test]
    fn a_tunnel_delivers_packets_for_its_phone_only() {
        let (tunnels, ue) = (tunnels(), Plan::sample().ues().next().unwrap());
        let teid = ue.downlink_teid(Family::V6);
        let packet = packet(0, false, 9);
        let arrived = |teid, qfi, packet: &[u8]| {
            let message = downlink(teid, qfi, packet);
            tunnels.down(&message).map(|arrived| match arrived {
                Arrived::Packet(packet) => packet.to_vec(),
                _ => Vec::new(),
            })
        };
        assert_eq!(arrived(teid, Some(9), &packet), Ok(packet.clone()));
        assert_eq!(arrived(0x999, Some(9), &packet), Err(Refused::BadTeid));
        assert_eq!(arrived(ue.downlink_teid(Family::V4), Some(9), &packet), Err(Refused::WrongUe));
        assert_eq!(arrived(teid, None, &packet), Err(Refused::WrongQfi));
        assert_eq!(arrived(teid, Some(8), &packet), Err(Refused::WrongQfi));
        assert_eq!(arrived(teid, Some(9), &packet[..30]), Err(Refused::Malformed));
        assert_eq!(tunnels.up(&packet, &mut [0; 2000]), Err(Refused::NoSuchUe));
        assert_eq!(tunnels.down(&[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 7, 0, 0]), Ok(Arrived::EchoRequest(7)));
    }
}

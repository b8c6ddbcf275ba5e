//! `IPEncap`.

use crate::columns::{DstIp, IpHeader};
use crate::header;
use crate::shared_names::{drops, handlers};
use crate::values::Ip;
use scalebricks_graph::args::Param;
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{Class, Control, DropId, Handle, HandlerId, Meta, Out, Verdict, element};
use scalebricks_io::PacketBuf;
use scalebricks_wire::ipv4::{Ipv4Header, MIN_HEADER_LEN};
use scalebricks_wire::protocol;

element! {
    /// Adds an IPv4 header to packets, the same for all except length and identification. Sets the destination
    /// annotation to its destination.
    pub struct IPEncap as "IPEncap" { fields: Ipv4Header, dst: Handle<DstIp>, }
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "The encapsulated packets.", }
    params IPEncapParams {
        /// The protocol: a number or `icmp`, `ipip`, `tcp`, `udp`, `gre`, `esp`, `ah`, `sctp`.
        proto: Protocol,
        /// The source.
        src: Ip,
        /// The destination.
        dst: Ip,
        /// The time to live.
        ttl: u8 = 250,
        /// The differentiated services code point, below 64.
        dscp: Option<u8> = None,
        /// Whether the ECN bits mark the transport as ECN-capable: 1 or `true` for ECT(0), 2 for ECT(1).
        ect: Option<String> = None,
        /// Whether the ECN bits mark congestion.
        ce: bool = false,
        /// DSCP and ECN as one byte, instead of the three parameters before.
        tos: Option<u8> = None,
        /// Whether to set "don't fragment".
        df: bool = false,
    }
    example { "ipip", "10.0.0.1", "10.0.0.2", }
    writes { IpHeader, DstIp, }
    drops {
        NO_ROOM = drops::NO_HEADROOM,
        LONG = drops::OVER_LENGTH,
    }
    handlers {
        read SRC = handlers::SRC,
        read DST = handlers::DST,
        write SET_SRC = handlers::SET_SRC,
        write SET_DST = handlers::SET_DST,
    }
    binds { dst, }
}

/// A protocol number.
#[derive(Debug, Clone, Copy)]
pub struct Protocol(u8);

impl Param for Protocol {
    const KIND: &'static str = "an IP protocol";

    fn read(text: &str) -> Option<Self> {
        Some(Self(match text {
            "icmp" => protocol::ICMPV4,
            "ipip" => 4,
            "tcp" => protocol::TCP,
            "udp" => protocol::UDP,
            "gre" => 47,
            "esp" => protocol::ESP,
            "ah" => protocol::AUTHENTICATION,
            "sctp" => protocol::SCTP,
            _ => u8::read(text)?,
        }))
    }
}

/// DSCP and ECN bits.
fn dscp_ecn(dscp: Option<u8>, ect: Option<&str>, ce: bool, tos: Option<u8>) -> Result<u8, String> {
    let ecn = match (ce, ect) {
        (true, _) => 3,
        (false, Some("2")) => 2,
        (false, Some(text)) => {
            u8::from(bool::read(text).ok_or_else(|| format!("ECT is true, false or 2, not {text}"))?)
        }
        (false, None) => 0,
    };
    match (tos, dscp) {
        (Some(tos), None) if ecn == 0 => Ok(tos),
        (Some(_), _) => Err("TOS stands for DSCP, ECT and CE".to_owned()),
        (None, Some(dscp)) if dscp > 63 => Err(format!("a code point is below 64, not {dscp}")),
        (None, dscp) => Ok(dscp.unwrap_or(0) << 2 | ecn),
    }
}

impl Class for IPEncap {
    fn make(params: IPEncapParams) -> Result<Self, String> {
        let IPEncapParams { proto, src, dst, ttl, dscp, ect, ce, tos, df } = params;
        let fields = Ipv4Header {
            dscp_ecn: dscp_ecn(dscp, ect.as_deref(), ce, tos)?,
            total_len: 0,
            identification: 0,
            dont_fragment: df,
            more_fragments: false,
            fragment_units: 0,
            ttl,
            protocol: proto.0,
            src: src.0,
            dst: dst.0,
        };
        Ok(Self { fields, dst: Handle::default() })
    }
}

impl Control for IPEncap {
    fn read(&self, handler: HandlerId) -> String {
        (if handler == Self::SRC { self.fields.src } else { self.fields.dst }).to_string()
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        let ip = Ip::read(value).ok_or_else(|| HandlerError::Value(format!("no IP address: {value:?}")))?;
        *(if handler == Self::SET_SRC { &mut self.fields.src } else { &mut self.fields.dst }) = ip.0;
        Ok(())
    }
}

impl IPEncap {
    fn apply<P: PacketBuf>(&mut self, packet: &mut P, meta: &mut Meta) -> Result<(), DropId> {
        let len = packet.data().len() + MIN_HEADER_LEN;
        self.fields.total_len = u16::try_from(len).map_err(|_| Self::LONG)?;
        packet.prepend(MIN_HEADER_LEN).map_err(|_| Self::NO_ROOM)?;
        if let Some(front) = packet.data_mut().first_chunk_mut() {
            *front = self.fields.to_bytes();
        }
        self.fields.identification = self.fields.identification.wrapping_add(1);
        header::note(meta, 0, MIN_HEADER_LEN, len);
        Ok(())
    }

    fn each<P: PacketBuf>(
        &mut self,
        packet: &mut P,
        meta: &mut Meta,
        dst: &mut DstIp,
        _: &Out<'_>,
    ) -> Verdict {
        match self.apply(packet, meta) {
            Ok(()) => *dst = DstIp(self.fields.dst),
            Err(reason) => return Verdict::Drop(reason),
        }
        Verdict::ON
    }
}

crate::agnostic::per_destination!(IPEncap);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{Rig, ipv4_of};

    #[test]
    fn packets_get_the_header_that_is_set() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare(
                "e",
                "IPEncap",
                &["ipip", "18.26.4.24", "140.247.60.147", "DSCP 46", "ECT 2", "DF true"],
            );
            builder.declare("c", "DecIPTTL", &[]).chain(&["in", "e", "c", "out0"]);
        });
        rig.send(["abc"]);
        rig.turn();
        rig.write("e", "src", "1.2.3.4").unwrap();
        rig.write("e", "dst", "5.6.7.8").unwrap();
        assert_eq!(["src", "dst"].map(|name| rig.read("e", name)), ["1.2.3.4", "5.6.7.8"]);
        assert!(rig.write("e", "dst", "5.6.7").is_err());
        rig.send(["abc"]);
        rig.turn();
        let expected = |identification, src: [u8; 4], dst: [u8; 4]| {
            ipv4_of(
                |header| {
                    (header.src, header.dst, header.identification) =
                        (src.into(), dst.into(), identification);
                    (header.ttl, header.protocol, header.dscp_ecn, header.dont_fragment) =
                        (249, 4, 46 << 2 | 2, true);
                },
                b"abc",
            )
        };
        assert_eq!(
            rig.got(0),
            [expected(0, [18, 26, 4, 24], [140, 247, 60, 147]), expected(1, [1, 2, 3, 4], [5, 6, 7, 8])]
        );
    }

    #[test]
    fn one_byte_stands_for_code_point_and_congestion() {
        assert_eq!(dscp_ecn(Some(63), Some("true"), false, None), Ok(0xfd));
        assert_eq!(dscp_ecn(None, Some("2"), true, None), Ok(3));
        assert_eq!(dscp_ecn(None, None, false, Some(0x17)), Ok(0x17));
        assert!(
            dscp_ecn(Some(1), None, false, Some(1)).is_err() && dscp_ecn(None, None, true, Some(1)).is_err()
        );
        assert!(
            dscp_ecn(Some(64), None, false, None).is_err() && dscp_ecn(None, Some("3"), false, None).is_err()
        );
        assert!(Protocol::read("256").is_none() && Protocol::read("udp").is_some());
    }
}

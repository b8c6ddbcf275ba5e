//! GTP-U against octets written down from the clauses and against vectors made by an independent implementation.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use proptest::prelude::*;
use scalebricks_types::{Qfi, Teid};
use scalebricks_wire::encap::{OuterV4, OuterV4Fields, OuterV4Template, Tunnel};
use scalebricks_wire::gtpu::element::{Elements, ErrorIndication};
use scalebricks_wire::gtpu::extension::{PduSessionContainer, kind, uplink_container};
use scalebricks_wire::gtpu::{Gtpu, MessageType, message};
use scalebricks_wire::{MacAddr, ParseError, WriteError, parse_frame, parse_ip};
use std::net::IpAddr;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

// Made by scapy 2.8.0, `scapy.contrib.gtp`. INNER is
//   IP(src='8.8.8.8', dst='10.45.0.2', id=7, ttl=60, tos=0xb8)/UDP(sport=53, dport=4000)/b'hello'
// GPDU4 is
//   Ether(dst='02:00:00:00:00:02', src='02:00:00:00:00:01')
//   /IP(src='192.0.2.1', dst='192.0.2.2', tos=0xb8, id=0x1234, ttl=64, flags='DF')
//   /UDP(sport=40000, dport=2152, chksum=0)/GTP_U_Header(teid=0x11223344)/INNER
// the _QFI ones have GTPPDUSessionContainer(type=0, QFI=9) before INNER, GPDU6 has
//   IPv6(src='2001:db8::1', dst='2001:db8::2', tc=0xb8, fl=0x54321, hlim=64) and a computed UDP checksum,
// UPLINK is GTP_U_Header(teid=0x55667788)/GTPPDUSessionContainer(type=1, QFI=5)/INNER.
const INNER: &str = "45b80021000700003c1163cf080808080a2d000200350fa0000d91ee68656c6c6f";
const GPDU4: &str = "020000000002020000000001080045b80045123440004011a3b8c0000201c00002029c4008680031000030ff0021\
    1122334445b80021000700003c1163cf080808080a2d000200350fa0000d91ee68656c6c6f";
const GPDU4_QFI: &str = "020000000002020000000001080045b8004d123440004011a3b0c0000201c00002029c4008680039000034ff\
    002911223344000000850100090045b80021000700003c1163cf080808080a2d000200350fa0000d91ee68656c6c6f";
const GPDU6_QFI: &str = "02000000000202000000000186dd6b8543210039114020010db800000000000000000000000120010db80000\
    000000000000000000029c400868003995a834ff002911223344000000850100090045b80021000700003c1163cf080808080a2d\
    000200350fa0000d91ee68656c6c6f";
const UPLINK: &str = "34ff002955667788000000850110050045b80021000700003c1163cf080808080a2d000200350fa0000d91ee68\
    656c6c6f";
// GTP_U_Header(teid=0, S=1, seq=0x0102)/GTPEchoRequest() and
// GTP_U_Header(teid=0, S=1, seq=0x0102)/GTPEchoResponse(IE_list=[IE_Recovery(restart_counter=0)]).
const ECHO_REQUEST: &str = "320100040000000001020000";
const ECHO_RESPONSE: &str = "3202000600000000010200000e00";
// GTP_U_Header(teid=0x11223344, gtp_type=254).

fn outer_v4(qfi: Option<Qfi>) -> OuterV4 {
    OuterV4 {
        dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        src: [192, 0, 2, 1].into(),
        dst: [192, 0, 2, 2].into(),
        dscp_ecn: 0xb8,
        identification: 0x1234,
        dont_fragment: true,
        ttl: 64,
        tunnel: Tunnel { teid: Teid::new(0x1122_3344), qfi, src_port: 40_000 },
    }
}

fn prepended(header_len: usize) -> Vec<u8> {
    [vec![0xee; header_len], hex(INNER)].concat()
}

#[test]
fn outer_headers_equal_those_of_scapy() {
    let qfi = Qfi::new(9).unwrap();
    for (outer, want) in [(outer_v4(None), GPDU4), (outer_v4(Some(qfi)), GPDU4_QFI)] {
        let mut frame = prepended(outer.header_len());
        assert_eq!(outer.write(&mut frame, hex(INNER).len()), Ok(outer.header_len()));
        assert_eq!(frame, hex(want));
    }
}

#[test]
fn lengths_over_the_limits_are_refused() {
    let outer = outer_v4(None);
    assert_eq!(outer.write(&mut [0; 49], 100), Err(WriteError::NoRoom));
    assert_eq!(outer.write(&mut [0; 50], 65_535 - 36), Ok(50));
    for len in [65_535 - 35, usize::MAX] {
        assert_eq!(outer.write(&mut [0; 50], len), Err(WriteError::TooLong));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The template writes what the plain writer writes, of any length, and fails where it fails.
    #[test]
    fn a_template_writes_the_same_octets(
        macs: [[u8; 6]; 2], addresses: [u32; 2], dscp_ecn: u8, identification: Option<u16>, ttl: u8, teid: u32,
        qfi in proptest::option::of(0u8..64), src_port: u16,
        inner_len in prop_oneof![0usize..2_000, 65_000usize..66_000, Just(usize::MAX)], room in 40usize..70,
    ) {
        let tunnel = Tunnel { teid: Teid::new(teid), qfi: qfi.map(|qfi| Qfi::new(qfi).unwrap()), src_port };
        let [dst_mac, src_mac] = macs.map(MacAddr);
        let [dst, src] = addresses.map(std::net::Ipv4Addr::from);
        let plain = OuterV4 {
            dst_mac, src_mac, src, dst, dscp_ecn, ttl, tunnel,
            identification: identification.unwrap_or(0),
            dont_fragment: identification.is_none(),
        };
        let template = OuterV4Template::new(src_mac, src, ttl);
        let fields = OuterV4Fields { dst_mac, dst, dscp_ecn, identification, tunnel };
        let (mut wanted, mut got) = (vec![0xee; room], vec![0xee; room]);
        let (wants, gets) = (plain.write(&mut wanted, inner_len), template.write(&fields, &mut got, inner_len));
        prop_assert_eq!(gets.is_ok(), wants.is_ok());
        if wants.is_ok() {
            prop_assert_eq!(got, wanted);
        } else {
            prop_assert_eq!(got, vec![0xee; room]);
        }
    }
}

#[test]
fn a_scapy_frame_is_read_down_to_the_inner_packet() {
    for (frame, qfi) in [(GPDU4, None), (GPDU4_QFI, Some(9)), (GPDU6_QFI, Some(9))] {
        let frame = hex(frame);
        let l3 = parse_frame(&frame).unwrap().l3_offset;
        let ip = parse_ip(&frame[l3..]).unwrap();
        assert_eq!(ip.summary.ports, Some((40_000, 2152)));
        let gtpu = Gtpu::parse(&ip.l4()[8..]).unwrap();
        assert_eq!((gtpu.message_type(), gtpu.teid().get()), (MessageType::GPdu, 0x1122_3344));
        let container = gtpu.pdu_session_container().map(Result::unwrap);
        assert_eq!(container.map(|c| c.qfi().get()), qfi);
        assert_eq!(gtpu.payload(), hex(INNER));
        assert_eq!(gtpu.header_len() + gtpu.payload().len() + 8, ip.l4().len());
    }
}

#[test]
fn an_uplink_container() {
    let bytes = hex(UPLINK);
    let gtpu = Gtpu::parse(&bytes).unwrap();
    let qfi = Qfi::new(5).unwrap();
    assert_eq!(gtpu.pdu_session_container(), Some(Ok(PduSessionContainer::Uplink { qfi })));
    assert_eq!(gtpu.payload(), hex(INNER));
    assert_eq!(uplink_container(qfi), bytes[12..16]);
}

#[test]
fn a_downlink_container_with_paging_policy() {
    // TS 38.415 §5.5.2.1: type 0; PPP 1, RQI 1, QFI 33; PPI 5 in the top of octet 3.
    let content = [0x00, 0b1110_0001, 0b1010_0000, 0, 0, 0];
    let qfi = Qfi::new(33).unwrap();
    let want = PduSessionContainer::Downlink { qfi, rqi: true, ppi: Some(5) };
    assert_eq!(PduSessionContainer::parse(&content), Ok(want));
    assert_eq!(PduSessionContainer::parse(&content[..2]), Err(ParseError::BadElement));
    assert_eq!(PduSessionContainer::parse(&[0x20, 0]), Err(ParseError::BadProtocolType));
}

#[test]
fn path_messages() {
    assert_eq!(message::echo_request(0x0102)[..], hex(ECHO_REQUEST));
    assert_eq!(message::echo_response(0x0102)[..], hex(ECHO_RESPONSE));
    let bytes = hex(ECHO_RESPONSE);
    let gtpu = Gtpu::parse(&bytes).unwrap();
    assert_eq!((gtpu.message_type(), gtpu.sequence()), (MessageType::EchoResponse, Some(0x0102)));
    let recovery = Elements::new(gtpu.payload()).next().unwrap().unwrap();
    assert_eq!((recovery.kind, recovery.value), (14, &[0][..]));
}

#[test]
fn an_error_indication() {
    #[rustfmt::skip]
    let want = [
        0x32, 26, 0, 16, 0, 0, 0, 0,     // version 1, PT, S; type 26; 16 octets follow; TEID 0 (§5.1)
        0, 0, 0, 0,                      // sequence number 0, N-PDU number and next extension type unused
        16, 0xde, 0xad, 0xbe, 0xef,      // TEID data I (§8.3)
        133, 0, 4, 192, 0, 2, 9,         // GTP-U peer address, length 4 (§8.4)
    ];
    let mut out = [0; 64];
    let (teid, peer) = (Teid::new(0xdead_beef), IpAddr::from([192, 0, 2, 9]));
    assert_eq!(message::error_indication(&mut out, teid, peer), Ok(want.len()));
    assert_eq!(out[..want.len()], want);
    assert_eq!(message::error_indication(&mut out[..23], teid, peer), Err(WriteError::NoRoom));
    for peer in [peer, "2001:db8::9".parse().unwrap()] {
        let len = message::error_indication(&mut out, teid, peer).unwrap();
        let gtpu = Gtpu::parse(&out[..len]).unwrap();
        assert_eq!(gtpu.message_type(), MessageType::ErrorIndication);
        assert_eq!(ErrorIndication::parse(gtpu.payload()), Ok(ErrorIndication { teid, peer }));
        assert_eq!(ErrorIndication::parse(&gtpu.payload()[..5]), Err(ParseError::BadElement));
    }
}

#[test]
fn supported_extension_headers() {
    #[rustfmt::skip]
    let want = [
        0x32, 31, 0, 8, 0, 0, 0, 0, 0, 7, 0, 0, // S set, TEID 0, sequence number 7
        141, 2, 0x85, 0x40,                     // extension header type list, length in one octet (§8.5)
    ];
    let mut out = [0; 16];
    let kinds = [kind::PDU_SESSION_CONTAINER, 0x40];
    assert_eq!(message::supported_extension_headers(&mut out, 7, &kinds), Ok(16));
    assert_eq!(out, want);
    let gtpu = Gtpu::parse(&out).unwrap();
    let list = Elements::new(gtpu.payload()).next().unwrap().unwrap();
    assert_eq!((list.kind, list.value), (141, &kinds[..]));
}

#[test]
fn a_chain_of_extension_headers() {
    #[rustfmt::skip]
    let bytes = [
        0x37, 255, 0, 18, 0, 0, 0, 1,       // E, S and PN set
        0x12, 0x34, 0x56, 0xc0,             // sequence, N-PDU number, next: PDCP PDU number
        1, 0xaa, 0xbb, 0x03,                // one unit; next: an unknown type that need not be understood
        2, 1, 2, 3, 4, 5, 6, 0x00,          // two units; no next
        0x45, 0x00,                         // payload
        0xff, 0xff,                         // behind the message
    ];
    let gtpu = Gtpu::parse(&bytes).unwrap();
    assert_eq!(gtpu.sequence(), Some(0x1234));
    let kinds: Vec<_> = gtpu.extensions().map(|e| (e.kind, e.content.len())).collect();
    assert_eq!(kinds, [(0xc0, 2), (0x03, 6)]);
    assert_eq!(
        gtpu.extensions().first_unsupported(&[kind::PDU_SESSION_CONTAINER]).map(|e| e.kind),
        Some(0xc0)
    );
    assert_eq!(gtpu.extensions().first_unsupported(&[0xc0]), None);
    assert_eq!((gtpu.header_len(), gtpu.payload()), (24, &[0x45, 0x00][..]));
}

#[test]
fn what_is_malformed_is_refused_by_name() {
    let parse = |bytes: &[u8]| Gtpu::parse(bytes).err();
    assert_eq!(parse(&[0x30; 7]), Some(ParseError::Truncated));
    assert_eq!(parse(&[0x50, 255, 0, 0, 0, 0, 0, 1]), Some(ParseError::BadVersion));
    assert_eq!(parse(&[0x20, 255, 0, 0, 0, 0, 0, 1]), Some(ParseError::BadProtocolType), "GTP'");
    assert_eq!(parse(&[0x30, 255, 0, 1, 0, 0, 0, 1]), Some(ParseError::Truncated));
    assert_eq!(parse(&[0x32, 255, 0, 3, 0, 0, 0, 1, 0, 0, 0]), Some(ParseError::Truncated));
    // TS 29.281 §5.2.1: an extension header of length 0 would never end.
    let zero = [0x34, 255, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0x85, 0, 0, 0, 0];
    assert_eq!(parse(&zero), Some(ParseError::BadExtension));
    let long = [0x34, 255, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0x85, 2, 0, 0, 0];
    assert_eq!(parse(&long), Some(ParseError::Truncated));
    let mut many = vec![0x34, 255, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0x85];
    many.extend([1, 0, 0, 0x85].repeat(9));
    assert_eq!(parse(&many), Some(ParseError::TooManyExtensions));
    // E clear: the next type is not evaluated.
    assert_eq!(parse(&[0x32, 255, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0x85]), None);
}

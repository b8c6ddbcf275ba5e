//! Traces over the socket.

use crate::admin::running::{Running, SERVER, downstream, ue};
use scalebricks_admin::client::ClientError;
use scalebricks_admin::model::{NodeState, OutputKind, PortRole, TracePacket, TraceRequest};
use scalebricks_admin::trace::{hex, unhex};
use std::net::{IpAddr, Ipv4Addr};

fn frame(port: PortRole, frame: &[u8]) -> TraceRequest {
    TraceRequest { packet: TracePacket::Frame { port, frame_hex: hex(frame), readdress: false } }
}

fn down(n: u32) -> TraceRequest {
    let packet = TracePacket::Downstream {
        src: IpAddr::V4(SERVER),
        dst: IpAddr::V4(ue(n)),
        protocol: 17,
        src_port: 53,
        dst_port: 4000,
        payload_bytes: 10,
    };
    TraceRequest { packet }
}

fn up(teid: u32) -> TraceRequest {
    let packet = TracePacket::Upstream {
        teid,
        base_station: None,
        inner_src: IpAddr::V4(ue(0)),
        inner_dst: IpAddr::V4(SERVER),
        protocol: 6,
        src_port: 4000,
        dst_port: 53,
        payload_bytes: 0,
    };
    TraceRequest { packet }
}

#[test]
fn a_frame_goes_where_the_running_node_sends_it() {
    let running = Running::start();
    let trace = running.client().trace(&frame(PortRole::Internet, &downstream(4, b"same"))).unwrap();
    assert_eq!(trace.dropped, None);
    let [output] = &trace.outputs[..] else { panic!("{trace:?}") };
    let base_station = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1));
    assert_eq!(output.what, OutputKind::Tunnel { base_station, teid: Some(0x20004), qfi: Some(9) });
    let mut far = running.far.lock().unwrap();
    far.downstream(4, b"same");
    let (real, traced) = (far.at_base_station(), unhex(&output.frame_hex).unwrap());
    assert_eq!(real, traced);
    let flow = trace.flow.unwrap();
    assert_eq!((flow.node, flow.downlink_teid, flow.qfi), (0, 0x20004, Some(9)));
    assert_eq!(flow.downstream_packets, Some(0), "nothing was counted");
}

#[test]
fn packets_are_made_from_what_they_are_to_be() {
    let running = Running::start();
    let client = running.client();
    let here = client.trace(&down(2)).unwrap();
    assert!(here.verdict.contains("to base station 10.9.0.1"), "{}", here.verdict);
    let there = client.trace(&down(3)).unwrap();
    assert!(matches!(there.outputs[0].what, OutputKind::Fabric { node: 1, again: false, .. }), "{there:?}");
    assert_eq!((there.gpt.unwrap().node, there.flow), (Some(1), None));
    let out = client.trace(&up(0x10000)).unwrap();
    assert!(matches!(out.outputs[0].what, OutputKind::Plain { .. }), "{out:?}");
    assert_eq!(out.port, PortRole::BaseStation);
    assert_eq!(out.key.unwrap().text, "uplink TEID 0x10000");
    // Written by us, parsed by another library.
    let bytes = unhex(&out.frame_hex).unwrap();
    let packet = etherparse::SlicedPacket::from_ethernet(&bytes).unwrap();
    assert!(packet.transport.is_some());
    let sent = unhex(&out.outputs[0].frame_hex).unwrap();
    let packet = etherparse::PacketHeaders::from_ethernet_slice(&sent).unwrap();
    let tcp = packet.transport.unwrap().tcp().unwrap();
    let ip = etherparse::Ipv4HeaderSlice::from_slice(&sent[14..]).unwrap().to_header();
    assert_eq!(tcp.checksum, tcp.calc_checksum_ipv4(&ip, &[]).unwrap());
}

#[test]
fn a_drop_is_explained() {
    let running = Running::start();
    let client = running.client();
    // The GPT returns an arbitrary node for an unknown key: choose one for which it returns this node.
    let names_here = |request: &TraceRequest| client.trace(request).unwrap().gpt.unwrap().node == Some(0);
    let unknown = (0xdead..0xdeef).map(up).find(names_here).unwrap();
    for (request, reason) in [
        (unknown, "unknown_flow"),
        (frame(PortRole::Internet, &[0; 60]), "other_mac"),
        (frame(PortRole::Fabric, &downstream(0, b"")), "bad_fabric_mac"),
        (frame(PortRole::Internet, &[1]), "truncated"),
    ] {
        let trace = client.trace(&request).unwrap();
        let dropped = trace.dropped.unwrap_or_else(|| panic!("{reason}: {:?}", trace.outputs));
        assert_eq!(dropped.reason, reason);
        assert!(dropped.meaning.len() > 10 && trace.verdict.contains(reason));
    }
}

#[test]
fn a_frame_captured_elsewhere_can_be_readdressed() {
    let running = Running::start();
    let mut bytes = downstream(4, b"");
    bytes[..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    let request = |readdress| TraceRequest {
        packet: TracePacket::Frame { port: PortRole::Internet, frame_hex: hex(&bytes), readdress },
    };
    assert_eq!(running.client().trace(&request(false)).unwrap().dropped.unwrap().reason, "other_mac");
    assert_eq!(running.client().trace(&request(true)).unwrap().dropped, None);
}

#[test]
fn what_makes_no_packet_is_refused() {
    let running = Running::start();
    let client = running.client();
    let digits = |frame_hex: &str, readdress| TraceRequest {
        packet: TracePacket::Frame { port: PortRole::Fabric, frame_hex: frame_hex.to_owned(), readdress },
    };
    let mixed = TraceRequest {
        packet: TracePacket::Downstream {
            src: IpAddr::V4(SERVER),
            dst: "::1".parse().unwrap(),
            protocol: 17,
            src_port: 0,
            dst_port: 0,
            payload_bytes: 0,
        },
    };
    let huge = TraceRequest {
        packet: TracePacket::Upstream {
            teid: 1,
            base_station: None,
            inner_src: IpAddr::V4(SERVER),
            inner_dst: IpAddr::V4(SERVER),
            protocol: 6,
            src_port: 0,
            dst_port: 0,
            payload_bytes: 65_490,
        },
    };
    for (request, what) in [
        (digits("0g", false), "hexadecimal"),
        (digits("0000", true), "fabric"),
        (mixed, "different address families"),
        (huge, "long"),
    ] {
        let error = client.trace(&request).unwrap_err();
        assert!(matches!(&error, ClientError::Refusal(said) if said.contains(what)), "{error}");
    }
    running.window.set_state(NodeState::Loading);
    assert!(matches!(client.trace(&down(0)), Err(ClientError::NotReady(_))));
}

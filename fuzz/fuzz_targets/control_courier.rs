//! Any bytes decode to a packet of the courier or to an error, and a packet encodes to the bytes that it was decoded from. A
//! courier accepts any sequence of packets, delivers each number once, and never holds more flows than it was given.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_control::codec::Encoded;
use scalebricks_control::courier::{Count, Courier, Packet, Place, ProcessId};
use scalebricks_types::{NodeId, Teid};
use std::time::Duration;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(packet) = Packet::decode(bytes) {
        assert_eq!(packet.encode(), bytes);
    }
    let mut courier = Courier::new(ProcessId(1));
    let nodes: Vec<NodeId> = (0..4).map(NodeId::new).collect();
    courier.set_alive(nodes.iter().copied().collect());
    for flow in 0..3 {
        courier.post(Teid::new(flow), Count([1, 2, 3, 4]));
    }
    // Each: who sends it, a length, and so many bytes.
    let (mut rest, mut now) = (bytes, Duration::ZERO);
    while let [from, len, more @ ..] = rest {
        let (packet, left) = more.split_at(more.len().min(usize::from(*len)));
        rest = left;
        now += Duration::from_millis(u64::from(*from));
        let from = nodes[usize::from(*from % 4)];
        if let Ok(packet) = Packet::decode(packet) {
            let received = courier.receive(from, packet.clone());
            assert!(courier.receive(from, packet).counts.is_empty(), "delivered twice");
            if let Packet::Parcel(parcel) = received.reply.unwrap_or(Packet::Hello(ProcessId(0))) {
                panic!("no answer: {parcel:?}");
            }
        }
        let work = courier.poll(now, |flow| match flow.get() {
            0 => Place::At(nodes[1]),
            1 => Place::At(nodes[2]),
            _ => Place::Nowhere,
        });
        for (_, packet) in work.packets {
            assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
        }
        let (waiting, under_way) = courier.flows();
        assert!(waiting + under_way <= 3);
    }
});

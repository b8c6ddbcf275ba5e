//! A switch accepts any frames, for every kind of names and every policy, and counts each frame once.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_apps::switch::text::{PortNames, parse_action, parse_name};
use scalebricks_apps::switch::{PortGroup, SwitchPolicy, SwitchPort, counts, wiring};
use scalebricks_elements::flat::{
    Base, BytesAt, CheckBits, Length, NameConfig, NameKind, NameOp, NameTable, LookupRules, StormGuard, StormRate, UnknownNamePolicy,
};
use scalebricks_graph::{Ledger, Registry, Worker};
use scalebricks_io::{MemoryPort, Packet, Pool, memory_port_pair};
use scalebricks_types::{HashSeed, KeyHasher};
use std::sync::Arc;
use std::time::Duration;

const KINDS: [(NameKind, &str); 8] = [
    (NameKind::Mac, "02:00:00:00:00:02"),
    (NameKind::Ipv4, "10.45.0.2"),
    (NameKind::Ipv6, "2001:db8::2"),
    (NameKind::Tuple { with_port: false }, "8.8.8.8:53>10.45.0.2:4000/udp"),
    (NameKind::Tuple { with_port: true }, "b@8.8.8.8:53>10.45.0.2:4000/udp"),
    (place(Base::Frame, 0, Length::Fixed(6)), "0x020000000002"),
    (place(Base::Payload, 0, Length::Prefix8), "hello"),
    (place(Base::Frame, 12, Length::Prefix16), "hello"),
];

const fn place(base: Base, offset: u16, length: Length) -> NameKind {
    match BytesAt::new(base, offset, length) {
        Ok(at) => NameKind::Bytes(at),
        Err(_) => panic!("a place"),
    }
}

const ACTIONS: [&str; 4] = ["forward b", "route c 02:00:00:00:00:07 02:00:00:00:00:08", "flood", "drop"];

fuzz_target!(|input: &[u8]| {
    let [what, more, frames @ ..] = input else { return };
    let (kind, name) = KINDS[usize::from(what % 8)];
    let unknown = [UnknownNamePolicy::Drop, UnknownNamePolicy::Flood, UnknownNamePolicy::Answer][usize::from(what / 8 % 3)];
    let hasher = KeyHasher::new(HashSeed::from_u64(1));
    let ports = PortNames::new(["a", "b", "c"].map(str::to_owned).to_vec()).unwrap();
    let mut table = NameTable::new(NameConfig {
        kind,
        hasher,
        ports: 3,
        expected: 4,
        check_bits: CheckBits::new(what / 64).unwrap(),
        filter_rate: (more & 16 > 0).then_some(0.01),
        spreads_aliens: more & 32 > 0,
    })
    .unwrap();
    let action = parse_action(ACTIONS[usize::from(more % 4)], &ports).unwrap();
    table.apply(&[NameOp::Add(parse_name(name, kind, &ports).unwrap(), action)]).unwrap();
    let group = |port| (more & 8 > 0 && port > 0).then_some(PortGroup(0));
    let link = |at| {
        let ((rx, into), (tx, out)) = (memory_port_pair::<Packet>(64), memory_port_pair(64));
        (SwitchPort { rx: Box::new(rx), tx: Box::new(tx), group: group(at) }, [into, out])
    };
    let (near, mut far): (Vec<_>, Vec<[MemoryPort<Packet>; 2]>) = (0..3).map(link).unzip();
    let mut pool = Pool::new(200, 4_096).unwrap();
    let storm = StormGuard::new(StormRate::new(1_000, 3).unwrap(), 3);
    let rules = LookupRules { kind, hasher, verify_ipv4_checksum: more & 4 > 0 };
    let policy = SwitchPolicy { rules, storm: Some(Arc::new(storm)) };
    let mut ledger = Ledger::new();
    let builder = wiring(&policy, || table.fib().reader(unknown), &ports, near);
    let graph = builder.build(&Registry::new(), &mut ledger).unwrap();
    let mut worker = Worker::new(graph, Box::new(pool.clone()), ());
    // Each frame: its port, its length in two bytes, its bytes.
    let (mut rest, mut pushed) = (frames, 0);
    while let [port, high, low, more @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(more.len());
        let (frame, behind) = more.split_at(length);
        rest = behind;
        pushed += 1;
        assert!(far[usize::from(port % 3)][0].send(pool.packet(frame).unwrap()).is_ok());
        worker.turn(Duration::from_millis(pushed));
        let left: u64 = far.iter_mut().map(|[_, far]| std::iter::from_fn(|| far.receive()).count() as u64).sum();
        assert!(left <= 2);
    }
    let (mut came, mut went, mut copies) = (0, 0, 0);
    for port in counts::by_port(&ledger.snapshot(), &ports) {
        came += port.get("rx_frames");
        went += port.get("tx_frames") + port.dropped();
        copies += port.get("flooded");
    }
    assert_eq!(came, pushed);
    assert!(went >= came && went <= came + copies, "a flooded frame has one copy, beside itself");
});

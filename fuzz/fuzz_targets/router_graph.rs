//! Frames at both interfaces of an IP router built from a configuration: by the length of the input the example, or the
//! router of one server with IPv6 and the loop for bursts. Every packet that was received or created
//! leaves, is dropped, is consumed by an element, or is held, without a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_apps::click::Router;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_apps::router::server::{Form, IpRouter};
use scalebricks_fuzz::{Steps, mend};
use scalebricks_graph::spec::Counts;
use scalebricks_graph::{Clock, CounterSnapshot, Ledger, Registry, Worker};
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool, memory_port_pair};
use std::time::Duration;

const CONFIGURATION: &str = include_str!("../../examples/router.click");

/// Addresses of the interfaces in the configuration.
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 0x10], [2, 0, 0, 0, 1, 0x10]];

/// Packet buffers: few, so that a run can exhaust them.
const BUFFERS: usize = 300;

thread_local!(static ROUTERS: ([Router; 2], Registry<Packet>) = {
    let registry = scalebricks_elements::registry();
    let read = |text: &str| Router::read("router.click", text.as_bytes(), &[], &registry).expect("it is right");
    ([read(CONFIGURATION), read(&server())], registry)
});

/// The router of one server, with a small table: each input makes a new one.
fn server() -> String {
    let interface = |text: &str| text.parse().expect("it is right");
    let ports = vec![
        interface("eth0=192.0.2.1/24,02:00:00:00:00:10,2001:db8:0:1::1/64"),
        interface("eth1=198.51.100.1/24,02:00:00:00:01:10,2001:db8:0:2::1/64"),
    ];
    let router = IpRouter { ports, routes: None, routes6: None, mtu: 1_500 };
    let text = router.configuration(Form::Fused).expect("it is right");
    text.replace("DirectIPLookup(", "RadixIPLookup(10.0.0.0/8 198.51.100.254 2, ")
}

/// All counters of packets that elements created or consumed.
fn balance(counted: &[CounterSnapshot], counts: Counts) -> u64 {
    let of = |one: &CounterSnapshot| {
        let counters = one.spec.counters.iter().filter(|counter| counter.counts == counts);
        counters.filter_map(|counter| one.get(counter.name)).sum::<u64>()
    };
    counted.iter().map(of).sum()
}

/// Collects the packets that left, and returns their number.
fn take(ports: &mut [(MemoryPort<Packet>, MemoryPort<Packet>)]) -> u64 {
    ports.iter_mut().map(|(_, far)| std::iter::from_fn(|| far.receive()).count() as u64).sum()
}

fuzz_target!(|bytes: &[u8]| {
    let mut ledger = Ledger::new();
    let which = bytes.len() % 2;
    let mut graph = ROUTERS
        .with(|(routers, registry)| routers[which].graph(registry, &mut ledger))
        .expect("it is complete");
    let mut devices = Devices::new(Clock::Wall);
    let mut ports = Vec::new();
    for device in ["eth0", "eth1"] {
        let ((near_in, far_in), (near_out, far_out)) = (memory_port_pair(64), memory_port_pair(64));
        devices.receive(Some(device), ReceiveBinding::Port(Box::new(near_in)));
        devices.send(device, SendBinding::Port(Box::new(near_out)));
        ports.push((far_in, far_out));
    }
    ROUTERS.with(|(routers, _)| routers[which].open(&mut graph, &mut devices)).expect("the ports are there");
    let mut pool = Pool::new(BUFFERS, 4_500).expect("a small one");
    let mut worker = Worker::new(graph, Box::new(pool.clone()), ());
    let (mut now, mut came, mut left) = (Duration::ZERO, 0, 0);
    for (what, later, frame) in Steps(bytes) {
        let port = usize::from(what & 1);
        if let Some(mut packet) = pool.packet(frame) {
            if what & 2 == 0 && frame.len() >= 6 {
                packet.data_mut()[..6].copy_from_slice(&MACS[port]);
            }
            if what & 4 == 0 {
                mend(packet.data_mut());
            }
            came += u64::from(ports[port].0.send(packet).is_ok());
        }
        now += Duration::from_millis(u64::from(later) * u64::from(later));
        if what & 8 == 0 {
            worker.turn(now);
        }
        left += take(&mut ports);
    }
    // At most the packets in the ports have not been received.
    for _ in 0..8 {
        worker.turn(now);
        left += take(&mut ports);
    }
    let counted = ledger.snapshot();
    let dropped: u64 = counted.iter().map(CounterSnapshot::dropped).sum();
    let (made, ended) = (balance(&counted, Counts::Made), balance(&counted, Counts::Ended));
    let waiting = worker.graph().held() as u64;
    assert_eq!(
        came + made,
        left + dropped + ended + waiting,
        "left {left}, dropped {dropped}, ended {ended}, kept {waiting}"
    );
    for fault in ["slot_lost", "unworked"] {
        assert_eq!(counted.iter().filter_map(|one| one.get(fault)).sum::<u64>(), 0, "{fault}");
    }
});

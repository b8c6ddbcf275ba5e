//! Frames at both sides of a firewall, and any text as its rules. Every packet leaves, is dropped by name or waits; flows and
//! fragments stay bounded; before rules are given, nothing passes to inside unless something passed to outside.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_apps::click::Router;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_fuzz::{Steps, mend};
use scalebricks_graph::{Clock, CounterSnapshot, Ledger, Registry, Worker};
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool, memory_port_pair};
use std::time::Duration;

const CONFIGURATION: &str = "
    fw :: Firewall(14, FLOWS 16, YOUNG 6, SOURCE_FLOWS 9, FRAGMENTS 5, CHECKSUMS false);
    FromDevice(eth0) -> [0] fw; FromDevice(eth1) -> [1] fw;
    fw[0] -> Queue(1000) -> ToDevice(eth1); fw[1] -> Queue(1000) -> ToDevice(eth0);
";

thread_local!(static ROUTER: (Router, Registry<Packet>) = {
    let registry = scalebricks_elements::registry();
    let router = Router::read("firewall.click", CONFIGURATION.as_bytes(), &[], &registry);
    (router.expect("it is right"), registry)
});

fn number(worker: &mut Worker<Packet>, handler: &str) -> u64 {
    worker.graph_mut().read("fw", handler).expect("it is there").parse().expect("a number")
}

/// The packets that left by a device.
fn take(port: &mut MemoryPort<Packet>) -> u64 {
    std::iter::from_fn(|| port.receive()).count() as u64
}

fuzz_target!(|bytes: &[u8]| {
    let mut ledger = Ledger::new();
    let mut graph =
        ROUTER.with(|(router, registry)| router.graph(registry, &mut ledger)).expect("it is complete");
    let mut devices = Devices::new(Clock::Wall);
    let (mut ins, mut outs) = (Vec::new(), Vec::new());
    for device in ["eth0", "eth1"] {
        let ((near_in, far_in), (near_out, far_out)) = (memory_port_pair(64), memory_port_pair(64));
        devices.receive(Some(device), ReceiveBinding::Port(Box::new(near_in)));
        devices.send(device, SendBinding::Port(Box::new(near_out)));
        ins.push(far_in);
        outs.push(far_out);
    }
    ROUTER.with(|(router, _)| router.open(&mut graph, &mut devices)).expect("the ports are there");
    let mut pool = Pool::new(300, 4_500).expect("a small one");
    let mut worker = Worker::new(graph, Box::new(pool.clone()), ());
    let (mut now, mut came, mut passed, mut has_rules) = (Duration::ZERO, 0, [0, 0], false);
    for (what, later, frame) in Steps(bytes) {
        if what & 48 == 48 {
            let text = String::from_utf8_lossy(frame);
            match worker.graph_mut().write("fw", "rules", &text) {
                Ok(()) => {
                    has_rules = true;
                    let rules = worker.graph_mut().read("fw", "rules").expect("it is there");
                    worker.graph_mut().write("fw", "rules", &rules).expect("its own text");
                    assert_eq!(worker.graph_mut().read("fw", "rules").as_deref(), Ok(rules.as_str()));
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        } else if let Some(mut packet) = pool.packet(frame) {
            if what & 4 == 0 {
                mend(packet.data_mut());
            }
            came += u64::from(ins[usize::from(what & 1)].send(packet).is_ok());
        }
        now += Duration::from_millis(u64::from(later) * u64::from(later));
        if what & 8 == 0 {
            worker.turn(now);
        }
        for (port, passed) in outs.iter_mut().zip(&mut passed) {
            *passed += take(port);
        }
        assert!(has_rules || passed[0] == 0 || passed[1] > 0);
        assert!(number(&mut worker, "flows") <= 32 && number(&mut worker, "young") <= 12);
        assert!(worker.graph().held() <= 5 + 64);
    }
    for _ in 0..8 {
        worker.turn(now);
        for (port, passed) in outs.iter_mut().zip(&mut passed) {
            *passed += take(port);
        }
    }
    let counted = ledger.snapshot();
    let dropped: u64 = counted.iter().map(CounterSnapshot::dropped).sum();
    let (left, waiting) = (passed.iter().sum::<u64>(), worker.graph().held() as u64);
    assert_eq!(came, left + dropped + waiting, "left {left}, dropped {dropped}, kept {waiting}");
    for fault in ["slot_lost", "unworked"] {
        assert_eq!(counted.iter().filter_map(|one| one.get(fault)).sum::<u64>(), 0, "{fault}");
    }
});

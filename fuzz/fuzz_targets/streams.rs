//! Frames at the elements that reassemble: every packet leaves, is dropped by name, ends or waits; memory is bounded; behind a
//! SYN the segments of a stream go on without overlap; every stream that began ends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_apps::click::Router;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_fuzz::{Steps, mend};
use scalebricks_graph::spec::Counts;
use scalebricks_graph::{Clock, CounterSnapshot, Ledger, Registry, Worker};
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool, memory_port_pair};
use scalebricks_wire::transport::{Tcp, TcpFlags};
use scalebricks_wire::{parse_ip, protocol};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Packets of eth0 pass both elements, those of eth1 only the second, which completes packets itself.
const CONFIGURATION: &str = "
    ds :: Defragment(14, PACKETS 4, PACKET_FRAGMENTS 6, MEMORY 8000, CHECKSUMS false, IPV4_TIMEOUT 3, IPV6_TIMEOUT 5);
    st :: TCPStream(14, FLOWS 16, YOUNG 6, CHECKSUMS false, STREAM_MEMORY 2000, STREAM_PIECES 8, MEMORY 4000);
    FromDevice(eth0) -> ds -> st; FromDevice(eth1) -> st;
    st[0] -> Queue(1000) -> ToDevice(eth0); st[1] -> other :: Queue(1000) -> ToDevice(eth1); ds[1] -> other;
";

thread_local!(static ROUTER: (Router, Registry<Packet>) = {
    let registry = scalebricks_elements::registry();
    let router = Router::read("streams.click", CONFIGURATION.as_bytes(), &[], &registry);
    (router.expect("it is right"), registry)
});

fn number(worker: &mut Worker<Packet>, element: &str, handler: &str) -> u64 {
    worker.graph_mut().read(element, handler).expect("it is there").parse().expect("a number")
}

/// The sequence number that each direction of a connection goes on with.
#[derive(Default)]
struct Check(HashMap<(IpAddr, IpAddr, u16, u16), u32>);

impl Check {
    /// A segment that left.
    fn take(&mut self, frame: &[u8]) {
        let ip = parse_ip(&frame[14..]).expect("it is a packet");
        assert_eq!(ip.summary.protocol, protocol::TCP);
        let tcp = Tcp::parse(ip.l4()).expect("it is a segment");
        let has = |flags| tcp.flags().contains(flags);
        let key = (ip.summary.src, ip.summary.dst, tcp.src_port(), tcp.dst_port());
        let data = tcp.sequence().wrapping_add(u32::from(has(TcpFlags::SYN)));
        if has(TcpFlags::RST) {
            return;
        }
        if !has(TcpFlags::SYN) {
            let next = self.0.get(&key).expect("a stream begins with a SYN");
            assert!(data.wrapping_sub(*next) <= 1 << 30, "{data} behind {next}");
        }
        self.0.insert(key, data.wrapping_add(tcp.payload().len() as u32));
    }
}

/// Counters of packets that elements made, or that ended in them.
fn balance(counted: &[CounterSnapshot], counts: Counts) -> u64 {
    let of = |one: &CounterSnapshot| {
        let counters = one.spec.counters.iter().filter(|counter| counter.counts == counts);
        counters.filter_map(|counter| one.get(counter.name)).sum::<u64>()
    };
    counted.iter().map(of).sum()
}

fuzz_target!(|bytes: &[u8]| {
    let mut ledger = Ledger::new();
    let mut graph =
        ROUTER.with(|(router, registry)| router.graph(registry, &mut ledger)).expect("it is complete");
    let mut devices = Devices::new(Clock::Wall);
    let (mut ins, mut outs): (Vec<MemoryPort<Packet>>, Vec<MemoryPort<Packet>>) = (Vec::new(), Vec::new());
    for device in ["eth0", "eth1"] {
        let ((near_in, far_in), (near_out, far_out)) = (memory_port_pair(64), memory_port_pair(1_024));
        devices.receive(Some(device), ReceiveBinding::Port(Box::new(near_in)));
        devices.send(device, SendBinding::Port(Box::new(near_out)));
        ins.push(far_in);
        outs.push(far_out);
    }
    ROUTER.with(|(router, _)| router.open(&mut graph, &mut devices)).expect("the ports are there");
    let mut pool = Pool::new(300, 4_500).expect("a small one");
    let mut worker = Worker::new(graph, Box::new(pool.clone()), ());
    let (mut now, mut came, mut left, mut check) = (Duration::ZERO, 0, 0, Check::default());
    let mut take = |outs: &mut [MemoryPort<Packet>]| {
        let before = left;
        while let Some(packet) = outs[0].receive() {
            check.take(packet.data());
            left += 1;
        }
        left += std::iter::from_fn(|| outs[1].receive()).count() as u64;
        left - before
    };
    let mut passed = 0;
    for (what, later, frame) in Steps(bytes) {
        if what & 48 == 48 {
            worker.graph_mut().write("st", "finish", "").expect("it takes any value");
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
        passed += take(&mut outs);
        assert!(number(&mut worker, "st", "flows") <= 32 && number(&mut worker, "st", "young") <= 12);
        assert!(number(&mut worker, "st", "waiting_bytes") <= 4_000);
        assert!(number(&mut worker, "ds", "bytes") <= 8_000 && number(&mut worker, "ds", "packets") <= 4);
    }
    for _ in 0..8 {
        worker.turn(now);
        passed += take(&mut outs);
    }
    worker.graph_mut().write("st", "finish", "").expect("it takes any value");
    for _ in 0..8 {
        worker.turn(now);
        passed += take(&mut outs);
    }
    for name in ["flows", "waiting_bytes", "leaving_bytes"] {
        assert_eq!(number(&mut worker, "st", name), 0, "{name}");
    }
    assert_eq!(number(&mut worker, "st", "streams_began"), number(&mut worker, "st", "streams_ended"));
    let counted = ledger.snapshot();
    let dropped: u64 = counted.iter().map(CounterSnapshot::dropped).sum();
    let (made, ended) = (balance(&counted, Counts::Made), balance(&counted, Counts::Ended));
    let waiting = worker.graph().held() as u64;
    assert_eq!(came + made, passed + dropped + ended + waiting, "{passed}, {dropped}, {ended}, {waiting}");
    for fault in ["slot_lost", "unworked"] {
        assert_eq!(counted.iter().filter_map(|one| one.get(fault)).sum::<u64>(), 0, "{fault}");
    }
});

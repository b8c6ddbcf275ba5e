//! The router of one server: both forms of its configurations do the same, and the examples are what it generates.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use etherparse::{NetSlice, PacketBuilder, SlicedPacket};
use proptest::prelude::*;
use scalebricks_apps::click::Router;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_apps::router::server::{Form, Interface, IpRouter, ServerError, forward};
use scalebricks_graph::tap::{Selection, Taps};
use scalebricks_graph::{Builder, Clock, Ledger, Worker};
use scalebricks_io::{BURST, MemoryPort, Packet, PacketBuf, Pool, memory_port_pair};
use scalebricks_wire::arp::{Arp, Operation};
use scalebricks_wire::ethernet::{ETHERTYPE_ARP, ETHERTYPE_IPV6, header};
use scalebricks_wire::nd::Advertisement;
use scalebricks_wire::{MacAddr, ipv4::Ipv4Header};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

const PORTS: usize = 3;

fn mac(port: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, port as u8, 0x10])
}

/// A neighbour of a port: the gateway is number 1.
fn neighbour(port: usize, number: u8) -> MacAddr {
    MacAddr([2, 1, 0, 0, port as u8, number])
}

fn ip(port: usize, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, port as u8, host)
}

fn ip6(port: usize, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, port as u16, 0, 0, 0, 0, host)
}

fn interface(port: usize) -> Interface {
    format!("eth{port}={}/24,{},{}/64", ip(port, 254), mac(port), ip6(port, 254)).parse().unwrap()
}

/// Routes by gateways of all ports, /8 and /16 and /24, one back to the router's own address and one without a port.
fn routes(folder: &Path) -> IpRouter {
    let (mut four, mut six) = (String::new(), String::new());
    for (at, network) in ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "11.0.0.0/8"].iter().enumerate() {
        let port = 1 + at % PORTS;
        writeln!(four, "{network} {} {port}", ip(port, 1)).unwrap();
        writeln!(six, "2001:db8:{:x}00::/40 {} {port}", 0x10 + at, ip6(port, 1)).unwrap();
    }
    let path = |name: &str| folder.join(name).display().to_string();
    std::fs::write(path("four"), four).unwrap();
    std::fs::write(path("six"), six).unwrap();
    let ports = (1..=PORTS).map(interface).collect();
    IpRouter { ports, routes: Some(path("four")), routes6: Some(path("six")), mtu: 1_500 }
}

/// A running configuration over ports in memory.
pub(crate) struct Running {
    pub(crate) worker: Worker<Packet>,
    ledger: Ledger,
    near: Vec<MemoryPort<Packet>>,
    pool: Pool,
    now: Duration,
}

impl Running {
    fn new(text: &str) -> Self {
        Self::over(text, PORTS)
    }

    /// Over devices `eth1`, `eth2`, ….
    pub(crate) fn over(text: &str, ports: usize) -> Self {
        Self::with(text, ports, true)
    }

    /// With the registry's fusions and shortcuts, or element by element.
    fn with(text: &str, ports: usize, fuses: bool) -> Self {
        let registry = scalebricks_elements::registry::<Packet>();
        let router =
            Router::read("r.click", text.as_bytes(), &[], &registry).unwrap_or_else(|e| panic!("{e}"));
        let (mut ledger, mut builder) = (Ledger::new(), Builder::new());
        router.declare_in(builder.fuses(fuses));
        let mut graph = builder.build(&registry, &mut ledger).unwrap_or_else(|e| panic!("{e}"));
        let mut devices = Devices::new(Clock::Wall);
        let mut near = Vec::new();
        for port in 1..=ports {
            let ((rx, far_rx), (tx, far_tx)) = (memory_port_pair(500), memory_port_pair(500));
            let device = format!("eth{port}");
            devices.receive(Some(&device), ReceiveBinding::Port(Box::new(far_rx)));
            devices.send(&device, SendBinding::Port(Box::new(far_tx)));
            near.extend([rx, tx]);
        }
        router.open(&mut graph, &mut devices).unwrap_or_else(|e| panic!("{e}"));
        let worker = Worker::new(graph, Box::new(Pool::new(2_000, 2_048).unwrap()), ());
        Self { worker, ledger, near, pool: Pool::new(2_000, 2_048).unwrap(), now: Duration::from_secs(1) }
    }

    pub(crate) fn send(&mut self, port: usize, frame: &[u8]) {
        let packet = self.pool.packet(frame).unwrap();
        self.near[2 * (port - 1)].send(packet).unwrap_or_else(|_| panic!("the ring has room"));
    }

    /// Runs some turns, a millisecond apart; returns what left, by port.
    pub(crate) fn run(&mut self) -> Vec<Vec<Vec<u8>>> {
        self.turns(40)
    }

    fn turns(&mut self, turns: usize) -> Vec<Vec<Vec<u8>>> {
        for _ in 0..turns {
            self.now += Duration::from_millis(1);
            self.worker.turn(self.now);
        }
        let all = |port: &mut MemoryPort<Packet>| {
            std::iter::from_fn(|| port.receive()).map(|p| p.data().to_vec()).collect()
        };
        self.near.iter_mut().skip(1).step_by(2).map(all).collect()
    }

    /// Announces the gateways of all ports, after packets made the router ask for them.
    fn resolve(&mut self) {
        for port in 1..=PORTS {
            let from = if port == 1 { 2 } else { 1 };
            let mut hosts = vec![];
            for host in [1, 9] {
                self.send(from, &udp4(from, ip(port, host), 9, &[]));
                self.send(from, &udp6(from, ip6(port, host.into()), 9, &[]));
                hosts.push(host);
            }
            self.run();
            for host in hosts {
                let (own, there) = (mac(port), neighbour(port, host));
                let arp = Arp {
                    operation: Operation::Reply,
                    sender_mac: there,
                    sender_ip: ip(port, host),
                    target_mac: own,
                    target_ip: ip(port, 254),
                };
                self.send(port, &[&header(own, there, ETHERTYPE_ARP)[..], &arp.to_bytes()].concat());
                let target = ip6(port, host.into());
                let nd = Advertisement::packet(target, ip6(port, 254), target, true, there);
                self.send(port, &[&header(own, there, ETHERTYPE_IPV6)[..], &nd].concat());
            }
            self.run();
        }
    }

    /// Drops by element (by class if it has no name) and reason, and packets that ended in a `Discard`.
    pub(crate) fn drops(&self) -> BTreeMap<(String, &'static str), u64> {
        let mut all = BTreeMap::new();
        for counted in self.ledger.snapshot() {
            let ends = (counted.spec.class == "Discard").then_some("packets");
            for name in counted.spec.drops.iter().map(|drop| drop.name).chain(ends) {
                if let Some(count) = counted.get(name).filter(|count| *count > 0) {
                    // Elements without a name are numbered differently.
                    let element = counted.element.split('@').next().unwrap_or_default();
                    *all.entry((element.to_owned(), name)).or_insert(0) += count;
                }
            }
        }
        all
    }

    /// The sum of a counter.
    pub(crate) fn count(&self, counter: &str) -> u64 {
        self.ledger.snapshot().into_iter().filter_map(|counted| counted.get(counter)).sum()
    }

    /// All counters and drops of all elements that are configured, except how many batches they had.
    fn counters(&self) -> BTreeMap<(String, &'static str), u64> {
        let mut all = BTreeMap::new();
        for counted in self.ledger.snapshot().into_iter().filter(|counted| counted.spec.class != "IPRoute") {
            let counters = counted.counters().map(|(spec, value)| (spec.name, value));
            for (name, value) in counters.chain(counted.drops().map(|(spec, value)| (spec.name, value))) {
                if name != "batches" {
                    all.insert((counted.element.to_string(), name), value);
                }
            }
        }
        all
    }

    /// Reads a handler of each port's queue.
    fn queues(&mut self, handler: &str) -> Vec<String> {
        let graph = self.worker.graph_mut();
        (1..=PORTS).map(|port| graph.read(&format!("out{port}"), handler).unwrap()).collect()
    }

    fn forwarded(&self) -> u64 {
        self.count("forwarded")
    }
}

/// The `EtherType` and the source address.
fn source(frame: &[u8]) -> Vec<u8> {
    let address = if frame[12..14] == [0x08, 0x00] { 26..30 } else { 22..38 };
    [&frame[12..14], frame.get(address).unwrap_or_default()].concat()
}

fn udp4(from: usize, dst: Ipv4Addr, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(neighbour(from, 9).0, mac(from).0);
    builder.ipv4(ip(from, 9).octets(), dst.octets(), ttl).udp(1, 2).write(&mut frame, payload).unwrap();
    frame
}

fn udp6(from: usize, dst: Ipv6Addr, limit: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(neighbour(from, 9).0, mac(from).0);
    builder.ipv6(ip6(from, 9).octets(), dst.octets(), limit).udp(1, 2).write(&mut frame, payload).unwrap();
    frame
}

/// Valid frames of all kinds, and what damages them.
fn frames() -> impl Strategy<Value = Vec<(usize, Vec<u8>)>> {
    let four = (0..9usize, 0..5u8, any::<bool>()).prop_map(|(at, host, df)| {
        let dst: Ipv4Addr = [
            Ipv4Addr::new(10, 0, 0, host),
            Ipv4Addr::new(10, 1, 0, host),
            Ipv4Addr::new(10, 1, 2, host),
            Ipv4Addr::new(11, 0, 0, host),
            Ipv4Addr::new(12, 0, 0, host),
            ip(1, [1, 9, 7, 254, 255][usize::from(host)]),
            ip(2, [1, 9, 7, 254, 255][usize::from(host)]),
            Ipv4Addr::new(224, 0, 0, host),
            Ipv4Addr::new(169, 254, 0, host),
        ][at];
        (dst, df)
    });
    let four = (four, 1..=PORTS, 0..5usize, 0..6usize, any::<[u8; 4]>()).prop_map(
        |((dst, df), from, ttl, kind, odd)| {
            let payload: Vec<u8> = match kind {
                0 => vec![8, 0, 0xf7, 0xff, 0, 0, 0, 0],
                1 => vec![odd[0]; 1_480],
                2 => vec![odd[0]; 1_481],
                _ => odd.to_vec(),
            };
            let ip = Ipv4Header {
                dscp_ecn: odd[1],
                total_len: 20 + payload.len() as u16,
                identification: u16::from(odd[2]),
                dont_fragment: df,
                more_fragments: kind == 4,
                fragment_units: [0, 0, 0, 0, 3, 8_190][kind],
                ttl: [0, 1, 2, 64, 255][ttl],
                protocol: if kind == 0 { 1 } else { 17 },
                src: ip(from, if odd[3] < 8 { 255 } else { 9 }),
                dst,
            };
            let front = header(mac(from), neighbour(from, 9), 0x0800);
            let padding = vec![0; if odd[3] % 4 == 0 { 20 } else { 0 }];
            (from, [&front[..], &ip.to_bytes(), &payload, &padding].concat())
        },
    );
    let six =
        (0..7usize, 1..=PORTS, 0..5usize, 0..4usize, any::<u8>()).prop_map(|(at, from, limit, kind, odd)| {
            let dst: Ipv6Addr = [
                ip6(0x1001, 1),
                ip6(0x1101, 1),
                ip6(0x1201, 1),
                ip6(0x1301, 1),
                ip6(2, [1, 9, 7, 254][kind]),
                "ff02::1".parse().unwrap(),
                "fe80::9".parse().unwrap(),
            ][at];
            let payload = vec![odd; [1_452, 1_453, 4, 0][kind]];
            (from, udp6(from, dst, [0, 1, 2, 64, 255][limit], &payload))
        });
    let damage = (any::<u8>(), any::<prop::sample::Index>(), any::<u8>());
    let frame =
        (prop_oneof![3 => four, 2 => six], damage).prop_map(|((from, mut frame), (how, at, byte))| {
            match how {
                0..32 => {
                    let at = at.index(frame.len().min(60));
                    frame[at] ^= byte;
                }
                32..48 => frame.truncate(at.index(frame.len())),
                48..56 => {
                    // Options; the checksum is then wrong or right.
                    frame.splice(34..34, [7, 7, 4, 0]);
                    frame[14] = 0x46;
                }
                _ => {}
            }
            (from, frame)
        });
    // No more than all forms take from a port in one turn.
    prop::collection::vec(frame, 1..=BURST)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    /// Both forms send the same bytes by the same ports and drop the same packets at the same elements for the same
    /// reasons. At each port, packets of one family from one source that pass in the loop leave in the same order. The
    /// order of others may differ: elements pass one family after the other, and a packet in the loop does not wait for
    /// one outside of it.
    #[test]
    fn both_forms_do_the_same(frames in frames()) {
        let folder = tempfile::tempdir().unwrap();
        let router = routes(folder.path());
        let mut forms = [Form::Click, Form::Fused].map(|form| Running::new(&router.configuration(form).unwrap()));
        // What becomes of each frame alone, if it passes in the loop.
        let mut alone = Running::new(&router.configuration(Form::Fused).unwrap());
        alone.resolve();
        let mut looped: Vec<HashSet<Vec<u8>>> = vec![HashSet::new(); PORTS];
        for (port, frame) in &frames {
            let before = alone.forwarded();
            alone.send(*port, frame);
            let left = alone.turns(3);
            if alone.forwarded() > before {
                looped.iter_mut().zip(left).for_each(|(looped, left)| looped.extend(left));
            }
        }
        let [click, fused] = forms.each_mut().map(|running| {
            running.resolve();
            for (port, frame) in &frames {
                running.send(*port, frame);
            }
            let is_looped = |(left, looped): (Vec<Vec<u8>>, &HashSet<Vec<u8>>)| {
                let (mut looped, mut others): (Vec<_>, Vec<_>) =
                    left.into_iter().partition(|frame| looped.contains(frame));
                // A stable order: packets of one family from one source stay as they are.
                looped.sort_by_key(|frame| source(frame));
                others.sort_unstable();
                (looped, others)
            };
            running.run().into_iter().zip(&looped).map(is_looped).collect::<Vec<_>>()
        });
        prop_assert_eq!(click, fused);
        let [click, fused] = &forms;
        prop_assert_eq!(click.drops(), fused.drops());
        prop_assert_eq!(click.worker.graph().held(), fused.worker.graph().held());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    /// With the shortcuts past its elements, a plain configuration sends the same bytes by the same ports, packets of one
    /// source in the same order, and all its elements and queues count the same.
    #[test]
    fn shortcuts_change_nothing(bursts in prop::collection::vec(frames(), 1..4)) {
        let folder = tempfile::tempdir().unwrap();
        let text = routes(folder.path()).configuration(Form::Click).unwrap();
        let mut both = [true, false].map(|shortcuts| Running::with(&text, PORTS, shortcuts));
        let own: HashSet<Ipv4Addr> = (1..=PORTS).map(|port| ip(port, 254)).collect();
        let is_passed = |frame: &Vec<u8>| {
            let from = frame.get(26..30).and_then(|octets| <[u8; 4]>::try_from(octets).ok());
            frame[12..14] == [8, 0] && from.is_some_and(|from| !own.contains(&from.into()))
        };
        let [fast, slow] = both.each_mut().map(|running| {
            running.resolve();
            let turns = bursts.iter().flat_map(|frames| {
                for (port, frame) in frames {
                    running.send(*port, frame);
                }
                running.run()
            });
            let sorted = turns.map(|left| {
                let (mut passed, mut others): (Vec<_>, Vec<_>) = left.into_iter().partition(is_passed);
                passed.sort_by_key(|frame| source(frame));
                others.sort_unstable();
                (passed, others)
            });
            sorted.collect::<Vec<_>>()
        });
        prop_assert_eq!(fast, slow);
        let [fast, slow] = &mut both;
        prop_assert_eq!(fast.counters(), slow.counters());
        for handler in ["length", "drops"] {
            prop_assert_eq!(fast.queues(handler), slow.queues(handler), "{}", handler);
        }
        prop_assert_eq!(slow.forwarded(), 0);
    }
}

/// Ordinary packets of a plain configuration pass by the shortcut, unless somebody looks at what is between, or a handler
/// changes what the shortcut was made for.
#[test]
fn a_plain_configuration_has_shortcuts() {
    let folder = tempfile::tempdir().unwrap();
    let text = routes(folder.path()).configuration(Form::Click).unwrap();
    let mut running = Running::new(&text);
    let taps = Taps::default();
    running.worker.set_taps(&taps);
    running.resolve();
    let pass = |running: &mut Running| {
        let before = running.forwarded();
        running.send(1, &udp4(1, Ipv4Addr::new(10, 1, 7, 7), 9, b"x"));
        let left: Vec<usize> = running.run().iter().map(Vec::len).collect();
        (left, running.forwarded() - before)
    };
    assert_eq!(pass(&mut running), (vec![0, 1, 0], 1));
    let selection = Selection { edges: vec![("routes".into(), 2)], ..Selection::default() };
    let capture = taps.start(selection).unwrap();
    assert_eq!(pass(&mut running), (vec![0, 1, 0], 0));
    drop(capture);
    assert_eq!(pass(&mut running), (vec![0, 1, 0], 1));
    let graph = running.worker.graph_mut();
    let paints: Vec<String> =
        graph.elements().filter(|(_, spec)| spec.class == "Paint").map(|(name, _)| name.to_owned()).collect();
    for paint in paints {
        graph.write(&paint, "color", "2").unwrap();
    }
    assert_eq!(pass(&mut running), (vec![1, 1, 0], 0), "with a redirect, since the paint is that of port 2");
}

/// Elements that are missing, in another place or with other arguments leave no shortcut, or one to fewer ports.
#[test]
fn only_what_fits_gets_a_shortcut() {
    let folder = tempfile::tempdir().unwrap();
    let text = routes(folder.path()).configuration(Form::Click).unwrap();
    let shortcuts = |change: (&str, &str)| {
        let changed = text.replace(change.0, change.1);
        assert!(changed != text || change.0.is_empty(), "{change:?}");
        let mut running = Running::new(&changed);
        running.resolve();
        let before = running.forwarded();
        running.send(1, &udp4(1, Ipv4Addr::new(10, 1, 7, 7), 9, b"x"));
        assert_eq!(running.run().iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 0], "{change:?}");
        let graph = running.worker.graph();
        (graph.elements().filter(|(name, _)| name.ends_with("/fast")).count(), running.forwarded() - before)
    };
    assert_eq!(shortcuts(("", "")), (PORTS, 1));
    assert_eq!(shortcuts(("HostEtherFilter(port1, DROP_OTHER true) ->", "")), (PORTS - 1, 0));
    assert_eq!(shortcuts(("Paint(1) -> ip;", "Null -> Paint(1) -> ip;")), (PORTS - 1, 0));
    assert_eq!(shortcuts(("ip :: Strip(14)", "ip :: Null -> Strip(14)")), (0, 0));
    assert_eq!(shortcuts((" 12/0800, 12/86dd, -", " 12/080045, 12/86dd, -")), (0, 0));
    assert_eq!(shortcuts(("ttl2 :: DecIPTTL ->", "ttl2 :: DecIPTTL -> Null ->")), (PORTS, 0));
    assert_eq!(shortcuts(("ttl3 :: DecIPTTL ->", "ttl3 :: DecIPTTL -> Null ->")), (PORTS, 1));
    assert_eq!(shortcuts(("DropBroadcasts ->", "")), (PORTS, 1));
}

#[test]
fn ordinary_packets_pass_in_one_loop() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::new(&routes(folder.path()).configuration(Form::Fused).unwrap());
    running.resolve();
    let before = running.forwarded();
    running.send(1, &udp4(1, Ipv4Addr::new(10, 1, 7, 7), 9, b"by port 2"));
    running.send(1, &udp4(1, ip(3, 9), 9, b"to a host of port 3"));
    running.send(2, &udp6(2, ip6(0x1201, 7), 9, b"by port 3"));
    running.send(1, &udp4(1, Ipv4Addr::new(10, 1, 7, 7), 1, b"expired"));
    let left = running.run();
    assert_eq!(running.forwarded() - before, 3);
    assert_eq!(left.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 2], "an error, and the packets");
    let frame = &left[1][0];
    assert_eq!(frame[..12], [neighbour(2, 1).0, mac(2).0].concat());
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(NetSlice::Ipv4(ip)) = &sliced.net else { panic!("no IPv4") };
    let header = ip.header().to_header();
    assert_eq!((header.time_to_live, header.header_checksum), (8, header.calc_header_checksum()));
    assert!(left[2].iter().any(|frame| frame[12..14] == [0x86, 0xdd] && frame[21] == 8));
    assert!(left[2].iter().any(|frame| frame[..6] == neighbour(3, 9).0));
}

/// RFC 1812 §4.3.2.4 and RFC 4443 §2.2: the source of an error is the address of the port that the packet's sender is behind.
#[test]
fn errors_carry_the_address_of_the_port_where_the_packet_arrived() {
    let folder = tempfile::tempdir().unwrap();
    let router = routes(folder.path());
    for form in [Form::Click, Form::Fused] {
        let mut running = Running::new(&router.configuration(form).unwrap());
        running.resolve();
        for from in 1..=PORTS {
            let to = 1 + from % PORTS;
            let mut unfragmented = udp4(from, ip(to, 9), 9, &[0; 1_500]);
            unfragmented[20] = 0x40;
            unfragmented[24..26].fill(0);
            let sum = scalebricks_wire::checksum::checksum(&unfragmented[14..34]);
            unfragmented[24..26].copy_from_slice(&sum.to_be_bytes());
            // Expired, too long, without a route; each with the type and code of its error.
            let causes = [
                (udp4(from, ip(to, 9), 1, b"x"), [11, 0]),
                (unfragmented, [3, 4]),
                (udp4(from, Ipv4Addr::new(12, 0, 0, 1), 9, b"x"), [3, 0]),
                (udp6(from, ip6(to, 9), 1, b"x"), [3, 0]),
                (udp6(from, ip6(to, 9), 9, &[0; 1_500]), [2, 0]),
                (udp6(from, "2001:db9::1".parse().unwrap(), 9, b"x"), [1, 0]),
            ];
            for (cause, kind) in causes {
                running.send(from, &cause);
                let left = running.run();
                let [error] = &left[from - 1][..] else {
                    panic!("{form:?}, port {from}, {kind:?}: {left:?}")
                };
                let (source, own, icmp) = if cause[12..14] == [8, 0] {
                    (&error[26..30], ip(from, 254).octets().to_vec(), &error[34..36])
                } else {
                    (&error[22..38], ip6(from, 254).octets().to_vec(), &error[54..56])
                };
                assert_eq!((source, icmp), (&own[..], &kind[..]), "{form:?}, port {from}");
            }
        }
    }
}

/// A route that changes is used from the next turn on, and one that is removed is not.
#[test]
fn changed_routes_count_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::new(&routes(folder.path()).configuration(Form::Fused).unwrap());
    running.resolve();
    let to = Ipv4Addr::new(10, 1, 7, 7);
    let ports = |running: &mut Running, change: Option<(&str, &str)>| {
        if let Some((handler, value)) = change {
            running.worker.graph_mut().write("routes", handler, value).unwrap();
        }
        running.send(1, &udp4(1, to, 9, b"x"));
        running.run().iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(ports(&mut running, None), [0, 1, 0]);
    assert_eq!(ports(&mut running, Some(("set", "10.1.0.0/16 192.0.3.1 3"))), [0, 0, 1]);
    assert_eq!(
        ports(&mut running, Some(("remove", "10.1.0.0/16"))),
        [2, 0, 0],
        "10/8 is by port 1: the packet, and a redirect"
    );
}

/// An answer that is old is asked for again, and one that is too old is not used, though the loop forwards packets.
#[test]
fn old_answers_are_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let router = routes(folder.path());
    let left = [Form::Click, Form::Fused].map(|form| {
        let mut running = Running::new(&router.configuration(form).unwrap());
        running.resolve();
        let mut all = Vec::new();
        for seconds in [1, 59, 1, 1, 240] {
            running.now += Duration::from_secs(seconds);
            running.send(1, &udp4(1, Ipv4Addr::new(10, 1, 7, 7), 9, b"x"));
            running.send(1, &udp6(1, ip6(0x1101, 7), 9, b"x"));
            all.push(running.run().into_iter().map(|frames| frames.len()).collect::<Vec<_>>());
        }
        all
    });
    let [click, fused] = left;
    assert_eq!(click, fused);
    let expected = [[0, 2, 0], [0, 4, 0], [0, 4, 0], [0, 4, 0], [0, 2, 0]];
    assert_eq!(fused, expected, "packets, with requests, and at last only requests");
}

#[test]
fn packets_are_forwarded_untouched() {
    for form in [Form::Click, Form::Fused] {
        let devices: Vec<String> = (1..=PORTS).map(|port| format!("eth{port}")).collect();
        let mut running = Running::new(&forward(&devices, form).unwrap());
        (0..100u8).for_each(|n| running.send(1 + usize::from(n) % PORTS, &[n; 20]));
        let left = running.run();
        for (port, frames) in left.iter().enumerate() {
            let from = (port + PORTS - 1) % PORTS;
            let expected: Vec<Vec<u8>> =
                (0..100u8).filter(|n| usize::from(*n) % PORTS == from).map(|n| vec![n; 20]).collect();
            assert_eq!(*frames, expected, "{form:?}");
        }
    }
}

#[test]
fn wrong_servers_are_refused() {
    for wrong in [
        "",
        "eth0",
        "eth0=10.0.0.1/24",
        "eth0=10.0.0.1/24,2:0:0:0:0:1,::1/129",
        "eth0=10.0.0.1/24,2:0:0:0:0:1,::1/64,x",
        "=10.0.0.1/24,2:0:0:0:0:1",
    ] {
        assert!(wrong.parse::<Interface>().is_err(), "{wrong}");
    }
    let named = |name: &str| forward(&[name.to_owned(), "b".to_owned()], Form::Click);
    assert_eq!(named("a)"), Err(ServerError::Name("a)".to_owned())));
    assert_eq!(named("b"), Err(ServerError::Twice("b".to_owned())));
    assert_eq!(forward(&["a".to_owned()], Form::Click), Err(ServerError::Ports(1)));
    let mut router =
        IpRouter { ports: vec![interface(1), interface(2)], routes: None, routes6: None, mtu: 1_500 };
    let text = router.configuration(Form::Click).unwrap();
    let registry = scalebricks_elements::registry::<Packet>();
    Router::read("r.click", text.as_bytes(), &[], &registry).unwrap_or_else(|errors| panic!("{errors}"));
    router.routes = Some("a\"b".to_owned());
    assert_eq!(router.configuration(Form::Click), Err(ServerError::File("a\"b".to_owned())));
}

/// `UPDATE_DOCS=1` writes the examples.
#[test]
fn the_examples_are_generated() {
    let ports = [
        "eth0=192.0.2.1/24,02:00:00:00:00:10,2001:db8:0:1::1/64",
        "eth1=198.51.100.1/24,02:00:00:00:01:10,2001:db8:0:2::1/64",
    ];
    let file = |name: &str| Some(format!("examples/router/{name}"));
    let router = IpRouter {
        ports: ports.iter().map(|text| text.parse().unwrap()).collect(),
        routes: file("routes.txt"),
        routes6: file("routes6.txt"),
        mtu: 1_500,
    };
    let devices = ["eth0".to_owned(), "eth1".to_owned()];
    for (name, text) in [
        ("forward", forward(&devices, Form::Click)),
        ("forward-fused", forward(&devices, Form::Fused)),
        ("route", router.configuration(Form::Click)),
        ("route-fused", router.configuration(Form::Fused)),
    ] {
        let path = format!("{}/../../examples/router/{name}.click", env!("CARGO_MANIFEST_DIR"));
        let text = text.unwrap();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == text, "{path} is not up to date: run this test with UPDATE_DOCS=1");
    }
}

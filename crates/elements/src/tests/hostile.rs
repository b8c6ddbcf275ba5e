//! Feeds unchecked bytes to every class of the registry: no panic, and no packet lost.

use crate::columns::{DstIp, DstIp6, Ip6Header, IpHeader};
use crate::rig::{Rig, ipv4_of, ipv4_with_options, ipv6_of};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use scalebricks_graph::frame::Parts;
use scalebricks_graph::spec::{Counts, PortArity, PortKind, PortSpec};
use scalebricks_graph::{
    Builder, Control, CounterSnapshot, Frame, Handle, Ledger, Meta, Out, SlotList, Spec, element,
};
use scalebricks_io::{Packet, PacketBuf};
use scalebricks_wire::MacAddr;
use scalebricks_wire::arp::{Arp, Operation};
use scalebricks_wire::ethernet::{ETHERTYPE_ARP, header};
use scalebricks_wire::nd::{Advertisement, Solicitation};
use std::cell::Cell;
use std::net::Ipv6Addr;
use std::time::Duration;

/// Whether it opens a file or device named by a parameter.
fn opens(spec: &Spec) -> bool {
    // `file`, of tables, may be left out.
    let names = |name: &str| name.contains("file") && name != "file" || name == "devname";
    spec.params.iter().any(|param| names(param.name))
}

element! {
    /// Writes every column with values derived from each packet's first bytes.
    #[derive(Default)]
    struct Claims as "Claims" { dst: Handle<DstIp>, dst6: Handle<DstIp6>, }
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "The same.", }
    writes { DstIp, IpHeader, DstIp6, Ip6Header, }
    binds { dst, dst6, }
}

impl Control for Claims {}

impl Claims {
    fn process<P: PacketBuf>(
        &mut self,
        batch: &mut SlotList,
        start: usize,
        frame: &mut Frame<P>,
        _: &mut Out<'_>,
    ) {
        let Parts { packets, meta, columns } = frame.parts();
        for slot in batch.iter() {
            let at = |at: usize| u16::from(packets[slot].data().get(at).copied().unwrap_or(0));
            columns.get_mut(self.dst6)[slot] = DstIp6([at(24), at(25), 0, 0, 0, 0, 0, at(39) % 8].into());
        }
        let dst = columns.get_mut(self.dst);
        batch.filter_map_from(start, |slot| {
            let meta = &mut meta[slot.index()];
            let at = |at: usize| packets[&slot].data().get(at).copied().unwrap_or(0);
            dst[&slot] = DstIp([at(16), at(17), at(18), at(19) % 8].into());
            let right = if matches!(at(0) >> 4, 4 | 6) { 0 } else { 14 };
            (meta.l3, meta.l4, meta.length) = match at(10) % 4 {
                0 => (u16::from(at(1)), u16::from(at(2)), u16::from(at(3))),
                1 if at(11) % 4 == 0 => (u16::MAX, u16::MAX, u16::MAX),
                _ => (right, right + 20, u16::from(at(3))),
            };
            (meta.flags, meta.paint) = (u16::from(at(4)), at(5) % 3);
            Some(slot)
        });
    }
}

scalebricks_graph::agnostic! { Claims }

/// As many ports as a class has, and two of each repeatable kind.
fn ports(specs: &'static [PortSpec]) -> impl Iterator<Item = &'static PortSpec> {
    let count = |port: &PortSpec| {
        if matches!(port.many, PortArity::OneOrMore | PortArity::ZeroOrMore) { 2 } else { 1 }
    };
    specs.iter().flat_map(move |port| std::iter::repeat_n(port, count(port)))
}

/// Connects an element on all its ports.
fn surround(builder: &mut Builder<Packet>, spec: &'static Spec, is_pulled: bool) {
    builder
        .declare("element", spec.class, spec.example)
        .declare("deal", "RoundRobinSwitch", &[])
        .chain(&["in", "deal"]);
    builder.declare("rest", "Discard", &[]).connect("deal", 0, "rest", 0);
    let pulls = |port: &PortSpec| port.flow == PortKind::Pull || port.flow == PortKind::Agnostic && is_pulled;
    for (at, port) in ports(spec.inputs).enumerate() {
        let (claims, queue) = (format!("claims{at}"), format!("queue{at}"));
        builder.add(&claims, Claims::default()).connect(&claims, 0, "element", at);
        if pulls(port) {
            builder
                .declare(&queue, "Queue", &[])
                .connect("deal", at + 1, &queue, 0)
                .chain(&[&queue, &claims]);
        } else {
            builder.connect("deal", at + 1, &claims, 0);
        }
    }
    for (at, port) in ports(spec.outputs).enumerate() {
        let (end, unqueue) = (format!("out{at}"), format!("unqueue{at}"));
        if pulls(port) {
            builder
                .declare(&unqueue, "Unqueue", &[])
                .connect("element", at, &unqueue, 0)
                .chain(&[&unqueue, &end]);
        } else {
            builder.connect("element", at, &end, 0);
        }
    }
}

fn total(ledger: &Ledger, counters: &[&str]) -> u64 {
    let of = |name: &&str| ledger.snapshot().iter().filter_map(|counted| counted.get(name)).sum::<u64>();
    counters.iter().map(of).sum()
}

/// All counters of packets that elements made, or that ended in them.
fn balance(ledger: &Ledger, counts: Counts) -> u64 {
    let of = |counted: &CounterSnapshot| {
        let counters = counted.spec.counters.iter().filter(|counter| counter.counts == counts);
        counters.filter_map(|counter| counted.get(counter.name)).sum::<u64>()
    };
    ledger.snapshot().iter().map(of).sum()
}

/// Counters that show how far packets get.
const REACHED: [&str; 6] = ["errors", "replies", "recorded", "fragments", "responses", "fixed"];

/// Packets received or made versus those that left, were dropped, ended or are kept; how far they got.
fn run(
    spec: &'static Spec,
    is_pulled: bool,
    packets: &[(Vec<u8>, Meta)],
) -> Result<(u64, u64, [u64; REACHED.len()]), String> {
    let ends = ports(spec.outputs).count();
    let fill = |builder: &mut Builder<Packet>| surround(builder, spec, is_pulled);
    let mut rig = Rig::with_buffers(300, ends, fill).map_err(|errors| errors.to_string())?;
    rig.send_noted(packets.iter().cloned());
    for ms in [1, 1, 500, 1_000, 1_000, 1_000, 1_000, 1] {
        rig.turn_after(Duration::from_millis(ms));
    }
    let out: usize = (0..ends).map(|end| rig.got(end).len()).sum();
    let dropped: u64 = rig.ledger.snapshot().iter().map(CounterSnapshot::dropped).sum();
    let faults = total(&rig.ledger, &["slot_lost", "unworked"]);
    if faults > 0 {
        return Err(format!("{faults} packets let go"));
    }
    let (made, ended) = (balance(&rig.ledger, Counts::Made), balance(&rig.ledger, Counts::Ended));
    let went = out as u64 + dropped + ended + rig.worker.graph().held() as u64;
    Ok((packets.len() as u64 + made, went, REACHED.map(|name| total(&rig.ledger, &[name]))))
}

fn ip() -> impl Strategy<Value = Vec<u8>> {
    let any_options = prop::collection::vec(prop_oneof![Just(7u8), Just(68), 0..12u8, any::<u8>()], 0..40);
    let options = prop_oneof![any_options, Just(vec![7, 7, 4, 0, 0, 0, 0, 0]), Just(vec![])];
    let payload = prop::collection::vec(any::<u8>(), 0..400);
    (options, payload, any::<[u8; 8]>()).prop_map(
        |(options, payload, [ttl, protocol, src, dst, df, units, kind, _])| {
            let options = &options[..options.len() / 4 * 4];
            if !options.is_empty() {
                return ipv4_with_options(options, &payload);
            }
            let payload = if kind % 2 == 0 { [&[8, 0][..], &payload].concat() } else { payload };
            ipv4_of(
                |header| {
                    (header.ttl, header.protocol) =
                        (ttl % 4, [1, 6, 17, protocol][usize::from(protocol % 4)]);
                    (header.src, header.dst) = ([src, 0, 0, 1].into(), [10, 0, dst, 255].into());
                    (header.dont_fragment, header.fragment_units) = (df % 2 == 0, u16::from(units % 3));
                },
                &payload,
            )
        },
    )
}

fn ip6() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..400),
        Just([&[128, 0][..], &[0; 10]].concat()),
        (135..137u8, 0..8u16).prop_map(|(kind, target)| {
            let target = Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, target);
            let mac = MacAddr([2, 0, 0, 0, 0, 9]);
            let packet = match kind {
                135 => Solicitation::packet(target, target, target, mac),
                _ => Advertisement::packet(target, target, target, true, mac),
            };
            packet[40..].to_vec()
        }),
    ];
    (payload, any::<[u8; 4]>()).prop_map(|(payload, [limit, next, src, dst])| {
        ipv6_of(
            |header| {
                header.hop_limit = [0, 1, 2, 255][usize::from(limit % 4)];
                header.next_header = [58, 58, 17, next][usize::from(next % 4)];
                header.src = Ipv6Addr::new(u16::from(src) << 8, 0, 0, 0, 0, 0, 0, 1);
                header.dst = Ipv6Addr::new(u16::from(dst) << 8, 0, 0, 0, 0, 0, 0, 1);
            },
            &payload,
        )
    })
}

fn arp() -> impl Strategy<Value = Vec<u8>> {
    (any::<[u8; 6]>(), 0..4u16, any::<[u8; 2]>()).prop_map(|(mac, operation, [sender, target])| {
        let operation = [Operation::Request, Operation::Reply, Operation::Reply, Operation::Other(operation)]
            [usize::from(operation)];
        let (sender_ip, target_ip) = ([0, 0, 0, sender % 8].into(), [10, 0, 0, target].into());
        let arp =
            Arp { operation, sender_mac: MacAddr(mac), sender_ip, target_mac: MacAddr([0; 6]), target_ip };
        [&header(MacAddr(mac), MacAddr(mac), ETHERTYPE_ARP)[..], &arp.to_bytes()].concat()
    })
}

/// Arbitrary bytes, and nearly valid packets.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let framed = ip().prop_map(|ip| [&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 8, 0][..], &ip].concat());
    let framed6 =
        ip6().prop_map(|ip| [&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x86, 0xdd][..], &ip].concat());
    let right = prop_oneof![ip(), framed, arp(), ip6(), framed6];
    let changed = (right, any::<prop::sample::Index>(), any::<u8>(), any::<prop::sample::Index>()).prop_map(
        |(mut packet, at, byte, len)| {
            if byte % 4 > 0 {
                let at = at.index(packet.len().min(60));
                packet[at] ^= byte;
            }
            if byte % 3 == 0 {
                packet.truncate(len.index(packet.len()));
            }
            packet
        },
    );
    prop_oneof![1 => prop::collection::vec(any::<u8>(), 0..1_600), 3 => changed]
}

#[test]
fn every_class_takes_any_bytes_and_loses_no_packet() {
    let registry = crate::registry::<Packet>();
    let mut runner = TestRunner::new(Config { cases: 100, ..Config::default() });
    let packets = prop::collection::vec(packet().prop_map(|packet| (packet, Meta::default())), 1..40);
    let all = Cell::new([0; REACHED.len()]);
    let result = runner.run(&packets, |packets| {
        for spec in registry.specs().filter(|spec| !spec.example.is_empty() || !opens(spec)) {
            for is_pulled in [false, true] {
                let ran = run(spec, is_pulled, &packets);
                let (came, went, reached) =
                    ran.map_err(|error| TestCaseError::fail(format!("{}: {error}", spec.class)))?;
                prop_assert_eq!(came, went, "{}", spec.class);
                all.set(std::array::from_fn(|at| all.get()[at] + reached[at]));
            }
        }
        Ok(())
    });
    assert!(result.is_ok(), "{}", result.unwrap_err());
    assert!(all.get().iter().all(|count| *count > 0), "{REACHED:?} {:?}", all.get());
}

/// A text that may be an argument: a number, an address, a pattern, or nonsense.
fn argument() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "1.2.3.4",
        "10.0.0.0/8",
        "2:0:0:0:0:1",
        "12/0806",
        "-",
        "redirect",
        "true",
        "4294967296",
        "0x10",
        "\"a\"",
    ];
    let word = prop_oneof![prop::sample::select(WORDS).prop_map(str::to_owned), "[0-9a-fx./:%?!-]{0,12}"];
    prop::collection::vec(word, 0..4).prop_map(|words| words.join(" "))
}

#[test]
fn every_class_takes_any_arguments_or_refuses_them() {
    let registry = crate::registry::<Packet>();
    let mut runner = TestRunner::new(Config { cases: 100, ..Config::default() });
    let arguments = prop::collection::vec((argument(), any::<prop::sample::Index>(), any::<bool>()), 0..5);
    let result = runner.run(&arguments, |arguments| {
        // Random texts are not file names.
        for spec in registry.specs().filter(|spec| !opens(spec)) {
            let keyword = |at: prop::sample::Index| match spec.params {
                [] => String::new(),
                params => at.get(params).name.to_ascii_uppercase(),
            };
            let texts = arguments.iter().map(|(text, at, is_named)| {
                if *is_named { format!("{} {text}", keyword(*at)) } else { text.clone() }
            });
            prop_assert!(registry.make(spec.class, &texts.collect::<Vec<_>>()).is_some());
        }
        Ok(())
    });
    assert!(result.is_ok(), "{}", result.unwrap_err());
}

//! A router with two interfaces, made of single elements: the wiring of Click's `conf/fake-iprouter.click` with ARP,
//! and with a classifier instead of a route lookup.

use crate::rig::{Rig, ipv4_of};
use scalebricks_graph::Builder;
use scalebricks_io::Packet;
use scalebricks_wire::MacAddr;
use scalebricks_wire::arp::{Arp, Operation};
use scalebricks_wire::ethernet::{ETHERTYPE_ARP, ETHERTYPE_IPV4, header};
use scalebricks_wire::ipv4::{Ipv4, Ipv4Header, header_checksum_ok};

const NETS: [[u8; 3]; 2] = [[18, 26, 4], [18, 26, 7]];
const MACS: [MacAddr; 2] = [MacAddr([0, 0, 0xc0, 0xae, 0x67, 0xef]), MacAddr([0, 0, 0xc0, 0x4f, 0x71, 0xef])];
/// Host 9 of each network.
const HOSTS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 4, 9]), MacAddr([2, 0, 0, 0, 7, 9])];

/// Frames enter at `in`, from interface 0 if their first byte is 0; that byte is removed.
fn fill(builder: &mut Builder<Packet>) {
    builder.declare("from", "Classifier", &["0/00", "0/01"]).chain(&["in", "from"]);
    builder.declare("ip", "Strip", &["14"]).declare("check", "CheckIPHeader", &["18.26.4.255 18.26.7.255"]);
    builder.declare("rt", "Classifier", &["16/121a04fe", "16/121a07fe", "16/121a04", "16/121a07"]);
    builder.declare("ping", "ICMPPingResponder", &[]).chain(&["ip", "check", "rt", "ping", "rt"]);
    builder.connect("rt", 1, "ping", 0);
    for (at, (net, mac)) in NETS.iter().zip(MACS).enumerate() {
        let name = |name: &str| format!("{name}{at}");
        let own = format!("{}.{}.{}.254", net[0], net[1], net[2]);
        let error = |builder: &mut Builder<Packet>, from: &str, args: &[&str]| {
            let args: Vec<&str> = [own.as_str()].into_iter().chain(args.iter().copied()).collect();
            let error = format!("{from}-error");
            builder
                .declare(&error, "ICMPError", &args)
                .connect(from, 1, &error, 0)
                .connect(&error, 0, "rt", 0);
        };
        builder.declare(&name("cut"), "Strip", &["1"]);
        builder.declare(&name("host"), "HostEtherFilter", &[&mac.to_string()]);
        builder.declare(&name("c"), "Classifier", &["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"]);
        builder.connect("from", at, &name("cut"), 0).chain(&[&name("cut"), &name("host"), &name("c")]);
        builder.declare(&name("ar"), "ARPResponder", &[&format!("{own} {mac}")]);
        builder.declare(&name("arpq"), "ARPQuerier", &[&format!("{own}/24"), &mac.to_string()]);
        builder.declare(&name("other"), "Discard", &[]).declare(
            &name("paint"),
            "Paint",
            &[&(at + 1).to_string()],
        );
        builder.connect(&name("c"), 0, &name("ar"), 0).connect(&name("c"), 1, &name("arpq"), 1);
        builder.connect(&name("c"), 2, &name("paint"), 0).connect(&name("c"), 3, &name("other"), 0);
        builder.connect(&name("paint"), 0, "ip", 0);
        let way = ["db", "cp", "gio", "fix", "dt", "fr", "arpq"].map(name);
        builder.declare(&way[0], "DropBroadcasts", &[]).declare(
            &way[1],
            "PaintTee",
            &[&(at + 1).to_string()],
        );
        builder.declare(&way[2], "IPGWOptions", &[&own]).declare(&way[3], "FixIPSrc", &[&own]);
        builder.declare(&way[4], "DecIPTTL", &[]).declare(&way[5], "IPFragmenter", &["300"]);
        builder.connect("rt", 2 + at, &way[0], 0).chain(&way.each_ref().map(String::as_str));
        error(builder, &way[1], &["redirect", "host"]);
        error(builder, &way[2], &["parameterproblem"]);
        error(builder, &way[4], &["timeexceeded"]);
        error(builder, &way[5], &["unreachable", "needfrag", "PMTU 300"]);
        let queue = format!("q{at}");
        builder.declare(&queue, "Queue", &["200"]).declare(&name("u"), "Unqueue", &[]);
        builder.connect(&name("ar"), 0, &queue, 0).connect(&name("arpq"), 0, &queue, 0);
        builder.chain(&[&queue, &name("u"), &name("out")]);
    }
}

fn from(interface: u8, dst: MacAddr, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&[interface][..], &header(dst, HOSTS[usize::from(interface)], ethertype), payload].concat()
}

/// A packet from host 9 of network 0, on interface 0.
fn packet(dst: [u8; 4], change: impl FnOnce(&mut Ipv4Header), payload: &[u8]) -> Vec<u8> {
    let fields = |header: &mut Ipv4Header| {
        (header.src, header.dst) = ([18, 26, 4, 9].into(), dst.into());
        change(header);
    };
    from(0, MACS[0], ETHERTYPE_IPV4, &ipv4_of(fields, payload))
}

/// A router that knows both hosts.
fn router() -> Rig {
    let mut rig = Rig::new(2, fill);
    rig.send([packet([18, 26, 7, 9], |_| {}, b"first"), packet([18, 26, 4, 9], |_| {}, b"back")]);
    run(&mut rig);
    for at in [0, 1u8] {
        let [own, host] = [MACS, HOSTS].map(|macs| macs[usize::from(at)]);
        let net = NETS[usize::from(at)];
        let ip = |last: u8| [net[0], net[1], net[2], last].into();
        let (sender_ip, target_ip) = (ip(9), ip(254));
        let question = rig.got(usize::from(at)).remove(0);
        let asked = Arp::parse(&question[14..]).unwrap();
        assert_eq!((asked.target_ip, asked.sender_ip, asked.sender_mac), (sender_ip, target_ip, own));
        let operation = Operation::Reply;
        let arp = Arp { operation, sender_mac: host, sender_ip, target_mac: own, target_ip };
        rig.send([from(at, own, ETHERTYPE_ARP, &arp.to_bytes())]);
    }
    run(&mut rig);
    let waited = rig.got(1).remove(0);
    assert_eq!(
        (&waited[..14], &waited[34..]),
        (&header(HOSTS[1], MACS[1], ETHERTYPE_IPV4)[..], &b"first"[..])
    );
    assert_eq!(rig.got(0).len(), 2, "a packet that came by interface 0, and a redirect");
    rig
}

fn run(rig: &mut Rig) {
    (0..5).for_each(|_| {
        rig.turn();
    });
}

/// What leaves by both interfaces for one packet, without Ethernet headers.
fn after(rig: &mut Rig, packet: Vec<u8>) -> [Vec<Vec<u8>>; 2] {
    rig.send([packet]);
    run(rig);
    [0, 1].map(|at| {
        let inner = |frame: Vec<u8>| {
            assert_eq!(frame[..14], header(HOSTS[at], MACS[at], ETHERTYPE_IPV4));
            assert!(header_checksum_ok(&frame[14..]));
            frame[14..].to_vec()
        };
        rig.got(at).into_iter().map(inner).collect()
    })
}

#[test]
fn packets_are_forwarded_and_cut() {
    let mut rig = router();
    let [back, on] = after(&mut rig, packet([18, 26, 7, 9], |header| header.ttl = 9, b"abc"));
    let ip = Ipv4::parse(&on[0]).unwrap();
    assert_eq!((back.len(), on.len(), ip.ttl(), ip.payload()), (0, 1, 8, &b"abc"[..]));
    let [_, fragments] = after(&mut rig, packet([18, 26, 7, 9], |_| {}, &[7; 500]));
    assert_eq!(fragments.iter().map(Vec::len).collect::<Vec<_>>(), [300, 240]);
    // A broadcast of the link stays there.
    let mut shared = packet([18, 26, 7, 9], |_| {}, b"abc");
    shared[1..7].fill(0xff);
    assert_eq!(after(&mut rig, shared), [vec![], vec![] as Vec<Vec<u8>>]);
    assert_eq!(rig.number("db1", "link_broadcast"), 1);
}

#[test]
fn faults_are_told_to_the_sender() {
    let mut rig = router();
    let mut error = |packet: Vec<u8>| {
        let [back, on] = after(&mut rig, packet.clone());
        let is_error = |ip: &Ipv4<'_>| ip.protocol() == 1 && ip.fragment_offset() == 0;
        let ip = back.iter().map(|packet| Ipv4::parse(packet).unwrap()).find(is_error).unwrap();
        // It has the address of the interface that it leaves by, whatever ICMPError was told.
        assert_eq!((ip.src(), ip.dst(), ip.protocol()), ([18, 26, 4, 254].into(), [18, 26, 4, 9].into(), 1));
        let (icmp, quoted) = ip.payload().split_at(8);
        assert_eq!(quoted[12..20], packet[27..35]);
        (icmp[0], icmp[1], icmp[4..8].to_vec(), back.len() - 1 + on.len())
    };
    assert_eq!(error(packet([18, 26, 7, 9], |header| header.ttl = 1, b"abc")), (11, 0, vec![0; 4], 0));
    let long = packet([18, 26, 7, 9], |header| header.dont_fragment = true, &[7; 500]);
    assert_eq!(error(long), (3, 4, vec![0, 0, 1, 44], 1), "the error is cut to two fragments itself");
    let redirected = error(packet([18, 26, 4, 9], |_| {}, b"abc"));
    assert_eq!(redirected, (5, 1, vec![18, 26, 4, 9], 1));
    let inner = crate::rig::ipv4_with_options(&[7, 1, 4, 0], b"abc");
    let mut malformed = from(0, MACS[0], ETHERTYPE_IPV4, &inner);
    malformed[27..35].copy_from_slice(&[18, 26, 4, 9, 18, 26, 7, 9]);
    crate::header::sum(&mut malformed[15..39]);
    assert_eq!(error(malformed), (12, 0, vec![21, 0, 0, 0], 0));
}

#[test]
fn the_router_answers_pings_and_arp() {
    let mut rig = router();
    let mut echo = [8, 0, 0, 0, 0, 9, 0, 1];
    let sum = scalebricks_wire::checksum::checksum(&echo).to_be_bytes();
    echo[2..4].copy_from_slice(&sum);
    let [back, on] = after(&mut rig, packet([18, 26, 7, 254], |header| header.protocol = 1, &echo));
    let ip = Ipv4::parse(&back[0]).unwrap();
    assert_eq!((ip.src(), ip.payload()[0], on.len()), ([18, 26, 7, 254].into(), 0, 0));
    let arp = Arp {
        operation: Operation::Request,
        sender_mac: HOSTS[1],
        sender_ip: [18, 26, 7, 9].into(),
        target_mac: MacAddr([0; 6]),
        target_ip: [18, 26, 7, 254].into(),
    };
    rig.send([from(1, MacAddr::BROADCAST, ETHERTYPE_ARP, &arp.to_bytes())]);
    run(&mut rig);
    assert_eq!(Arp::parse(&rig.got(1)[0][14..]).unwrap(), arp.reply(MACS[1]));
}

#[test]
fn small_elements_run_as_one() {
    let rig = router();
    let graph = rig.worker.graph();
    assert_eq!(graph.elements().count() - graph.boxes(), 4, "three elements as one, at each interface");
}

#[test]
fn a_forgotten_check_is_told_before_a_packet_comes() {
    let built = Rig::with_buffers(5, 1, |builder| {
        builder.declare("s", "Strip", &["14"]).declare("f", "IPFragmenter", &["300"]);
        builder.declare("a", "ARPQuerier", &["1.2.3.4", "1:2:3:4:5:6"]).chain(&["in", "s", "f", "a", "out0"]);
    });
    let errors = built.err().unwrap().to_string();
    assert!(
        errors.contains("f reads column IP header") && errors.contains("a reads column destination"),
        "{errors}"
    );
}

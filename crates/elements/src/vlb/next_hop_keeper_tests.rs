use super::*;
use crate::fabric::mac::ExternalPort;
use crate::rig::Rig;
use scalebricks_wire::arp::Arp;
use scalebricks_wire::nd::Advertisement;
use scalebricks_wire::{ethernet, parse_frame};

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// One port; frames from the link go to both resolvers, whose requests go to end 0.
fn rig(hops: &Arc<NextHops>, args: &[&str]) -> Rig {
    let restore = RestoreMac::new(vec![OWN], Arc::clone(hops)).unwrap();
    Rig::new(2, |builder| {
        let args = [&["restore", "arp0", "nd0", "output"], args].concat();
        builder.declare("keeper", "NextHopKeeper", &args).add("restore", restore);
        builder.declare(
            "arp0",
            "ARPQuerier",
            &["192.0.2.1", "2:0:0:0:0:1", "POLL_TIMEOUT 60s", "TIMEOUT 300s"],
        );
        builder.declare("nd0", "IP6NDSolicitor", &["2001:db8::1", "2:0:0:0:0:1"]);
        builder.declare("output", "RouterOutput", &["1", "192.0.2.1", "2001:db8::1"]);
        builder.declare("class", "Classifier", &["12/0806", "12/86dd", "-"]).chain(&["in", "class"]);
        builder
            .connect("class", 0, "arp0", 1)
            .connect("class", 1, "nd0", 1)
            .connect("class", 2, "restore", 0);
        builder.chain(&["arp0", "out0"]).chain(&["nd0", "out0"]);
        builder.connect("keeper", 0, "arp0", 2).connect("keeper", 1, "nd0", 2);
        builder.connect("restore", 0, "out1", 0).connect("restore", 1, "output", 0);
        builder
            .declare("rest", "Discard", &[])
            .connect("output", 0, "rest", 0)
            .connect("output", 1, "rest", 0);
        builder.connect("output", 2, "arp0", 0).connect("output", 3, "nd0", 0);
    })
}

fn define(hops: &NextHops, number: u16, address: &str) {
    let neighbour = Neighbour { port: ExternalPort::new(0).unwrap(), address: address.parse().unwrap() };
    hops.define(number, Some(neighbour)).unwrap();
}

/// The answer to an ARP request.
fn reply(request: &[u8], mac: MacAddr) -> Vec<u8> {
    let request = Arp::parse(&request[14..]).unwrap();
    let header = ethernet::header(OWN, mac, ethernet::ETHERTYPE_ARP);
    [&header[..], &request.reply(mac).to_bytes()].concat()
}

fn run(rig: &mut Rig, from_ms: u64, to_ms: u64) {
    (from_ms..to_ms).step_by(20).for_each(|ms| {
        rig.turn_at(Duration::from_millis(ms));
    });
}

#[test]
fn next_hops_are_resolved_ahead_of_traffic_and_refreshed() {
    let hops = Arc::new(NextHops::new(100));
    let mut rig = rig(&hops, &[]);
    define(&hops, 7, "192.0.2.9");
    define(&hops, 8, "2001:db8::9");
    run(&mut rig, 0, 100);
    let asked = rig.got(0);
    let kinds: Vec<u16> = asked.iter().map(|frame| parse_frame(frame).unwrap().ethertype).collect();
    assert_eq!(kinds, [0x0806, 0x86dd], "one question each");
    let mac = MacAddr([2, 0, 0, 0, 0, 9]);
    let [ip, own]: [Ipv6Addr; 2] = ["2001:db8::9", "2001:db8::1"].map(|ip| ip.parse().unwrap());
    let header = ethernet::header(OWN, mac, ethernet::ETHERTYPE_IPV6);
    let advertisement = [&header[..], &Advertisement::packet(ip, own, ip, true, mac)].concat();
    rig.send([reply(&asked[0], mac), advertisement]);
    run(&mut rig, 100, 200);
    assert_eq!((hops.get(7), hops.get(8)), (Some(mac), Some(mac)));
    assert_eq!(rig.read("keeper", "table"), format!("7 0 192.0.2.9 {mac}\n8 0 2001:db8::9 {mac}"));
    assert_eq!(["next_hops", "resolved"].map(|name| rig.number("keeper", name)), [2, 2]);
    // Not asked again until it is old; then it moves to another address.
    run(&mut rig, 200, 50_000);
    assert_eq!(rig.got(0).len(), 0);
    run(&mut rig, 50_000, 63_000);
    let again: Vec<_> = rig.got(0).into_iter().filter(|frame| frame[12..14] == [8, 6]).collect();
    assert!(!again.is_empty());
    let moved = MacAddr([2, 0, 0, 0, 0, 10]);
    rig.send([reply(&again[0], moved)]);
    run(&mut rig, 63_000, 63_100);
    assert_eq!(hops.get(7), Some(moved));
    // A next hop that control removes is asked for no more.
    hops.define(7, None).unwrap();
    hops.define(8, None).unwrap();
    run(&mut rig, 63_100, 200_000);
    assert_eq!((hops.get(7), rig.got(0).len(), rig.number("keeper", "next_hops")), (None, 0, 0));
}

#[test]
fn a_next_hop_that_is_silent_loses_its_address_and_requests_are_rate_limited() {
    let hops = Arc::new(NextHops::new(1_000));
    let mut rig = rig(&hops, &["RATE 10"]);
    define(&hops, 7, "192.0.2.9");
    run(&mut rig, 0, 100);
    let asked = rig.got(0).remove(0);
    rig.send([reply(&asked, MacAddr([2, 0, 0, 0, 0, 9]))]);
    run(&mut rig, 100, 200);
    assert!(hops.get(7).is_some());
    run(&mut rig, 200, 303_000);
    assert_eq!(hops.get(7), None, "silent for 300 s");
    let before = rig.got(0).len();
    assert!(before > 240, "{before} questions: it is asked again and again");
    (0..500).for_each(|number| {
        define(&hops, 100 + number, &format!("10.1.{}.{}", number / 250, number % 250 + 1))
    });
    run(&mut rig, 303_000, 304_000);
    let wanted = rig.number("keeper", "requests");
    run(&mut rig, 304_000, 314_000);
    let wanted = rig.number("keeper", "requests") - wanted;
    assert!((80..=110).contains(&wanted), "{wanted} in 10 s");
    assert!(rig.number("keeper", "requests_delayed") > 0);
}

#[test]
fn elements_that_do_not_exist_are_a_fault() {
    for (args, what) in [
        (["no", "arp0", "nd0"], "no is no RestoreMac"),
        (["restore", "no", "nd0"], "no is no ARPQuerier"),
        (["restore", "arp0", "arp0"], "arp0 is no IP6NDSolicitor"),
    ] {
        let mut rig = Rig::new(2, |builder| {
            builder.declare("keeper", "NextHopKeeper", &args).chain(&["keeper", "out1"]);
            builder.declare("restore", "RestoreMac", &["2:0:0:0:0:1"]).chain(&["in", "restore", "out0"]);
            builder.declare("get", "GetIPAddress", &["16"]).declare("idle", "Idle", &[]);
            builder.declare("arp0", "ARPQuerier", &["192.0.2.1", "2:0:0:0:0:1"]);
            builder.chain(&["idle", "get", "arp0", "out0"]);
        });
        rig.turn();
        let faults: Vec<_> = rig.worker.graph().faults().map(|(_, why)| why).collect();
        assert_eq!(faults, [what]);
    }
}

//! The example node, over captures.

use super::node_rig::hello;
use super::rig::frame;
use scalebricks_apps::click::Router;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_apps::click::run::{End, run};
use scalebricks_graph::{Clock, Ledger, Worker};
use scalebricks_io::{CaptureReader, CaptureWriter, Packet, Pool};
use scalebricks_types::{NodeId, NodeSet};
use scalebricks_wire::arp::{Arp, Operation};
use scalebricks_wire::{MacAddr, ethernet};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x10]);
const NEXT_HOP: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x99]);

/// Hellos of a neighbour that hears node 0, until the link is up, and later.
fn hellos(from: u8) -> impl Iterator<Item = (u64, Vec<u8>)> {
    let hears = NodeSet::from_iter([NodeId::new(0)]);
    (0..9).map(move |at| (at * 100, hello((from, 0), 1 + at, hears, 1)))
}

#[test]
fn the_example_is_node_0_of_four() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(format!("{name}.pcap"));
    let marked = |node: u8| {
        let mut marked = frame(3, usize::from(node), 0);
        marked[..6].copy_from_slice(&[2, 0x5b, 0x40, node, 0, 1]);
        marked
    };
    let outside = |output: usize| {
        let mut frame = frame(0, output, 0);
        frame[..6].copy_from_slice(&OWN.octets());
        frame
    };
    let mut devices = Devices::new(Clock::Captures);
    // The next hop answers. From its port, later: to node 1, to a next hop of its own, and to another host. From node 3: to
    // this node, to node 2, not encoded.
    let answer = Arp {
        operation: Operation::Reply,
        sender_mac: NEXT_HOP,
        sender_ip: [10, 0, 0, 99].into(),
        target_mac: OWN,
        target_ip: [10, 0, 0, 1].into(),
    };
    let answer = [&ethernet::header(OWN, NEXT_HOP, ethernet::ETHERTYPE_ARP)[..], &answer.to_bytes()].concat();
    let mut elsewhere = outside(0);
    elsewhere[30] = 11;
    elsewhere[24..26].fill(0);
    let sum = scalebricks_wire::checksum::checksum(&elsewhere[14..34]);
    elsewhere[24..26].copy_from_slice(&sum.to_be_bytes());
    let mut other = outside(1);
    other[5] = 7;
    let port = [(50, answer), (500, outside(1)), (501, elsewhere), (502, other)];
    let link = hellos(3).chain([(510, marked(0)), (511, marked(2)), (512, frame(3, 0, 0))]);
    let mut link: Vec<_> = link.collect();
    link.sort_by_key(|(at, _)| *at);
    for (device, frames) in [
        ("eth0", port.to_vec()),
        ("eth1", hellos(1).collect()),
        ("eth2", hellos(2).collect()),
        ("eth3", link),
    ] {
        let mut writer = CaptureWriter::create(path(device)).unwrap();
        for (at, frame) in frames {
            writer.write_frame(Duration::from_millis(at), &frame).unwrap();
        }
        writer.finish().unwrap();
        devices
            .receive(Some(device), ReceiveBinding::Capture(path(device)))
            .send(device, SendBinding::Capture(path(&format!("out-{device}"))));
    }
    let registry = scalebricks_elements::registry::<Packet>();
    let text = include_str!("../../../../examples/router/cluster-node.click");
    let router = Router::read("cluster-node.click", text.as_bytes(), &[], &registry);
    let router = router.unwrap_or_else(|errors| panic!("{errors}"));
    let mut graph = router.graph(&registry, &mut Ledger::new()).unwrap_or_else(|errors| panic!("{errors}"));
    router.open(&mut graph, &mut devices).unwrap();
    let mut worker = Worker::new(graph, Box::new(Pool::new(500, 2_048).unwrap()), ());
    assert_eq!(run(&mut worker, Clock::Captures, None, &AtomicBool::new(false)), End::Done);
    devices.finish().unwrap();
    // IPv4 frames only: hellos, questions and answers are counted below.
    let left = |device: &str| -> Vec<Vec<u8>> {
        let frames = CaptureReader::open(path(&format!("out-{device}"))).unwrap();
        frames.map(|frame| frame.unwrap().data).filter(|frame| frame[12..14] == [8, 0]).collect()
    };
    let restored = [&NEXT_HOP.octets()[..], &OWN.octets()].concat();
    let [own, from_link] = &left("eth0")[..] else { panic!("{:?}", left("eth0")) };
    assert_eq!((&own[..12], own[22]), (&restored[..], 63));
    assert_eq!((&from_link[..12], &from_link[12..]), (&restored[..], &marked(0)[12..]));
    let eth1 = left("eth1");
    assert_eq!((eth1.len(), &eth1[0][..6], eth1[0][22]), (1, &[2, 0x5b, 0x40, 1, 255, 255][..], 63));
    assert_eq!((left("eth2"), left("eth3").len()), (vec![marked(2)], 0));
    let mut count = |element: &str, counter: &str| worker.graph_mut().read(element, counter).unwrap();
    assert_eq!((count("hello", "up"), count("hello", "no_hello")), ("1 2 3".to_owned(), "1".to_owned()));
    assert_eq!((count("steer", "direct"), count("restore", "restored")), ("1".to_owned(), "2".to_owned()));
    assert_eq!(count("keeper", "table"), format!("1 0 10.0.0.99 {NEXT_HOP}\n2 0 2001:db8::99 ?"));
}

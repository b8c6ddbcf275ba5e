//! The example node, over captures.

use super::rig::frame;
use scalebricks_apps::click::Router;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_apps::click::run::{End, run};
use scalebricks_graph::{Clock, Ledger, Worker};
use scalebricks_io::{CaptureReader, CaptureWriter, Packet, Pool};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

#[test]
fn the_example_is_node_0_of_four() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(format!("{name}.pcap"));
    let marked = |node: u8| {
        let mut marked = frame(3, usize::from(node), 0);
        marked[..6].copy_from_slice(&[2, 0x5b, 0x40, node, 0, 1]);
        marked
    };
    let mut outside = Devices::new(Clock::Captures);
    // From its port: to node 1, to itself, ARP. From node 3: to this node, to node 2, not encoded.
    let port = [frame(0, 1, 0), frame(0, 0, 0), [&[0xff; 6][..], &[2; 6], &[8, 6], &[0; 46]].concat()];
    let link = [marked(0), marked(2), frame(3, 0, 0)];
    for (device, frames) in [("eth0", &port[..]), ("eth1", &[]), ("eth2", &[]), ("eth3", &link)] {
        let mut writer = CaptureWriter::create(path(device)).unwrap();
        for (frame, at) in frames.iter().zip(1..) {
            writer.write_frame(Duration::from_millis(at), frame).unwrap();
        }
        writer.finish().unwrap();
        outside
            .receive(Some(device), ReceiveBinding::Capture(path(device)))
            .send(device, SendBinding::Capture(path(&format!("out-{device}"))));
    }
    let registry = scalebricks_elements::registry::<Packet>();
    let text = include_str!("../../../../examples/router/cluster-node.click");
    let router = Router::read("cluster-node.click", text.as_bytes(), &[], &registry);
    let router = router.unwrap_or_else(|errors| panic!("{errors}"));
    let mut graph = router.graph(&registry, &mut Ledger::new()).unwrap_or_else(|errors| panic!("{errors}"));
    router.open(&mut graph, &mut outside).unwrap();
    let mut worker = Worker::new(graph, Box::new(Pool::new(500, 2_048).unwrap()), ());
    assert_eq!(run(&mut worker, Clock::Captures, None, &AtomicBool::new(false)), End::Done);
    outside.finish().unwrap();
    let left = |device: &str| -> Vec<Vec<u8>> {
        let frames = CaptureReader::open(path(&format!("out-{device}"))).unwrap();
        frames.map(|frame| frame.unwrap().data).collect()
    };
    let restored = [2, 0, 0, 0, 0, 0x99, 2, 0, 0, 0, 0, 0x10];
    let [own, from_link] = &left("eth0")[..] else { panic!("{:?}", left("eth0")) };
    let [own, from_link] = if own[22] == 63 { [own, from_link] } else { [from_link, own] };
    assert_eq!((&own[..12], own[22]), (&restored[..], 63));
    assert_eq!((&from_link[..12], &from_link[12..]), (&restored[..], &marked(0)[12..]));
    let eth1 = left("eth1");
    assert_eq!((eth1.len(), &eth1[0][..6], eth1[0][22]), (1, &[2, 0x5b, 0x40, 1, 0, 1][..], 63));
    assert_eq!((left("eth2"), left("eth3").len()), (vec![marked(2)], 0));
    let mut count = |element: &str, counter: &str| worker.graph_mut().read(element, counter).unwrap();
    assert_eq!(count("switch", "bad_fabric_mac"), "1");
    assert_eq!((count("steer", "direct"), count("restore", "restored")), ("1".to_owned(), "2".to_owned()));
}

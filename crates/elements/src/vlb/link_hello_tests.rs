use crate::fabric::steer::rig::frame;
use crate::rig::Rig;
use std::time::Duration;

/// Node `id` of three: `switch` behind its links, `hello` with an end per link, `steer` for frames from outside.
fn node(id: usize, args: &[&str]) -> Rig {
    let id = id.to_string();
    Rig::new(9, |builder| {
        let args = [&[id.as_str(), "3", "FOLLOWERS steer switch"], args].concat();
        builder.declare("hello", "LinkHello", &args).declare("switch", "MacSwitch", &[&id, "3"]);
        // The first byte of the source names the link by which a frame came; 9 is outside.
        let kinds = ["6/00", "6/01", "6/02", "-"];
        builder.declare("from", "Classifier", &kinds).declare("steer", "ClassicVLB", &[&id, "3"]);
        builder.chain(&["in", "from"]).connect("from", 3, "steer", 0).connect("switch", 3, "hello", 0);
        for at in 0..3 {
            let [end, moved, sent] = [at, 3 + at, 6 + at].map(|end| format!("out{end}"));
            builder.connect("from", at, "switch", at).connect("hello", at, &end, 0);
            builder.connect("switch", at, &moved, 0).connect("steer", at, &sent, 0);
        }
    })
}

/// The hellos that a node sent to another, as they arrive: the first byte of the source is the link.
fn arriving(from: usize, hellos: Vec<Vec<u8>>) -> impl Iterator<Item = Vec<u8>> {
    hellos.into_iter().map(move |mut frame| {
        frame[6] = from as u8;
        frame
    })
}

/// Lets time pass for nodes 0 and 1, whose link works.
fn run(nodes: &mut [Rig; 2], from_ms: u64, to_ms: u64) {
    for ms in (from_ms..to_ms).step_by(10) {
        for at in 0..2 {
            nodes[at].turn_at(Duration::from_millis(ms));
            let hellos = nodes[at].got(1 - at);
            nodes[1 - at].send(arriving(at, hellos));
        }
    }
}

#[test]
fn followers_use_the_links_that_work_and_no_others() {
    let mut nodes = [node(0, &[]), node(1, &[])];
    run(&mut nodes, 0, 100);
    let outside = |output| {
        let mut frame = frame(output);
        frame[6] = 9;
        frame
    };
    nodes[0].send([outside(1)]);
    nodes[0].turn_at(Duration::from_millis(100));
    assert_eq!(nodes[0].number("steer", "no_neighbour"), 1, "nothing has been heard");
    run(&mut nodes, 110, 700);
    assert_eq!([0, 1].map(|at| nodes[at].read("hello", "up")), ["1", "0"]);
    assert_eq!(nodes[0].read("hello", "links"), "0: 1\n1: 0");
    assert_eq!(
        (nodes[0].read("hello", "reachable"), nodes[0].read("steer", "down")),
        ("0 1".into(), "2".into())
    );
    nodes[0].send([outside(1), outside(2)]);
    nodes[0].turn_at(Duration::from_millis(700));
    assert_eq!((nodes[0].got(7).len(), nodes[0].got(8).len()), (1, 0));
    let sent = nodes[0].number("hello", "hellos_sent");
    assert!((14..=16).contains(&sent), "{sent} hellos in 0.7 s over two links");
    // Silence.
    (710..1_100).step_by(10).for_each(|ms| {
        nodes[0].turn_at(Duration::from_millis(ms));
    });
    assert_eq!((nodes[0].read("hello", "up"), nodes[0].number("hello", "links_up")), (String::new(), 0));
    // What control marks as down stays down.
    nodes[0].write("steer", "down", "1").unwrap();
    run(&mut nodes, 1_110, 2_000);
    assert_eq!((nodes[0].read("hello", "up"), nodes[0].read("steer", "down")), ("1".into(), "1 2".into()));
}

#[test]
fn frames_that_are_no_hellos_are_dropped_by_name() {
    let mut node = node(0, &["INTERVAL 50ms", "MISSED 2"]);
    node.turn_at(Duration::ZERO);
    let own = node.got(1).remove(0);
    let from = |link: u8, mut frame: Vec<u8>| {
        frame[6] = link;
        frame
    };
    let mut unknown = frame(3);
    unknown[6] = 1;
    // Its own hello returns, one is damaged, a frame has no encoded address, and one has that of no node.
    let mut damaged = own.clone();
    damaged[40] ^= 1;
    node.send([from(1, own), from(1, damaged), from(2, vec![3; 60]), unknown]);
    node.turn_at(Duration::from_millis(1));
    let counts = ["no_hello", "wrong_link", "hellos_received"].map(|name| node.number("hello", name));
    assert_eq!((counts, node.number("switch", "bad_fabric_mac")), ([2, 1, 0], 1));
    for wrong in [&["INTERVAL 0ms"][..], &["MISSED 0"]] {
        let built = Rig::with_buffers(5, 1, |builder| {
            let args = [&["0", "2"], wrong].concat();
            builder
                .declare("hello", "LinkHello", &args)
                .chain(&["in", "hello"])
                .connect("hello", 0, "out0", 0);
        });
        assert!(built.is_err(), "{wrong:?}");
    }
}

#[test]
fn a_follower_that_does_not_exist_is_a_fault() {
    let mut rig = Rig::new(1, |builder| {
        builder.declare("hello", "LinkHello", &["0", "2", "FOLLOWERS none"]).chain(&["in", "hello"]);
        builder.connect("hello", 0, "out0", 0);
    });
    rig.turn();
    let faults: Vec<_> = rig.worker.graph().faults().map(|(_, why)| why).collect();
    assert_eq!(faults, ["none is no element that uses the links of a node"]);
}

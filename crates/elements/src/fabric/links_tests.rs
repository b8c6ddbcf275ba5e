use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const SECRET: HashSeed = HashSeed::new(1, 2);

fn node(number: u8) -> NodeId {
    NodeId::new(number)
}

fn set(numbers: &[u8]) -> NodeSet {
    numbers.iter().copied().map(node).collect()
}

/// Node 0 of four.
fn watch() -> (Arc<Links>, LinkWatch) {
    let size = ClusterSize::new(4).unwrap();
    let links = Arc::new(Links::new(node(0), size, SECRET, HelloTimes::default()).unwrap());
    (Arc::clone(&links), LinkWatch::new(links))
}

fn hello(from: u8, ms: u64, hears: &[u8], reaches: &[u8]) -> Probe {
    let (_, watch) = watch();
    Probe {
        from: node(from),
        to: node(0),
        hears: set(hears),
        reaches: set(reaches),
        ..watch.hello(node(0), at(ms))
    }
}

const fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn frame(hello: &Probe) -> Vec<u8> {
    ProbeKey::new(SECRET).frame(hello, MacAddr([2; 6])).to_vec()
}

#[test]
fn a_link_is_up_when_both_ends_hear_each_other_and_down_after_three_missed_hellos() {
    let (links, mut watch) = watch();
    let hears: &[u8] = &[0];
    for (ms, from, hears) in
        [(0, 1, hears), (0, 2, &[]), (100, 1, hears), (100, 2, &[]), (200, 1, hears), (200, 2, &[])]
    {
        assert!(ms == 200 || links.map().up().is_empty(), "fewer than three hellos");
        links.receive(&frame(&hello(from, ms, hears, &[3])), node(from), at(ms)).unwrap();
        let _ = watch.refresh(at(ms));
    }
    let map = links.map();
    assert_eq!((map.up(), watch.hears(at(200))), (set(&[1]), set(&[1, 2])), "node 2 does not hear this one");
    assert_eq!((map.row(node(1)), map.row(node(2))), (set(&[3]), NodeSet::EMPTY));
    assert_eq!((links.reachable(), map.cut_to(node(3))), (set(&[0, 1, 3]), NodeSet::EMPTY));
    assert_eq!(map.cut_to(node(2)), set(&[1]), "node 1 does not reach node 2");
    let before = links.changes();
    (250..550).step_by(50).for_each(|ms| assert!(!watch.refresh(at(ms)).has_changed, "{ms}"));
    assert!(watch.refresh(at(550)).has_changed);
    assert_eq!(
        (links.map().up(), links.reachable(), links.changes()),
        (NodeSet::EMPTY, set(&[0]), before + 1)
    );
}

#[test]
fn a_neighbour_that_hears_this_node_no_more_takes_the_link_down_at_once() {
    let (links, mut watch) = watch();
    for ms in [0, 100, 200] {
        links.receive(&frame(&hello(1, ms, &[0], &[0, 2])), node(1), at(ms)).unwrap();
    }
    assert!(watch.refresh(at(200)).has_changed && links.map().is_up(node(1)));
    links.receive(&frame(&hello(1, 300, &[], &[2])), node(1), at(300)).unwrap();
    assert!(watch.refresh(at(300)).has_changed && !links.map().is_up(node(1)));
    assert_eq!(watch.hello(node(1), at(300)).hears, set(&[1]), "it is heard still");
    links.receive(&frame(&hello(1, 400, &[0], &[2])), node(1), at(400)).unwrap();
    assert!(watch.refresh(at(400)).has_changed && links.map().is_up(node(1)));
}

#[test]
fn hellos_that_are_forged_replayed_or_of_another_link_do_not_count() {
    let (links, mut watch) = watch();
    let good = hello(1, 100, &[0], &[]);
    let receive = |frame: &[u8], from| links.receive(frame, node(from), at(100));
    assert_eq!(receive(&frame(&good), 2), Err(HelloFault::WrongLink));
    assert_eq!(receive(&frame(&Probe { to: node(3), ..good }), 1), Err(HelloFault::WrongLink));
    assert_eq!(
        receive(&frame(&Probe { from: node(9), ..good }), 9),
        Err(HelloFault::WrongLink),
        "no such node"
    );
    assert_eq!(receive(&frame(&Probe { from: node(0), ..good }), 0), Err(HelloFault::WrongLink));
    assert_eq!(receive(&frame(&Probe { kind: Kind::Echo, ..good }), 1), Err(HelloFault::NoHello));
    let other = ProbeKey::new(HashSeed::new(7, 7)).frame(&good, MacAddr([2; 6]));
    let whole = frame(&good);
    for wrong in [&other[..], &whole[..FRAME_BYTES - 1], &[], &whole[..14]] {
        assert_eq!(receive(wrong, 1), Err(HelloFault::NoHello));
    }
    for ms in [100, 200, 200, 150] {
        links.receive(&frame(&hello(1, ms, &[0], &[])), node(1), at(200)).unwrap();
    }
    assert_eq!(watch.refresh(at(200)), Refreshed { replayed: 2, has_changed: false });
    // After a restart its stamps begin anew. They count when the link was silent.
    (250..700).step_by(50).for_each(|ms| assert!(!watch.refresh(at(ms)).has_changed));
    for ms in [700, 800, 900] {
        links.receive(&frame(&hello(1, ms - 690, &[0], &[])), node(1), at(ms)).unwrap();
        let refreshed = watch.refresh(at(ms));
        assert_eq!((refreshed.replayed, refreshed.has_changed), (0, ms == 900));
    }
}

#[test]
fn a_pause_of_this_node_is_no_silence_of_the_others() {
    let (links, mut watch) = watch();
    for ms in [0, 100, 200] {
        links.receive(&frame(&hello(1, ms, &[0], &[])), node(1), at(ms)).unwrap();
        let _ = watch.refresh(at(ms));
    }
    assert!(!watch.refresh(at(5_000)).has_changed && links.map().is_up(node(1)));
    (5_050..5_350).step_by(50).for_each(|ms| assert!(!watch.refresh(at(ms)).has_changed, "{ms}"));
    assert!(watch.refresh(at(5_350)).has_changed);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any set of working links, each in one direction: after some rounds of hellos, every node's map is that of the
    /// links that work in both directions, as far as its neighbours report.
    #[test]
    fn all_nodes_find_the_links_that_work_in_both_directions(
        size in 2..7u8, cuts in prop::collection::vec((any::<u8>(), any::<u8>()), 0..14),
    ) {
        let count = ClusterSize::new(usize::from(size)).unwrap();
        let cuts: BTreeSet<(u8, u8)> = cuts.into_iter().map(|(a, b)| (a % size, b % size)).collect();
        let all: Vec<Arc<Links>> = count.nodes()
            .map(|id| Arc::new(Links::new(id, count, SECRET, HelloTimes::default()).unwrap())).collect();
        let mut watches: Vec<LinkWatch> = all.iter().map(|links| LinkWatch::new(Arc::clone(links))).collect();
        for ms in (0..1_500).step_by(100) {
            for from in 0..size {
                let _ = watches[usize::from(from)].refresh(at(ms));
                for to in (0..size).filter(|&to| to != from && !cuts.contains(&(from, to))) {
                    let hello = watches[usize::from(from)].hello(node(to), at(ms));
                    all[usize::from(to)].receive(&frame(&hello), node(from), at(ms)).unwrap();
                }
            }
        }
        for watch in &mut watches {
            let _ = watch.refresh(at(1_450));
        }
        let works = |a: u8, b: u8| a != b && !cuts.contains(&(a, b)) && !cuts.contains(&(b, a));
        for (me, links) in (0..size).zip(&all) {
            let map = links.map();
            let up: NodeSet = (0..size).filter(|&other| works(me, other)).map(node).collect();
            prop_assert_eq!(map.up(), up);
            for (over, to) in (0..size).flat_map(|a| (0..size).map(move |b| (a, b))).filter(|(a, b)| a != b) {
                let is_cut = map.cut_to(node(to)).contains(node(over));
                prop_assert_eq!(is_cut, works(me, over) && !works(over, to), "{} over {} to {}", me, over, to);
            }
            let reaches = |to: u8| {
                to == me || works(me, to) || (0..size).any(|over| works(me, over) && works(over, to))
            };
            let reachable: NodeSet = (0..size).filter(|&to| reaches(to)).map(node).collect();
            prop_assert_eq!(links.reachable(), reachable);
        }
    }
}

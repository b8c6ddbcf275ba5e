//! Hellos: every node knows which links work, and packets take them.

use super::node_rig::{Cluster, frame, frame6, host, host6, nodes, udp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use scalebricks_apps::router::cluster::Steering;
use scalebricks_types::NodeId;
use std::collections::BTreeSet;

const SIZE: usize = 5;

/// Flows from each node to each other.
const FLOWS: u16 = 12;

/// Seeds of sets of cut links; those that failed once are kept here.
const SEEDS: [u64; 6] = [1, 2, 3, 4, 5, 6];

/// Links that are cut, in one direction each.
type Cuts = BTreeSet<(usize, usize)>;

fn works(cuts: &Cuts, a: usize, b: usize) -> bool {
    a != b && !cuts.contains(&(a, b)) && !cuts.contains(&(b, a))
}

fn has_path(cuts: &Cuts, from: usize, to: usize) -> bool {
    works(cuts, from, to) || (0..SIZE).any(|over| works(cuts, from, over) && works(cuts, over, to))
}

fn random_cuts(seed: u64) -> Cuts {
    let mut random = StdRng::seed_from_u64(seed);
    let count = random.random_range(1..=14);
    let link = |_| (random.random_range(0..SIZE), random.random_range(0..SIZE));
    (0..count).map(link).filter(|(a, b)| a != b).collect()
}

/// Sends flows of both families from every node to every other; the number of packets that arrived, by pair.
fn exchange(cluster: &mut Cluster) -> Vec<Vec<usize>> {
    let mut arrived = vec![vec![0; SIZE]; SIZE];
    for flow in 0..FLOWS {
        for (from, to) in
            (0..SIZE).flat_map(|from| (0..SIZE).map(move |to| (from, to))).filter(|(a, b)| a != b)
        {
            cluster.send(from, &frame(from, host(to, 7), |_| {}, &udp(flow)));
            cluster.send(from, &frame6(from, host6(to, 7), |_| {}, &udp(flow)));
        }
        cluster.run(5);
    }
    cluster.run(50);
    let all = (0..SIZE)
        .flat_map(|to| cluster.take(to).into_iter().map(move |frame| (frame, to)).collect::<Vec<_>>());
    for (frame, to) in all {
        // The source: 10.n.0.9, or 2001:db8:n::9. Both have n at this place.
        arrived[usize::from(frame[27])][to] += 1;
    }
    arrived
}

/// After any set of cut links, every pair with a path over one other node at most communicates, no frame loops, and none is
/// sent into a link that is known to be dead.
#[test]
fn packets_go_round_any_set_of_cut_links() {
    for (steering, seed) in Steering::ALL.into_iter().cycle().zip(SEEDS) {
        let mut cluster = Cluster::ready(nodes(SIZE, steering, seed));
        let cuts = random_cuts(seed);
        let what = format!("{}, seed {seed}, {cuts:?}", steering.name());
        for &(from, to) in &cuts {
            cluster.inner.cut(from, to, true);
        }
        // While nobody knows: packets may be lost, and none loops.
        let _lossy = exchange(&mut cluster);
        cluster.run(1_000);
        assert!(cluster.most_hops <= 3, "{what}: {} links", cluster.most_hops);
        (cluster.lost, cluster.most_hops) = (0, 0);
        let before = cluster.counter("no_neighbour");
        let arrived = exchange(&mut cluster);
        let mut unreachable = 0;
        for (from, to) in
            (0..SIZE).flat_map(|from| (0..SIZE).map(move |to| (from, to))).filter(|(a, b)| a != b)
        {
            let is_there = has_path(&cuts, from, to);
            let expected = if is_there { 2 * usize::from(FLOWS) } else { 0 };
            unreachable += 2 * usize::from(FLOWS) - expected;
            assert_eq!(arrived[from][to], expected, "{what}: from {from} to {to}");
            assert_eq!(cluster.links(from).reachable().contains(NodeId::new(to as u8)), is_there, "{what}");
        }
        assert_eq!((cluster.lost, cluster.most_hops <= 2), (0, true), "{what}: {} links", cluster.most_hops);
        assert_eq!(cluster.counter("no_neighbour") - before, unreachable as u64, "{what}");
        // All links return.
        for &(from, to) in &cuts {
            cluster.inner.cut(from, to, false);
        }
        cluster.run(1_000);
        let arrived = exchange(&mut cluster);
        let all = (0..SIZE)
            .all(|from| (0..SIZE).all(|to| from == to || arrived[from][to] == 2 * usize::from(FLOWS)));
        assert!(all, "{what}: {arrived:?}");
    }
}

/// A cut link is noticed after three missed hellos, and the node at the other end of a link that fails in one direction
/// with its next hello.
#[test]
fn a_cut_link_is_down_within_half_a_second_at_all_nodes() {
    let mut cluster = Cluster::ready(nodes(3, Steering::Direct, 1));
    cluster.inner.cut(0, 1, true);
    cluster.run(200);
    assert!(cluster.links(1).map().is_up(NodeId::new(0)), "two hellos are missed at most");
    cluster.run(300);
    for (node, other) in [(0, 1), (1, 0)] {
        assert!(!cluster.links(node).map().is_up(NodeId::new(other)), "{node}");
    }
    cluster.run(100);
    let map = cluster.links(2).map();
    assert!(
        !map.row(NodeId::new(0)).contains(NodeId::new(1))
            && !map.row(NodeId::new(1)).contains(NodeId::new(0))
    );
}

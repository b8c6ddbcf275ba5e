//! Nodes on real links: next hops, errors, pings.

use super::node_rig::{Cluster, frame, frame6, gateway, gateway6, host, host_mac, host6, nodes, port_mac, udp};
use scalebricks_apps::router::cluster::Steering;
use scalebricks_wire::ethernet;

#[test]
fn packets_reach_hosts_on_the_networks_of_other_nodes() {
    let mut cluster = Cluster::ready(nodes(3, Steering::Flowlets, 1));
    cluster.send(0, &frame(0, host(2, 7), |_| {}, &udp(1)));
    cluster.send(0, &frame6(0, host6(2, 7), |_| {}, &udp(1)));
    cluster.run(20);
    let got = cluster.take(2);
    assert_eq!(got.len(), 2, "{:?}", cluster.asked);
    for frame in &got {
        assert_eq!(ethernet::addresses(frame), Some((host_mac(2, 7), port_mac(2))));
    }
    assert_eq!((got[0][22], got[1][21]), (63, 63), "TTL and hop limit");
    assert_eq!(cluster.asked.values().sum::<usize>(), 2);
    // A host on the node's own network, and the node itself.
    cluster.send(1, &frame(1, host(1, 8), |_| {}, &udp(1)));
    cluster.run(5);
    assert_eq!(cluster.take(1).len(), 1);
    let _ = (gateway(0), gateway6(0));
}

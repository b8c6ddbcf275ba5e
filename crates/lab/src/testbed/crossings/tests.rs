//! Hand-made captures, correct and wrong.

use super::*;
use crate::testbed::plan::HOST_V4;
use scalebricks_wire::MacAddr;

fn plan(architecture: Architecture) -> Plan {
    Plan { ues_per_node: 1, architecture, ..Plan::sample() }
}

const HOST: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 1]);

/// An upstream packet of UE 2, handled at node 2, that enters at node 0 and goes over these nodes.
fn upstream(way: &[u8]) -> Vec<Seen> {
    let plan = plan(Architecture::ScaleBricks);
    let ue = plan.ues().nth(2).unwrap();
    let node = NodeId::new;
    let inner = Some((ue.address(Family::V4), IpAddr::V4(HOST_V4)));
    let outer = Some((IpAddr::V4(STATION), IpAddr::V4(GATEWAY)));
    let gtpu = Some(Gtpu { message: 255, teid: ue.uplink_teid(Family::V4), qfi: Some(9) });
    let base = Seen {
        number: 1,
        link: NodePort::Ran,
        node: node(way[0]),
        src: HOST,
        dst: Plan::mac(node(way[0]), NodePort::Ran),
        outer,
        inner,
        gtpu,
        problem: None,
        right: 1,
    };
    let mut frames = vec![base.clone()];
    for pair in way.windows(2) {
        let src = FabricMac::handling(node(pair[0]), OutputPort::Internet).encode();
        let dst = FabricMac::handling(node(pair[1]), OutputPort::Internet).encode();
        for end in pair {
            frames.push(Seen { link: NodePort::Fabric, node: node(*end), src, dst, ..base.clone() });
        }
    }
    let last = node(*way.last().unwrap());
    let src = Plan::mac(last, NodePort::Internet);
    frames.push(Seen {
        link: NodePort::Internet,
        node: last,
        src,
        dst: HOST,
        outer: inner,
        gtpu: None,
        ..base
    });
    frames
}

fn wrong(frames: &[Seen], architecture: Architecture) -> String {
    judge(frames, &plan(architecture)).wrong.1.join("; ")
}

#[test]
fn packets_cross_once_or_not_at_all_if_they_enter_at_their_handling_node() {
    for architecture in [Architecture::ScaleBricks, Architecture::FullDuplication] {
        assert_eq!(wrong(&upstream(&[0, 2]), architecture), "");
        assert_eq!(wrong(&upstream(&[2]), architecture), "");
        assert!(wrong(&upstream(&[0, 1, 2]), architecture).contains("crossed the fabric"));
    }
    let findings = judge(&upstream(&[0, 2]), &plan(Architecture::ScaleBricks));
    assert_eq!((findings.entered, findings.crossed), (1, 1));
}

#[test]
fn detours_cross_at_most_twice() {
    for architecture in [Architecture::HashPartition, Architecture::Vlb] {
        assert_eq!(wrong(&upstream(&[0, 1, 2]), architecture), "");
        assert!(wrong(&upstream(&[0, 1, 3, 2]), architecture).contains("crossed the fabric"));
    }
}

#[test]
fn packets_that_leave_at_another_node_or_not_at_all_are_found() {
    assert!(wrong(&upstream(&[0, 1]), Architecture::ScaleBricks).contains("left 1 at node 1"));
    let mut lost = upstream(&[0, 2]);
    lost.pop();
    assert!(wrong(&lost, Architecture::ScaleBricks).contains("left nowhere"));
    assert!(wrong(&[], Architecture::ScaleBricks).contains("no packet"));
}

#[test]
fn probes_are_not_phones_packets_and_must_not_be_flooded() {
    let mut frames = upstream(&[0, 2]);
    let probe = Seen {
        dst: FabricMac::probe(NodeId::new(1)).encode(),
        inner: None,
        outer: None,
        gtpu: None,
        ..frames[1].clone()
    };
    frames.extend([0, 1].map(|node| Seen { node: NodeId::new(node), ..probe.clone() }));
    assert_eq!(wrong(&frames, Architecture::ScaleBricks), "");
    frames.push(Seen { node: NodeId::new(3), ..probe });
    assert!(wrong(&frames, Architecture::ScaleBricks).contains("flooded"));
}

#[test]
fn wrong_frames_are_found() {
    let change = |which: usize, change: fn(&mut Seen)| {
        let mut frames = upstream(&[0, 2]);
        change(&mut frames[which]);
        wrong(&frames, Architecture::ScaleBricks)
    };
    let teid = |frame: &mut Seen| frame.gtpu = Some(Gtpu { message: 255, teid: 5, qfi: None });
    assert!(change(0, teid).contains("in place of"));
    assert!(change(0, |frame| frame.outer = frame.inner).contains("outer addresses"));
    assert!(change(2, |frame| frame.node = NodeId::new(3)).contains("flooded"));
    assert!(change(2, |frame| frame.dst = HOST).contains("no fabric address"));
    assert!(change(2, |frame| frame.inner = None).contains("a packet of no phone"));
    assert!(change(0, |frame| frame.problem = Some("malformed".to_owned())).contains("malformed"));
    let unverified: Vec<Seen> =
        upstream(&[0, 2]).into_iter().map(|frame| Seen { right: 0, ..frame }).collect();
    assert!(wrong(&unverified, Architecture::ScaleBricks).contains("verified in 0 frames only"));
}

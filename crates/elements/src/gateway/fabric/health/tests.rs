//! State shared between workers and the refreshing thread.

use super::*;
use std::sync::Arc;

const NODES: usize = 3;
const SECRET: HashSeed = HashSeed::new(3, 4);
const SOURCE: MacAddr = MacAddr([2; 6]);
const START: Duration = Duration::from_secs(5);

fn health(node: u8) -> FabricHealth {
    FabricHealth::new(NodeId::new(node), ClusterSize::new(NODES).unwrap(), SECRET, Some(PROBE_EVERY))
}

fn set(nodes: &[u8]) -> NodeSet {
    nodes.iter().copied().map(NodeId::new).collect()
}

/// `from` sends a probe at this time, `to` echoes it at once.
fn exchange(from: &FabricHealth, to: &FabricHealth, now: Duration) {
    let probe = to.open(&from.probe_for(to.me, SOURCE, now)).unwrap();
    to.receive(probe, now);
    let echo = from.open(&to.echo_of(&probe, SOURCE, now)).unwrap();
    assert_eq!(echo.kind, Kind::Echo);
    from.receive(echo, now);
}

#[test]
fn a_probe_says_who_is_heard_and_grants_the_lease() {
    let [a, b] = [0, 1].map(health);
    let members = [(NodeId::new(0), 11), (NodeId::new(1), 12)];
    a.set_identity(11, 6, members);
    b.set_identity(12, 6, members);
    let mut now = START;
    let mut granted = Vec::new();
    for _ in 0..3 {
        a.refresh(now);
        b.refresh(now);
        exchange(&a, &b, now);
        exchange(&b, &a, now);
        granted = a.grants_to_me(now);
        now += Duration::from_millis(20);
    }
    let last = now.saturating_sub(Duration::from_millis(20));
    assert_eq!(granted, [(NodeId::new(1), last)]);
    assert_eq!((a.hears(now), a.reaches(now), b.reaches(now)), (set(&[1]), set(&[1]), set(&[0])));
    let view = a.view(now);
    assert_eq!(
        view.iter().map(|peer| (peer.is_heard, peer.is_reached)).collect::<Vec<_>>(),
        [(true, true), (false, false)]
    );
    assert_eq!(view[0].round_trip, Some(Duration::ZERO));
    // A new life: grants to the earlier one do not count.
    a.set_identity(13, 7, members);
    assert_eq!(a.grants_to_me(now), []);
    exchange(&b, &a, now);
    assert_eq!(a.grants_to_me(now), [], "granted in the life that was heard last");
}

#[test]
fn workers_report_and_grant_nothing_once_refreshing_has_stopped() {
    let [a, b] = [0, 1].map(health);
    let members = [(NodeId::new(0), 1), (NodeId::new(1), 1)];
    a.set_identity(1, 1, members);
    b.set_identity(1, 1, members);
    for ms in 0..3 {
        let now = START + Duration::from_millis(20 * ms);
        a.refresh(now);
        b.refresh(now);
        exchange(&a, &b, now);
    }
    let until = START + Duration::from_millis(40) + HEARING;
    let said = |now| b.open(&a.probe_for(NodeId::new(1), SOURCE, now)).unwrap();
    assert_eq!(
        (said(until).hears, said(until).reaches, said(until).grants),
        (set(&[1]), set(&[1]), set(&[1]))
    );
    let later = said(until + Duration::from_millis(1));
    assert_eq!((later.hears, later.reaches, later.grants), Default::default());
    assert_eq!((later.life, later.epoch), (1, 1));
}

#[test]
fn frames_of_others_and_for_others_are_no_probes() {
    let [a, b, c] = [0, 1, 2].map(health);
    let frame = a.probe_for(NodeId::new(1), SOURCE, START);
    assert!(b.open(&frame).is_some() && b.open(&frame[..FRAME_BYTES - 1]).is_none());
    assert!(c.open(&frame).is_none(), "for another node");
    assert!(a.open(&b.probe_for(NodeId::new(1), SOURCE, START)).is_none(), "to itself");
    let outsider = FabricHealth::new(NodeId::new(9), ClusterSize::new(10).unwrap(), SECRET, None);
    assert!(
        a.open(&outsider.probe_for(NodeId::new(0), SOURCE, START)).is_none(),
        "of no node of the cluster"
    );
    let stranger =
        FabricHealth::new(NodeId::new(1), ClusterSize::new(NODES).unwrap(), HashSeed::new(4, 3), None);
    assert!(a.open(&stranger.probe_for(NodeId::new(0), SOURCE, START)).is_none(), "under another secret");
}

#[test]
fn what_nobody_takes_in_is_bounded_and_the_newest_stays() {
    let [a, b] = [0, 1].map(health);
    let probe = b.open(&a.probe_for(NodeId::new(1), SOURCE, START)).unwrap();
    let room = (WAITING * NODES) as u64;
    for stamp in 0..room + 10 {
        b.receive(Probe { stamp, life: stamp, ..probe }, START);
    }
    assert_eq!(b.overrun(), 10);
    b.refresh(START);
    let said = a.open(&b.probe_for(NodeId::new(0), SOURCE, START)).unwrap();
    assert_eq!((said.answers, said.answers_life), (room + 9, room + 9));
}

/// Workers send and receive while other threads refresh and read: nothing is lost while there is room, and workers
/// always report a whole snapshot.
#[test]
fn workers_never_see_half_a_refresh() {
    let (a, b) = (health(0), Arc::new(health(1)));
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let b = Arc::clone(&b);
            let probe = b.open(&a.probe_for(NodeId::new(1), SOURCE, START)).unwrap();
            let reader = health(0);
            std::thread::spawn(move || {
                for _ in 0..3_000 {
                    b.receive(probe, START);
                    let said = reader.open(&b.probe_for(NodeId::new(0), SOURCE, START)).unwrap();
                    assert!(said.life == said.epoch && said.hears.len() <= 1 && said.reaches.is_empty());
                    assert_eq!(said.answers != 0, said.hears.contains(NodeId::new(0)));
                }
            })
        })
        .collect();
    for number in 1.. {
        b.set_identity(number, number, [(NodeId::new(0), 1)]);
        b.refresh(START);
        assert!(b.grants_to_me(START).is_empty());
        if workers.iter().all(std::thread::JoinHandle::is_finished) {
            break;
        }
    }
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(b.hears(START), set(&[0]));
}

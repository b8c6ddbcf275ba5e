//! Behaviour between peers.

use super::*;

#[tokio::test]
async fn four_nodes_hear_each_other_and_messages_come_in_order() {
    let nodes: Vec<NodeId> = (1..=4).map(NodeId::new).collect();
    let addresses = addresses(&nodes);
    let mut running: Vec<Node> = nodes.iter().map(|node| Node::start(config(*node, &addresses))).collect();
    for node in &mut running {
        for _ in 1..nodes.len() {
            node.find(|event| matches!(event, Event::Connected { .. }).then_some(())).await;
        }
    }
    for node in &running {
        for number in 0..500_u32 {
            for peer in node.mesh.shared.peers.keys() {
                node.mesh.send(*peer, number.to_le_bytes().to_vec()).unwrap();
            }
        }
    }
    for node in &mut running {
        let mut next: BTreeMap<NodeId, u32> = BTreeMap::new();
        for _ in 0..500 * (nodes.len() - 1) {
            let (from, payload) = node.message().await;
            let expected = next.entry(from).or_default();
            assert_eq!(payload, expected.to_le_bytes());
            *expected += 1;
        }
        assert_eq!(next.len(), nodes.len() - 1);
    }
    for sender in 0..running.len() {
        let mut rest = running.split_off(sender);
        let (node, others) = rest.split_first_mut().unwrap();
        for other in running.iter_mut().chain(others) {
            beat_until(node, other, &[sender as u8; BEAT_BYTES]).await;
        }
        running.append(&mut rest);
    }
}

#[tokio::test]
async fn a_node_that_starts_again_is_heard_at_once_and_connected() {
    let (mut a, mut b, addresses) = pair(MeshLimits::default()).await;
    beat_until(&a, &mut b, b"one").await;
    for life in 0..3_u8 {
        b.mesh.close().await;
        a.find(|event| (event == Event::Disconnected { peer: B }).then_some(())).await;
        b = Node::start(config(B, &addresses));
        // Proven by greetings alone, before its first beat.
        until("proven", || a.count(B, PeerCount::GreetingsSent) > u64::from(life)).await;
        beat_until(&b, &mut a, &[life]).await;
        beat_until(&a, &mut b, &[life]).await;
        until("connected", || a.mesh.stats().peers[&B].is_connected).await;
        a.mesh.send(B, vec![life]).unwrap();
        assert_eq!(b.message().await, (A, vec![life]));
    }
    assert_eq!(a.count(B, PeerCount::Connected), 4);
}

#[tokio::test]
async fn the_newest_heartbeat_is_reported() {
    let (a, mut b, _) = pair(MeshLimits::default()).await;
    beat_until(&a, &mut b, b"first").await;
    for number in 0..50_u8 {
        a.mesh.beat(&[number]).unwrap();
    }
    until("some were replaced", || b.count(A, PeerCount::BeatsReplaced) > 0).await;
    b.find(|event| matches!(event, Event::Beat { payload, .. } if payload == [49]).then_some(())).await;
    assert_eq!(a.mesh.beat(&[0; BEAT_BYTES + 1]), Err(SendError::Length(BEAT_BYTES + 1)));
}

#[tokio::test]
async fn big_messages_come_whole_and_among_small_ones() {
    let (a, mut b, _) = pair(MeshLimits::default()).await;
    let most = MeshLimits::default().message_bytes;
    let big: Vec<u8> = (0..most).map(|at| ((at * 31) >> 4) as u8).collect();
    for _ in 0..3 {
        a.mesh.send(B, vec![1]).unwrap();
        a.mesh.send(B, big.clone()).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(b.message().await, (A, vec![1]));
        assert!(b.message().await.1 == big);
    }
    assert_eq!(a.mesh.send(B, vec![0; most + 1]), Err(SendError::Length(most + 1)));
    assert_eq!(a.mesh.send(B, vec![]), Err(SendError::Length(0)));
    assert_eq!(a.mesh.send(A, vec![1]), Err(SendError::NoPeer(A)));
}

#[tokio::test]
async fn a_slow_peer_fills_only_its_own_queue() {
    let addresses = addresses(&[A, B, C]);
    // B takes none of its events.
    let limits = tight();
    let mut a = Node::start(MeshConfig { limits, ..config(A, &addresses) });
    let b = Node::start(MeshConfig { limits, ..config(B, &addresses) });
    let mut c = Node::start(MeshConfig { limits, ..config(C, &addresses) });
    a.connected(B).await;
    until("connected", || a.mesh.stats().peers.values().all(|peer| peer.is_connected)).await;
    let start = Instant::now();
    while a.count(B, PeerCount::DroppedFull) < 100 {
        let _ = a.mesh.send(B, vec![7; limits.message_bytes]);
        tokio::task::yield_now().await;
        assert!(start.elapsed() < PATIENCE, "the queue does not fill");
    }
    for number in 0..100_u8 {
        a.mesh.send(C, vec![number]).unwrap();
        assert_eq!(c.message().await, (A, vec![number]));
    }
    assert!(a.mesh.stats().peers[&B].waiting <= limits.queue_messages);
    assert_eq!(a.count(C, PeerCount::DroppedFull), 0);
    // Heartbeats overtake waiting messages.
    let before = b.count(A, PeerCount::BeatsReceived);
    a.mesh.beat(b"still here").unwrap();
    until("the beat came", || b.count(A, PeerCount::BeatsReceived) > before).await;
}

#[tokio::test]
async fn messages_to_an_absent_node_are_dropped_and_counted() {
    let addresses = addresses(&[A, B]);
    let a = Node::start(MeshConfig { limits: tight(), ..config(A, &addresses) });
    let start = Instant::now();
    while a.count(B, PeerCount::DroppedUnconnected) < 3 {
        let _ = a.mesh.send(B, vec![1]);
        sleep(Duration::from_millis(5)).await;
        assert!(start.elapsed() < PATIENCE);
    }
    assert!(a.count(B, PeerCount::ConnectFailed) > 0);
    assert!(!a.mesh.stats().peers[&B].is_connected);
}

#[tokio::test]
async fn a_quiet_connection_lives_on() {
    // Both ends share a thread, which a busy machine may stop for a while.
    let limits = MeshLimits { silence: Duration::from_secs(2), ..tight() };
    let (a, mut b, _) = pair(limits).await;
    sleep(limits.silence * 3 / 2).await;
    a.mesh.send(B, vec![1]).unwrap();
    assert_eq!(b.message().await, (A, vec![1]));
    assert_eq!((a.count(B, PeerCount::Connected), b.count(A, PeerCount::Silent)), (1, 0));
}

#[tokio::test]
async fn nothing_is_left_of_a_mesh_that_was_closed_or_dropped() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let (a, b, addresses) = pair(MeshLimits::default()).await;
    let stranger = TcpStream::connect(addresses[&A]).await.unwrap();
    assert!(tasks() > before);
    let mut events = a.events;
    a.mesh.close().await;
    assert_eq!(timeout(PATIENCE, events.next()).await.unwrap(), None);
    drop(b);
    until("no task is left", || tasks() == before).await;
    drop(stranger);
    listen(addresses[&A]).unwrap();
    listen(addresses[&B]).unwrap();
}

#[test]
fn a_mesh_needs_a_runtime_and_its_address() {
    let addresses = addresses(&[A, B]);
    assert!(matches!(Mesh::start(config(A, &addresses)), Err(MeshError::NoRuntime)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let _taken = TcpListener::bind(addresses[&A]).unwrap();
        assert!(matches!(Mesh::start(config(A, &addresses)), Err(MeshError::Listen { .. })));
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (mesh, _events) = Mesh::start(MeshConfig { listen: any, ..config(B, &addresses) }).unwrap();
        assert_ne!(mesh.address().port(), 0);
    });
}

//! Attacks by strangers and by parties between two nodes.

use super::datagram::{Head, Kind, NO_TICKET};
use super::*;
use std::collections::VecDeque;
use std::io::ErrorKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn another_key_or_cluster_is_refused_and_counted() {
    let other_key = ClusterKey::new(&[43; 32]).unwrap();
    for (cluster, key) in [("test", other_key), ("other", key())] {
        let addresses = addresses(&[A, B]);
        let a = Node::start(config(A, &addresses));
        let b = Node::start(MeshConfig { cluster: cluster.to_owned(), key, ..config(B, &addresses) });
        for (here, peer) in [(&a, B), (&b, A)] {
            until("refused", || {
                here.mesh.beat(b"hello").unwrap();
                here.count(peer, PeerCount::ConnectWrongKey) > 0
                    && here.strangers(StrangerCount::DatagramWrongKey) > 0
            })
            .await;
            assert_eq!(here.count(peer, PeerCount::BeatsReceived), 0);
            assert_eq!(here.count(peer, PeerCount::Connected), 0);
            assert_eq!(here.count(peer, PeerCount::Accepted), 0);
        }
    }
}

/// A node that hands all datagrams between two others on, and keeps them.
async fn between(from: &UdpSocket) -> Vec<Vec<u8>> {
    let mut kept = Vec::new();
    let mut bytes = [0; 2048];
    loop {
        match from.recv(&mut bytes) {
            Ok(length) => kept.push(bytes[..length].to_vec()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return kept,
            Err(error) => panic!("{error}"),
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn datagrams_that_were_kept_or_changed_are_no_signs_of_life() {
    let addresses = addresses(&[A, B]);
    // A believes that B is where the attacker listens, so that all messages of A to B pass through the attacker.
    let thief = UdpSocket::bind("127.0.0.1:0").unwrap();
    thief.set_nonblocking(true).unwrap();
    let mut seen_by_a = addresses.clone();
    seen_by_a.insert(B, thief.local_addr().unwrap());
    let a = Node::start(config(A, &seen_by_a));
    let b = Node::start(config(B, &addresses));
    let to_b = addresses[&B];
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let start = Instant::now();
    while b.count(A, PeerCount::BeatsReceived) < 5 {
        a.mesh.beat(b"alive").unwrap();
        b.mesh.beat(b"alive").unwrap();
        sleep(Duration::from_millis(5)).await;
        for bytes in between(&thief).await {
            thief.send_to(&bytes, to_b).unwrap();
            kept.push(bytes);
        }
        assert!(start.elapsed() < PATIENCE);
    }
    // A beat that B has not seen yet: only as it was written is it good.
    a.mesh.beat(b"held").unwrap();
    sleep(Duration::from_millis(20)).await;
    let held = between(&thief).await.pop().unwrap();
    let settled = b.count(A, PeerCount::BeatsReceived);
    for at in 0..held.len() {
        let mut changed = held.clone();
        changed[at] ^= 1;
        thief.send_to(&changed, to_b).unwrap();
    }
    let refused =
        || b.strangers(StrangerCount::DatagramWrongKey) + b.strangers(StrangerCount::DatagramMalformed);
    until("changed ones were refused", || refused() == held.len() as u64).await;
    // All that B has seen.
    let stale = b.count(A, PeerCount::DatagramsStale);
    let unproven = b.count(A, PeerCount::DatagramsUnproven);
    for bytes in &kept {
        thief.send_to(bytes, to_b).unwrap();
    }
    let expected = kept.len() as u64;
    until("kept ones were refused", || {
        b.count(A, PeerCount::DatagramsStale) + b.count(A, PeerCount::DatagramsUnproven)
            == stale + unproven + expected
    })
    .await;
    assert_eq!(b.count(A, PeerCount::BeatsReceived), settled);
    // A new B knows nothing of A, and still does not fall for it: the same without A's answers.
    drop(a);
    b.mesh.close().await;
    let b = Node::start(config(B, &addresses));
    for bytes in kept.iter().chain([&held]) {
        thief.send_to(bytes, to_b).unwrap();
    }
    until("the past was refused", || b.count(A, PeerCount::DatagramsUnproven) == expected + 1).await;
    assert_eq!(b.count(A, PeerCount::BeatsReceived), 0);
}

#[tokio::test]
async fn datagrams_of_others_are_counted() {
    let (a, _b, addresses) = pair(MeshLimits::default()).await;
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |bytes: &[u8]| assert_eq!(socket.send_to(bytes, addresses[&A]).unwrap(), bytes.len());
    send(&[]);
    send(&[1; 2000]);
    let keys = Keys::new("test", &key());
    let (session, gives, bears) = ([1; 16], [2; 16], NO_TICKET);
    for (sender, receiver) in [(C, A), (B, C), (A, A)] {
        let head = Head { kind: Kind::Beat, sender, receiver, session, counter: 1, gives, bears };
        send(&datagram::encode(&keys.datagrams, &head, b"x"));
    }
    until("malformed", || a.strangers(StrangerCount::DatagramMalformed) == 2).await;
    until("misdirected", || a.strangers(StrangerCount::DatagramMisdirected) == 3).await;
}

#[tokio::test]
async fn a_crowd_of_strangers_keeps_no_peer_out() {
    let addresses = addresses(&[A, B]);
    let mut b = Node::start(MeshConfig { limits: tight(), ..config(B, &addresses) });
    let to = addresses[&B];
    let crowd = tokio::spawn(async move {
        let mut held = VecDeque::new();
        for turn in 0_u32.. {
            if let Ok(mut stream) = TcpStream::connect(to).await {
                match turn % 4 {
                    0 => {}
                    1 => drop(stream.write_all(b"SBM\x02\x01\x02").await),
                    2 => drop(stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await),
                    _ => drop(stream.write_all(&[0xff; 4000]).await),
                }
                held.push_back(stream);
            }
            if held.len() > 50 {
                held.pop_front();
            }
            sleep(Duration::from_micros(500)).await;
        }
    });
    until("a crowd", || b.strangers(StrangerCount::ConnectionCrowdedOut) > 20).await;
    let mut a = Node::start(MeshConfig { limits: tight(), ..config(A, &addresses) });
    a.connected(B).await;
    for number in 0..50_u8 {
        until("taken", || a.mesh.send(B, vec![number]).is_ok()).await;
    }
    for number in 0..50_u8 {
        assert_eq!(b.message().await, (A, vec![number]));
    }
    assert!(b.strangers(StrangerCount::ConnectionMalformed) > 0);
    crowd.abort();
}

#[tokio::test]
async fn strangers_are_shown_out() {
    let (a, _b, addresses) = pair(tight()).await;
    let us = Keys::new("test", &key());
    let connect = || TcpStream::connect(addresses[&A]);
    let mut slow = connect().await.unwrap();
    slow.write_all(b"SBM").await.unwrap();
    assert_eq!(timeout(PATIENCE, slow.read(&mut [0])).await.unwrap().unwrap_or(0), 0, "closed");
    until("timed out", || a.strangers(StrangerCount::ConnectionTimedOut) == 1).await;
    for (sender, receiver) in [(C, A), (B, C)] {
        let mut stream = connect().await.unwrap();
        assert!(handshake::connect(&mut stream, &us, (sender, receiver)).await.is_err());
    }
    until("misdirected", || a.strangers(StrangerCount::ConnectionMisdirected) == 2).await;
    drop(connect().await.unwrap());
    until("unfinished", || a.strangers(StrangerCount::ConnectionUnfinished) == 1).await;
    let mut guess = connect().await.unwrap();
    guess.write_all(&[b"SBM\x02\x02\x01", &[0; 64][..]].concat()).await.unwrap();
    until("wrong", || a.strangers(StrangerCount::ConnectionWrongKey) == 1).await;
}

#[tokio::test]
async fn a_peer_whose_bytes_are_changed_on_the_way_is_cut_off() {
    let addresses = addresses(&[A, B]);
    let a = Node::start(MeshConfig { limits: tight(), ..config(A, &addresses) });
    let us = Keys::new("test", &key());
    let become_b = || async {
        let mut stream = TcpStream::connect(addresses[&A]).await.unwrap();
        handshake::connect(&mut stream, &us, (B, A)).await.unwrap();
        stream
    };
    let mut stream = become_b().await;
    stream.write_all(&u32::MAX.to_le_bytes()).await.unwrap();
    stream.write_all(&[0; 32]).await.unwrap();
    until("too large", || a.count(B, PeerCount::FrameTooLarge) == 1).await;
    let mut stream = become_b().await;
    stream.write_all(&[0; 36]).await.unwrap();
    until("wrong code", || a.count(B, PeerCount::FrameWrongKey) == 1).await;
    let mut stream = become_b().await;
    stream.write_all(&[0; 7]).await.unwrap();
    until("half a frame, then silence", || a.count(B, PeerCount::Silent) >= 1).await;
    let mut stream = become_b().await;
    stream.write_all(&[0; 7]).await.unwrap();
    drop(stream);
    until("half a frame, then the end", || a.count(B, PeerCount::Broken) >= 1).await;
    assert_eq!(a.count(B, PeerCount::MessagesReceived), 0);
}

#[tokio::test]
async fn a_peer_that_reads_nothing_is_left() {
    let addresses = addresses(&[A, B]);
    let limits = MeshLimits { silence: Duration::from_millis(600), ..tight() };
    let listener = tokio::net::TcpListener::bind(addresses[&B]).await.unwrap();
    let a = Node::start(MeshConfig { limits, ..config(A, &addresses) });
    let us = Keys::new("test", &key());
    let (mut stream, _) = listener.accept().await.unwrap();
    let (peer, _) = handshake::accept(&mut stream, &us, |_| true).await.unwrap();
    assert_eq!(peer, A);
    until("connected", || a.mesh.stats().peers[&B].is_connected).await;
    until("left", || {
        let _ = a.mesh.send(B, vec![1; limits.message_bytes]);
        !a.mesh.stats().peers[&B].is_connected
    })
    .await;
    assert!(a.count(B, PeerCount::DroppedFull) + a.count(B, PeerCount::DroppedUnconnected) > 0);
}

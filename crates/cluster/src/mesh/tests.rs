//! Meshes on the loopback interface, with friends and with strangers.

mod peers;
mod strangers;

use super::*;
use std::time::Instant;
use tokio::time::{sleep, timeout};

/// Longest wait for something that is to happen: far more than it takes.
const PATIENCE: Duration = Duration::from_secs(60);

const A: NodeId = NodeId::new(1);
const B: NodeId = NodeId::new(2);
const C: NodeId = NodeId::new(3);

/// A mesh and its events.
struct Node {
    mesh: Mesh,
    events: Events,
}

/// Addresses that are free.
fn addresses(nodes: &[NodeId]) -> BTreeMap<NodeId, SocketAddr> {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let held: Vec<_> = nodes.iter().map(|node| (*node, listen(any).unwrap())).collect();
    held.iter().map(|(node, (tcp, _))| (*node, tcp.local_addr().unwrap())).collect()
}

fn key() -> ClusterKey {
    ClusterKey::new(&[42; 32]).unwrap()
}

fn config(node: NodeId, peers: &BTreeMap<NodeId, SocketAddr>) -> MeshConfig {
    MeshConfig {
        cluster: "test".to_owned(),
        node,
        listen: peers[&node],
        peers: peers.clone(),
        key: key(),
        limits: MeshLimits::default(),
    }
}

/// Short on room and on patience.
fn tight() -> MeshLimits {
    MeshLimits {
        message_bytes: 64 * 1024,
        queue_messages: 8,
        queue_bytes: 256 * 1024,
        unknown_connections: 4,
        handshake_time: Duration::from_millis(500),
        silence: Duration::from_secs(1),
        ..MeshLimits::default()
    }
}

impl Node {
    fn start(config: MeshConfig) -> Self {
        let (mesh, events) = Mesh::start(config).unwrap();
        Self { mesh, events }
    }

    async fn next(&mut self) -> Event {
        timeout(PATIENCE, self.events.next()).await.expect("nothing came").expect("the mesh is gone")
    }

    /// The next event of this kind; others are skipped.
    async fn find<T>(&mut self, what: impl Fn(Event) -> Option<T>) -> T {
        loop {
            if let Some(found) = what(self.next().await) {
                return found;
            }
        }
    }

    async fn message(&mut self) -> (NodeId, Vec<u8>) {
        self.find(|event| match event {
            Event::Message { from, payload } => Some((from, payload)),
            _ => None,
        })
        .await
    }

    async fn connected(&mut self, to: NodeId) {
        self.find(|event| (event == Event::Connected { peer: to }).then_some(())).await;
    }

    fn count(&self, peer: NodeId, what: PeerCount) -> u64 {
        self.mesh.stats().of(peer, what)
    }

    fn strangers(&self, what: StrangerCount) -> u64 {
        self.mesh.stats().strangers(what)
    }
}

/// Waits until something is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not so: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Sends beats until one of this payload arrives.
async fn beat_until(from: &Node, to: &mut Node, payload: &[u8]) {
    let start = Instant::now();
    loop {
        from.mesh.beat(payload).unwrap();
        let wait = timeout(Duration::from_millis(50), to.events.next());
        if let Ok(Some(Event::Beat { payload: came, .. })) = wait.await
            && came == payload
        {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "no beat came");
    }
}

/// Two nodes that are connected both ways.
async fn pair(limits: MeshLimits) -> (Node, Node, BTreeMap<NodeId, SocketAddr>) {
    let addresses = addresses(&[A, B]);
    let mut a = Node::start(MeshConfig { limits, ..config(A, &addresses) });
    let mut b = Node::start(MeshConfig { limits, ..config(B, &addresses) });
    a.connected(B).await;
    b.connected(A).await;
    (a, b, addresses)
}

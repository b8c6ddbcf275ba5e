//! Transfers the counts of flows that left this node to the flows' current nodes: drives [`Courier`].
//!
//! ```text
//!  workers ─▶ FlowTables ─ a flow has left ─▶ Courier ══ mesh ══▶ Courier ─▶ FlowTables of the next node
//!                 ▲                             │ │
//!                 └── it is here again ─────────┘ └─ it is nowhere ─▶ ended flows: sums
//! ```
//!
//! This node's GPT tells where a flow is, once the node has caught up: bits name the next node before a flow leaves this one. A
//! deleted key leads to an arbitrary node, so the counts of a deleted flow may visit another node before they end.

use super::moved::{FlowSums, MovedCounters};
use super::peers::Peers;
use super::plane::PlaneState;
use super::shared_tables::SharedTables;
use super::wire::Message;
use scalebricks_apps::gateway::flow_tables::Locator;
use scalebricks_control::courier::{Count, Courier, Packet, Place, Work};
use scalebricks_elements::gateway::FlowCount;
use scalebricks_types::{NodeId, Teid};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Time between two checks for flows that have left.
const EXPIRY: Duration = Duration::from_millis(20);

/// Packets that wait for the task: some per node, since a node sends no further parcel before it has a receipt.
const ARRIVED: usize = 256;

/// With so many flows waiting that are not here, no more parcels are accepted: 50 MiB.
const STRAYS: usize = 1 << 20;

/// Events of the task.
pub(super) enum CounterEvent {
    /// A packet of another node's courier.
    Packet(NodeId, Packet),
    /// A node asks for a flow's counts here, under this number.
    Question(NodeId, u64, Teid),
    /// This process asks for a flow's counts.
    Ask(Teid, oneshot::Sender<Option<FlowCount>>),
}

/// The task.
pub(super) struct CounterTransfer {
    node: NodeId,
    tables: SharedTables,
    peers: Arc<Peers>,
    shared: Arc<PlaneState>,
    courier: Courier,
    locator: Locator,
    /// The epoch of the view that the courier has.
    epoch: Option<u64>,
    next_expiry: Duration,
    moved: MovedCounters,
}

impl CounterTransfer {
    /// Starts the task on the current runtime. It ends when the sender is dropped.
    pub(super) fn start(
        node: NodeId,
        tables: SharedTables,
        peers: Arc<Peers>,
        shared: Arc<PlaneState>,
    ) -> mpsc::Sender<CounterEvent> {
        let (sender, arrived) = mpsc::channel(ARRIVED);
        let locator = tables.lock().locator();
        let courier = Courier::new(shared.process);
        let (epoch, next_expiry, moved) = (None, EXPIRY, MovedCounters::default());
        let carrying = Self { node, tables, peers, shared, courier, locator, epoch, next_expiry, moved };
        tokio::spawn(carrying.run(arrived));
        sender
    }

    async fn run(mut self, mut arrived: mpsc::Receiver<CounterEvent>) {
        let start = Instant::now();
        let mut together = Vec::with_capacity(ARRIVED);
        loop {
            tokio::select! {
                biased; // the same run for the same input
                count = arrived.recv_many(&mut together, ARRIVED) => if count == 0 { return },
                () = tokio::time::sleep(EXPIRY) => {}
            }
            let now = start.elapsed();
            for arrived in together.drain(..) {
                match arrived {
                    CounterEvent::Packet(from, packet) => self.take(from, packet),
                    CounterEvent::Question(from, number, flow) => {
                        let count = self.tables.lock().count(flow).map(opaque);
                        self.peers.send(from, Message::Tallied(number, count));
                    }
                    CounterEvent::Ask(flow, answer) => {
                        let _gone = answer.send(self.tables.lock().count(flow));
                    }
                }
            }
            if now >= self.next_expiry {
                self.next_expiry = now + EXPIRY;
                self.expire(now);
            }
            self.follow_view();
            self.work(now);
            self.tell();
        }
    }

    /// Handles a packet of another courier.
    fn take(&mut self, from: NodeId, packet: Packet) {
        let mut tables = self.tables.lock();
        if matches!(packet, Packet::Parcel(_)) && tables.strays() >= STRAYS {
            self.moved.refused_parcels += 1;
            return;
        }
        let received = self.courier.receive(from, packet);
        for (flow, count) in received.counts {
            tables.carry_over(flow, flow_count(count));
        }
        drop(tables);
        if let Some(reply) = received.reply {
            self.peers.send(from, Message::Counts(reply));
        }
    }

    /// Posts the counts of flows that no worker counts any more, as many as the courier has room for.
    fn expire(&mut self, now: Duration) {
        if !self.courier.has_room() {
            return;
        }
        let departed = {
            let mut tables = self.tables.lock();
            let _more = tables.expire(now);
            tables.take_departed()
        };
        for (flow, count) in departed {
            self.courier.post(flow, opaque(count));
        }
    }

    fn follow_view(&mut self) {
        let view = self.shared.view.load();
        if self.epoch != Some(view.epoch()) {
            self.epoch = Some(view.epoch());
            self.courier.set_alive(view.alive().filter(|node| *node != self.node).collect());
        }
    }

    fn work(&mut self, now: Duration) {
        let view = self.shared.view.load();
        let has_caught_up = self.shared.has_caught_up.load(std::sync::atomic::Ordering::Relaxed);
        let mut tables = self.tables.lock();
        let Work { packets, back, ended } = self.courier.poll(now, |flow: Teid| {
            if tables.is_here(flow) {
                return Place::Here;
            }
            if !has_caught_up {
                return Place::Unknown;
            }
            match u8::try_from(self.locator.node(flow).get()).map(NodeId::new) {
                Ok(node) if node != self.node && view.member(node).is_some() => Place::At(node),
                // Here, or at a node that never was a member: the key was deleted.
                _ => Place::Nowhere,
            }
        });
        for (flow, count) in back {
            tables.carry_over(flow, flow_count(count));
        }
        drop(tables);
        for (_, count) in ended {
            self.moved.ended.add(flow_count(count));
        }
        for (to, packet) in packets {
            self.peers.send(to, Message::Counts(packet));
        }
    }

    /// Publishes the counters.
    fn tell(&mut self) {
        let stats = self.courier.stats();
        let (waiting, under_way) = self.courier.flows();
        self.moved = MovedCounters {
            sent_flows: stats.sent_flows,
            received_flows: stats.delivered_flows,
            waiting_flows: waiting as u64,
            under_way_flows: under_way as u64,
            lost: FlowSums::of(stats.lost_flows, flow_count(stats.lost)),
            resent_parcels: stats.resent,
            duplicate_parcels: stats.duplicates,
            ..self.moved
        };
        *self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner) = self.moved;
    }
}

const fn opaque(count: FlowCount) -> Count {
    let FlowCount { downstream_packets, downstream_bytes, upstream_packets, upstream_bytes } = count;
    Count([downstream_packets, downstream_bytes, upstream_packets, upstream_bytes])
}

/// The four counters in the data plane's form.
pub(super) const fn flow_count(count: Count) -> FlowCount {
    let Count([downstream_packets, downstream_bytes, upstream_packets, upstream_bytes]) = count;
    FlowCount { downstream_packets, downstream_bytes, upstream_packets, upstream_bytes }
}

//! `LinkHello`.

use crate::fabric::links::{HelloFault, HelloTimes, LinkMap, LinkWatch, Links};
use crate::gateway::fabric::mac::{FabricMac, OutputPort};
use crate::{ClassicVLB, DirectVLB, Flowlets, MacSwitch};
use scalebricks_graph::element::BindError;
use scalebricks_graph::{
    Binder, Class, Control, Element, Frame, Graph, HandlerId, Out, SlotList, Upstream, element,
};
use scalebricks_io::PacketBuf;
use scalebricks_types::{ClusterSize, HashSeed, NodeId, NodeSet};
use scalebricks_wire::MacAddr;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

element! {
    /// Sends hellos over a node's links and receives those of the neighbours, so that every node knows which links work
    /// (module `fabric::links`). A link is down after MISSED hellos in a row did not arrive, in either direction. It
    /// tells the elements in FOLLOWERS, steering elements and `MacSwitch`, which links they may use. Have a queue of its
    /// own before each link, with priority over data: a full link must not lose hellos.
    pub struct LinkHello as "LinkHello" {
        links: Arc<Links>, watch: Option<LinkWatch>, followers: Vec<String>, source: MacAddr, next: Duration,
        /// Neighbours to which a link leads, and those whose next hello is due.
        linked: NodeSet, due: NodeSet,
        told: u64, fault: Option<String>,
    }
    inputs {
        push "in": "Frames from links that are no data, painted with the number of the link's node, as `MacSwitch` does.",
    }
    outputs { push "node" [ZeroOrMore]: "Hellos to the node of the output's number.", }
    fresh { "node", }
    params LinkHelloParams {
        /// The number of this node.
        node: u16,
        /// Number of nodes, up to 256.
        nodes: u16,
        /// The elements that use the links.
        followers: String = String::new(),
        /// Time between two hellos on a link.
        interval: Duration = Duration::from_millis(100),
        /// Hellos in a row that must be missed for a link to be down, and must arrive for it to be up.
        missed: u32 = 3,
        /// The cluster's secret, from which the hellos' key is derived. Equal at all nodes.
        secret: u64 = 0,
    }
    example { "0", "2", }
    drops {
        NO_HELLO = "no_hello": "The frame from a link has no encoded address and is no hello of this cluster.",
        WRONG_LINK = "wrong_link": "The hello is from another node than the link's, or for another than this one.",
    }
    counters {
        SENT = "hellos_sent" [Made]: "Hellos sent.",
        RECEIVED = "hellos_received" [Ended]: "Hellos received.",
        UNSENT = "hellos_unsent": "Hellos not sent, because no buffer was free.",
        REPLAYED = "hellos_replayed": "Hellos received that were not newer than the last.",
        CHANGES = "link_changes": "Changes of the links that work.",
        LINKS_UP = "links_up": "Links that work (a level).",
        REACHABLE_NOW = "nodes_reachable": "Nodes reached directly or over one other node, with this one (a level).",
    }
    handlers {
        read UP = "up": "The neighbours whose link works.",
        read REACHABLE = "reachable": "The nodes reached directly or over one other node.",
        read LINKS = "links": "One line per node of whose links this one knows: the node, and the nodes that it reaches.",
    }
    hooks { Begin, Between, }
}

impl LinkHello {
    /// The element of a worker. One worker of the node sends and watches; the others receive only.
    pub fn new(links: Arc<Links>, sends: bool, followers: Vec<String>) -> Self {
        let source = FabricMac::handling(links.id(), OutputPort::ALL[0]).encode();
        let watch = sends.then(|| LinkWatch::new(Arc::clone(&links)));
        Self {
            links,
            watch,
            followers,
            source,
            next: Duration::ZERO,
            linked: NodeSet::EMPTY,
            due: NodeSet::EMPTY,
            told: 0,
            fault: None,
        }
    }
}

impl Class for LinkHello {
    fn make(params: LinkHelloParams) -> Result<Self, String> {
        let LinkHelloParams { node, nodes, followers, interval, missed, secret } = params;
        if interval.is_zero() || missed == 0 {
            return Err("INTERVAL and MISSED must be above 0".to_owned());
        }
        let size = ClusterSize::new(usize::from(nodes)).map_err(|error| error.to_string())?;
        let id = size.node(node).map_err(|error| error.to_string())?;
        let times = HelloTimes { interval, missed };
        let links =
            Links::new(id, size, HashSeed::from_u64(secret), times).map_err(|error| error.to_string())?;
        let followers = followers.split_whitespace().map(str::to_owned).collect();
        Ok(Self::new(Arc::new(links), true, followers))
    }
}

fn numbers(nodes: NodeSet) -> String {
    nodes.iter().map(|node| node.get().to_string()).collect::<Vec<_>>().join(" ")
}

impl Control for LinkHello {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        let id = self.links.id();
        let is_linked = |node: &NodeId| *node != id && binder.is_connected(node.index());
        self.linked = self.links.size().nodes().filter(is_linked).collect();
        Ok(())
    }

    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        let node = |of: &Self| (of.links.id(), of.links.size(), of.links.times(), of.watch.is_some());
        if node(before) == node(self) {
            std::mem::swap(&mut self.watch, &mut before.watch);
            self.links = Arc::clone(&before.links);
            (self.next, self.due) = (before.next, before.due);
        }
    }

    fn read(&self, handler: HandlerId) -> String {
        let map = self.links.map();
        match handler {
            Self::UP => numbers(map.up()),
            Self::REACHABLE => numbers(map.reachable()),
            _ => {
                let known = self.links.size().nodes().filter(|&node| !map.row(node).is_empty());
                let line = |node: NodeId| format!("{}: {}", node.get(), numbers(map.row(node)));
                known.map(line).collect::<Vec<_>>().join("\n")
            }
        }
    }
}

/// Lets an element use the links that work; `false` if the graph has no such element.
fn tell<P: PacketBuf + 'static>(graph: &mut Graph<P>, name: &str, map: &LinkMap) -> bool {
    macro_rules! any_of {
        ($($class:ty),+) => {
            $(if let Some(element) = graph.get_mut::<$class>(name) {
                element.mesh_mut().follow(map);
                return true;
            })+
        };
    }
    any_of!(Flowlets, DirectVLB, ClassicVLB, MacSwitch);
    false
}

impl<P: PacketBuf + 'static> Element<P> for LinkHello {
    fn begin(&mut self, _: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let now = out.now();
        let Some(watch) = &mut self.watch else { return };
        let refreshed = watch.refresh(now);
        if refreshed.replayed > 0 || refreshed.has_changed {
            out.count(Self::REPLAYED, refreshed.replayed);
            out.count(Self::CHANGES, u64::from(refreshed.has_changed));
            let map = self.links.map();
            out.set(Self::LINKS_UP, u64::from(map.up().len()));
            out.set(Self::REACHABLE_NOW, u64::from(map.reachable().len()));
        }
        if now >= self.next {
            self.next = now + self.links.times().interval;
            self.due = self.linked;
        }
        if self.due.is_empty() {
            return;
        }
        let Some(watch) = &self.watch else { return };
        let room = out.intake(frame.used());
        let due = self.due;
        for to in due.iter().take(room) {
            self.due.remove(to);
            let hello = self.links.frame(&watch.hello(to, now), self.source);
            let made = frame.alloc().and_then(|mut packet| packet.append(&hello).ok().map(|()| packet));
            match made.and_then(|packet| frame.put(packet).ok()) {
                Some(slot) => {
                    out.count(Self::SENT, 1);
                    out.push(to.index(), slot);
                }
                None => out.count(Self::UNSENT, 1),
            }
        }
    }

    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        for slot in batch.drain() {
            let link = NodeId::new(frame.meta(&slot).paint);
            match self.links.receive(frame.packet(&slot).data(), link, out.now()) {
                Ok(()) => {
                    out.count(Self::RECEIVED, 1);
                    drop(frame.take(slot));
                }
                Err(HelloFault::NoHello) => out.drop(slot, Self::NO_HELLO),
                Err(HelloFault::WrongLink) => out.drop(slot, Self::WRONG_LINK),
            }
        }
    }

    fn between(&mut self, _: &str, graph: &mut Graph<P>, _: Duration) {
        let changes = self.links.changes();
        if changes == self.told {
            return;
        }
        self.told = changes;
        let map = self.links.map();
        for name in &self.followers {
            if !tell(graph, name, &map) {
                self.fault = Some(format!("{name} is no element that uses the links of a node"));
            }
        }
    }

    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }
}

#[cfg(test)]
#[path = "link_hello_tests.rs"]
mod tests;

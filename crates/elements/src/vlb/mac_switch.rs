//! `MacSwitch`.

use crate::fabric::mac::RouterMac;
use crate::fabric::mesh::{Mesh, address};
use crate::gateway::DropReason;
use crate::shared_names::{drops, handlers};
use crate::split::{Destination, split};
use scalebricks_graph::element::{BindError, HandlerError};
use scalebricks_graph::{Binder, Class, Control, Element, Frame, HandlerId, Out, SLOTS, SlotList, element};
use scalebricks_io::PacketBuf;
use scalebricks_types::NodeId;
use scalebricks_wire::ethernet;

element! {
    /// Moves frames that arrive from other nodes of a full mesh by their destination address alone (RouteBricks §6.1):
    /// frames for this node leave here, all others take the link to their output node, which is phase 2 of Valiant load
    /// balancing. If that link is down, a frame goes over another node, once at most. It reads no byte behind the
    /// address. Frames without an encoded address, such as hellos, go to the output behind those of all nodes, painted
    /// with the number of the input.
    pub struct MacSwitch as "MacSwitch" { mesh: Mesh, has_others: bool, }
    inputs { push "node" [ZeroOrMore]: "Frames from the node of the input's number.", }
    outputs {
        push "node" [ZeroOrMore]: "Frames to the node of the output's number; those to this node leave here. The last: frames without an encoded address; dropped if unconnected.",
    }
    params MacSwitchParams {
        /// The number of this node.
        node: u16,
        /// Number of nodes, up to 256.
        nodes: u16,
        /// Seed of the random choices round failed links.
        seed: u64 = 0,
    }
    example { "0", "2", }
    drops { BAD_MAC = DropReason::BadFabricMac, NO_NEIGHBOUR = drops::NO_NEIGHBOUR, }
    counters {
        ARRIVED = "arrived": "Frames that leave here.",
        MOVED = "moved": "Frames moved to the link to their output node.",
        REROUTED = "rerouted": "Frames sent round a link that is down.",
    }
    handlers { read DOWN = handlers::DOWN, write SET_DOWN = handlers::SET_DOWN, write SET_UP = handlers::SET_UP, }
    keeps { mesh, }
}

impl MacSwitch {
    pub(crate) const fn mesh_mut(&mut self) -> &mut Mesh {
        &mut self.mesh
    }

    /// The node to send a frame over when the link to its output node is down.
    #[cold]
    fn detour(&mut self, from: usize, mac: RouterMac) -> Option<NodeId> {
        if mac.is_rerouted {
            return None;
        }
        let mut over = self.mesh.intermediates(mac.output_node);
        over.remove(NodeId::new(u8::try_from(from).ok()?));
        self.mesh.draw(over)
    }
}

/// Whether a frame has no encoded address.
#[cold]
fn is_other(frame: &[u8]) -> bool {
    ethernet::destination(frame).is_some_and(|mac| RouterMac::decode(mac).is_none())
}

impl Class for MacSwitch {
    fn make(params: MacSwitchParams) -> Result<Self, String> {
        let MacSwitchParams { node, nodes, seed } = params;
        Ok(Self { mesh: Mesh::of_numbers(node, nodes, seed)?, has_others: false })
    }
}

impl Control for MacSwitch {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.has_others = binder.is_connected(self.mesh.size().get());
        Ok(())
    }

    fn read(&self, _: HandlerId) -> String {
        self.mesh.down()
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        self.mesh.write(value, handler == Self::SET_UP)
    }
}

impl<P: PacketBuf> Element<P> for MacSwitch {
    fn push(&mut self, input: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (id, size) = (self.mesh.id(), self.mesh.size());
        let mut ways = [Destination::Drop(Self::BAD_MAC); SLOTS];
        let (mut arrived, mut moved) = (0, 0);
        for (way, slot) in ways.iter_mut().zip(batch.iter()) {
            let Some(mac) = address(frame.packet(slot).data(), size) else {
                if self.has_others && is_other(frame.packet(slot).data()) {
                    frame.meta_mut(slot).paint = input as u8; // below 256, the most nodes
                    *way = Destination::Out(size.get() as u16);
                }
                continue;
            };
            let next = if mac.output_node == id {
                arrived += 1;
                Some(id)
            } else if self.mesh.is_up(mac.output_node) {
                moved += 1;
                Some(mac.output_node)
            } else {
                let detour = self.detour(input, mac);
                let marked = RouterMac { is_rerouted: true, ..mac }.encode();
                detour.filter(|_| {
                    out.count(Self::REROUTED, 1);
                    ethernet::set_destination(frame.packet_mut(slot).data_mut(), marked)
                })
            };
            *way = match next {
                Some(node) => Destination::Out(u16::from(node.get())),
                None => Destination::Drop(Self::NO_NEIGHBOUR),
            };
        }
        let count = batch.len();
        split(batch, &ways[..count], out);
        out.count(Self::ARRIVED, arrived);
        out.count(Self::MOVED, moved);
    }
}

#[cfg(test)]
mod tests {
    use crate::fabric::steer::rig::frame;
    use crate::rig::Rig;

    /// Node 1 of four; frames come from node 0.
    fn rig() -> Rig {
        Rig::new(4, |builder| {
            builder.declare("v", "MacSwitch", &["1", "4"]).connect("in", 0, "v", 0);
            (0..4).for_each(|at| {
                builder.connect("v", at, &format!("out{at}"), 0);
            });
        })
    }

    #[test]
    fn the_address_alone_decides() {
        let mut rig = rig();
        let bare = |node| frame(node)[..6].to_vec();
        rig.send([
            frame(1),
            frame(3),
            bare(2),
            frame(0),
            bare(1),
            frame(4),
            vec![2, 0x5b, 0, 1, 1, 0],
            vec![1],
        ]);
        rig.turn();
        assert_eq!(rig.got(0), [frame(0)]);
        assert_eq!(rig.got(1), [frame(1), bare(1)]);
        assert_eq!((rig.got(2), rig.got(3)), (vec![bare(2)], vec![frame(3)]));
        let counts = ["arrived", "moved", "rerouted", "bad_fabric_mac", "no_neighbour"];
        assert_eq!(counts.map(|name| rig.number("v", name)), [2, 3, 0, 3, 0]);
    }

    #[test]
    fn a_frame_goes_round_a_failed_link_once_and_never_back() {
        let mut rig = rig();
        rig.write("v", "down", "3").unwrap();
        rig.send((0..50).map(|_| frame(3)));
        rig.turn();
        let round = rig.got(2);
        let mut marked = frame(3);
        marked[2] |= 0x80;
        assert_eq!(round, vec![marked.clone(); 50], "node 0 sent it, and the link to node 3 is down");
        rig.send([marked, frame(2)]);
        rig.turn();
        assert_eq!((rig.got(2), rig.number("v", "no_neighbour")), (vec![frame(2)], 1));
        rig.write("v", "down", "2 3").unwrap();
        rig.send([frame(3)]);
        rig.turn();
        assert_eq!((rig.number("v", "no_neighbour"), rig.number("v", "rerouted")), (2, 50));
        rig.write("v", "up", "3").unwrap();
        rig.send([frame(3)]);
        rig.turn();
        assert_eq!(rig.got(3), [frame(3)]);
    }
}

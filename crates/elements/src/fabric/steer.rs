//! The loop of elements that choose the next node of frames from external ports.

use super::mesh::address;
use crate::split::{Destination, split};
use scalebricks_graph::{DropId, Frame, Out, SLOTS, SlotList};
use scalebricks_io::PacketBuf;
use scalebricks_types::{ClusterSize, NodeId};

/// The drop reasons of an element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusals {
    /// The address is not encoded, or of no node.
    pub(crate) bad_mac: DropId,
    /// No way is up.
    pub(crate) no_neighbour: DropId,
}

/// Sends each frame to the node that `choose` names for its output node; `None` means that there is no way. Frames that
/// leave at this node go to the output with its number.
#[inline]
pub(crate) fn steer<P: PacketBuf>(
    batch: &mut SlotList,
    frame: &Frame<P>,
    out: &mut Out<'_>,
    (id, size): (NodeId, ClusterSize),
    refusals: Refusals,
    mut choose: impl FnMut(NodeId, &[u8]) -> Option<NodeId>,
) {
    let mut ways = [Destination::Drop(refusals.bad_mac); SLOTS];
    for (way, slot) in ways.iter_mut().zip(batch.iter()) {
        let bytes = frame.packet(slot).data();
        let Some(mac) = address(bytes, size) else { continue };
        let next = if mac.output_node == id { Some(id) } else { choose(mac.output_node, bytes) };
        *way = match next {
            Some(node) => Destination::Out(u16::from(node.get())),
            None => Destination::Drop(refusals.no_neighbour),
        };
    }
    let count = batch.len();
    split(batch, &ways[..count], out);
}

/// Declares a steering element: its documentation, fields, own parameters and counters, and its field with the
/// [`Mesh`](super::mesh::Mesh). Ports, drop reasons, handlers and the parameters of the node's place are those of all.
macro_rules! steering {
    (
        $(#[doc = $doc:literal])+
        pub struct $name:ident as $class:literal { $($fields:tt)* }
        params $params:ident { $($(#[doc = $param_doc:literal])+ $param:ident: $param_type:ty $(= $default:expr)?,)* }
        example $example:tt
        counters { $($counters:tt)* }
        keeps { $kept:ident, }
        mesh $($mesh:ident).+
    ) => {
        scalebricks_graph::element! {
            $(#[doc = $doc])+
            pub struct $name as $class { $($fields)* }
            inputs { push "in": "Frames from external ports, with encoded addresses.", }
            outputs {
                push "node" [ZeroOrMore]: "Frames to the node of the output's number; those to this node leave here.",
            }
            params $params {
                /// The number of this node.
                node: u16,
                /// Number of nodes N, up to 256.
                nodes: u16,
                $($(#[doc = $param_doc])+ $param: $param_type $(= $default)?,)*
            }
            example $example
            drops {
                BAD_MAC = $crate::gateway::DropReason::BadFabricMac,
                NO_NEIGHBOUR = $crate::shared_names::drops::NO_NEIGHBOUR,
            }
            counters {
                DIRECT = $crate::shared_names::counters::DIRECT,
                SPREAD = $crate::shared_names::counters::SPREAD,
                $($counters)*
            }
            handlers {
                read DOWN = $crate::shared_names::handlers::DOWN,
                write SET_DOWN = $crate::shared_names::handlers::SET_DOWN,
                write SET_UP = $crate::shared_names::handlers::SET_UP,
            }
            keeps { $kept, }
        }

        impl $name {
            const REFUSALS: $crate::fabric::steer::Refusals =
                $crate::fabric::steer::Refusals { bad_mac: Self::BAD_MAC, no_neighbour: Self::NO_NEIGHBOUR };

            pub(crate) const fn mesh_mut(&mut self) -> &mut $crate::fabric::mesh::Mesh {
                &mut self.$($mesh).+
            }
        }

        impl scalebricks_graph::Control for $name {
            fn read(&self, _: scalebricks_graph::HandlerId) -> String {
                self.$($mesh).+.down()
            }

            fn write(
                &mut self,
                handler: scalebricks_graph::HandlerId,
                value: &str,
            ) -> Result<(), scalebricks_graph::element::HandlerError> {
                self.$($mesh).+.write(value, handler == Self::SET_UP)
            }
        }
    };
}

pub(crate) use steering;

#[cfg(test)]
pub(crate) mod rig {
    //! Tests that every steering element must pass.

    use crate::fabric::mac::{ExternalPort, RouterMac};
    use crate::rig::Rig;
    use scalebricks_types::NodeId;

    /// A frame to an output node.
    pub(crate) fn frame(node: u8) -> Vec<u8> {
        flow(node, 0, 64)
    }

    /// A frame of `length` bytes of a UDP flow to an output node.
    pub(crate) fn flow(node: u8, flow: u16, length: usize) -> Vec<u8> {
        let port = ExternalPort::new(0).unwrap();
        let mac = RouterMac::new(NodeId::new(node), port, 7).encode();
        let mut payload = [&flow.to_be_bytes()[..], &[0, 9, 0, 8, 0, 0]].concat();
        payload.resize(length - 34, 0);
        let ip = crate::rig::ipv4_of(|_| (), &payload);
        [&mac.octets()[..], &[2, 0, 0, 0, 0, 9, 8, 0], &ip].concat()
    }

    /// An element `v` with the outputs of `nodes` nodes.
    pub(crate) fn mesh(class: &str, args: &[&str], nodes: usize) -> Rig {
        Rig::new(nodes, |builder| {
            builder.declare("v", class, args).connect("in", 0, "v", 0);
            (0..nodes).for_each(|at| {
                builder.connect("v", at, &format!("out{at}"), 0);
            });
        })
    }

    /// Node 0 of four: all that goes to node 3 takes ways that are up.
    pub(crate) fn avoids_failed_links(class: &str, args: &[&str]) {
        let args = [&["0", "4"], args].concat();
        let mut rig = mesh(class, &args, 4);
        let send = |rig: &mut Rig| -> [bool; 4] {
            rig.send((0..60).map(|at| flow(3, at, 64)));
            rig.turn();
            std::array::from_fn(|end| !rig.got(end).is_empty())
        };
        rig.write("v", "down", "3").unwrap();
        assert_eq!(send(&mut rig), [false, true, true, false]);
        rig.write("v", "down", "1").unwrap();
        assert_eq!((send(&mut rig), rig.read("v", "down")), ([false, false, true, false], "1 3".to_owned()));
        rig.write("v", "down", "2 3").unwrap();
        assert_eq!(send(&mut rig), [false; 4]);
        assert_eq!(rig.number("v", "no_neighbour"), 60);
        rig.write("v", "up", "1").unwrap();
        assert_eq!(send(&mut rig), [false, true, false, false]);
        rig.write("v", "up", "3").unwrap();
        rig.write("v", "down", "1").unwrap();
        assert_eq!(send(&mut rig), [false, false, false, true], "without intermediates all is direct");
        assert_eq!(rig.number("v", "no_neighbour"), 60);
        let mut forged = frame(3);
        forged[2] = 0;
        rig.send([forged, frame(4), frame(3)[..13].to_vec(), frame(3)[..5].to_vec()]);
        rig.turn();
        assert_eq!(rig.number("v", "bad_fabric_mac"), 3, "not encoded, no such node, too short");
        assert!(rig.write("v", "down", "9").is_err());
    }
}

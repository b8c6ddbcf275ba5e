//! `Valiant`.

use super::route_cache::RouteCache;
use crate::gateway::config::NodeConfig;
use crate::gateway::fabric::intermediate::IntermediatePicker;
use crate::gateway::fabric::mac::{FabricMac, OutputPort};
use crate::gateway::packet::fragment_cache::DatagramId;
use scalebricks_graph::{Bursts, Control, Element, Frame, Out, element};
use scalebricks_io::PacketBuf;
use scalebricks_wire::ethernet;
use std::hash::{BuildHasher, RandomState};

element! {
    /// VLB: sends each frame to its handling node through a random intermediate node. All fragments of a datagram take
    /// the same one.
    pub struct Valiant as "Valiant" { detours: IntermediatePicker, pub(super) ways: RouteCache, datagrams: RandomState, }
    inputs { burst "in": "Frames addressed to their handling nodes.", }
    outputs { burst "out": "The same, addressed to intermediate nodes.", }
}

impl Valiant {
    /// Creates the element of a node.
    pub fn new(config: &NodeConfig) -> Self {
        let detours = IntermediatePicker::new(config.id, config.size);
        Self { detours, ways: RouteCache::default(), datagrams: RandomState::new() }
    }
}

impl Control for Valiant {}

impl<P: PacketBuf> Element<P> for Valiant {
    fn burst(&mut self, _: usize, bursts: &mut Bursts<P>, frame: &mut Frame<P>, _: &mut Out<'_>) {
        self.ways.go_round();
        let Self { detours, ways, datagrams } = self;
        bursts.each(|chunk| {
            for mut packet in chunk.packets.drain(..) {
                let bytes = packet.data_mut();
                // Steer wrote the address of the handling node.
                if let Some(mac) = ethernet::destination(bytes).and_then(FabricMac::decode) {
                    let downstream =
                        (mac.port == OutputPort::BaseStation).then(|| DatagramId::of_frame(bytes)).flatten();
                    let datagram = downstream.map(|datagram| datagrams.hash_one(datagram));
                    let way =
                        detours.draw(mac.node, mac.port, datagram, |over| ways.leads_over(over, mac.node));
                    let _is_long_enough = ethernet::set_destination(bytes, way.encode());
                }
                frame.send(0, packet);
            }
        });
    }
}

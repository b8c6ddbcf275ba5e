//! `RestoreMac`.

use crate::fabric::mac::{PORTS, RouterMac};
use crate::fabric::next_hops::NextHops;
use crate::gateway::DropReason;
use crate::shared_names::drops;
use crate::values::{Mac, Macs};
use scalebricks_graph::args::{ListItem, Param};
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{Class, Control, Element, Frame, HandlerId, Out, SlotList, element};
use scalebricks_io::PacketBuf;
use scalebricks_wire::{MacAddr, ethernet};
use std::sync::Arc;

/// Numbers of next hops in the table of an element that a configuration declares.
const NUMBERS: usize = 1 << 16;

/// The MAC address of a next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHopMac {
    /// Its number.
    pub number: u16,
    /// Its address.
    pub mac: MacAddr,
}

impl Param for NextHopMac {
    const KIND: &'static str = "a next hop such as 17 02:00:00:00:00:01";

    fn read(text: &str) -> Option<Self> {
        let (number, mac) = text.trim().split_once(char::is_whitespace)?;
        let Mac(mac) = Mac::read(mac)?;
        Some(Self { number: number.parse().ok()?, mac })
    }
}

impl ListItem for NextHopMac {
    const KINDS: &'static str = "NUMBER MAC, …";
}

element! {
    /// The output of a node of a cluster router: replaces the encoded address by the MAC address of the next hop, writes
    /// that of the port as source, and sends each frame to its port. It reads no byte behind the destination address.
    pub struct RestoreMac as "RestoreMac" { ports: Vec<MacAddr>, hops: Arc<NextHops>, }
    inputs { push "in": "Frames that leave at this node.", }
    outputs { push "port" [OneOrMore]: "Frames that leave by the external port of this number.", }
    params RestoreMacParams {
        /// The MAC addresses of this node's external ports, in order.
        ports: Macs,
        /// MAC addresses of next hops, by number.
        hops: Vec<NextHopMac> = Vec::new(),
    }
    example { "02:00:00:00:00:01 02:00:00:00:00:02", "7 02:00:00:00:00:09", }
    drops {
        BAD_MAC = DropReason::BadFabricMac,
        TOO_SHORT = drops::TOO_SHORT,
        NO_PORT = "no_port": "The node has no external port of the number in the address.",
        NO_NEXT_HOP = "no_next_hop": "The MAC address of the next hop is unknown.",
    }
    counters { RESTORED = "restored": "Frames that got real addresses.", }
    handlers {
        read HOPS = "hops": "Number of next hops with an address.",
        write SET = "set": "Sets the MAC address of a next hop, `NUMBER MAC`.",
        write REMOVE = "remove": "Removes the MAC address of a next hop, `NUMBER`.",
    }
}

impl RestoreMac {
    /// The element of a node with these addresses of ports, and a table that control may change.
    ///
    /// # Errors
    /// More than [`PORTS`] ports.
    pub fn new(ports: Vec<MacAddr>, hops: Arc<NextHops>) -> Result<Self, String> {
        match ports.len() {
            1..=PORTS => Ok(Self { ports, hops }),
            count => Err(format!("{count} external ports, of 1 to {PORTS}")),
        }
    }
}

impl Class for RestoreMac {
    fn make(params: RestoreMacParams) -> Result<Self, String> {
        let RestoreMacParams { ports: Macs(ports), hops } = params;
        let table = NextHops::new(NUMBERS);
        for NextHopMac { number, mac } in hops {
            table.set(number, Some(mac));
        }
        Self::new(ports, Arc::new(table))
    }
}

impl Control for RestoreMac {
    fn read(&self, _: HandlerId) -> String {
        self.hops.len().to_string()
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        let is_set = if handler == Self::SET {
            NextHopMac::read(value).map(|hop| self.hops.set(hop.number, Some(hop.mac)))
        } else {
            value.trim().parse().ok().map(|number| self.hops.set(number, None))
        };
        match is_set {
            Some(true) => Ok(()),
            _ => Err(HandlerError::Value(format!("no next hop: `{value}`"))),
        }
    }
}

impl<P: PacketBuf> Element<P> for RestoreMac {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let mut restored = 0;
        for slot in batch.drain() {
            let bytes = frame.packet_mut(&slot).data_mut();
            let Some(mac) = ethernet::destination(bytes).and_then(RouterMac::decode) else {
                out.drop(slot, Self::BAD_MAC);
                continue;
            };
            let Some(&own) = self.ports.get(mac.port.index()) else {
                out.drop(slot, Self::NO_PORT);
                continue;
            };
            let Some(next_hop) = self.hops.get(mac.next_hop) else {
                out.drop(slot, Self::NO_NEXT_HOP);
                continue;
            };
            if !ethernet::set_addresses(bytes, next_hop, own) {
                out.drop(slot, Self::TOO_SHORT);
                continue;
            }
            restored += 1;
            out.push(mac.port.index(), slot);
        }
        out.count(Self::RESTORED, restored);
    }
}

#[cfg(test)]
mod tests {
    use crate::fabric::mac::{ExternalPort, RouterMac};
    use crate::rig::Rig;
    use scalebricks_types::NodeId;

    fn frame(port: u8, hop: u16) -> Vec<u8> {
        let mac = RouterMac::new(NodeId::new(0), ExternalPort::new(port).unwrap(), hop).encode();
        [&mac.octets()[..], b"source", b"type and packet"].concat()
    }

    #[test]
    fn real_addresses_return_at_the_port() {
        let args = ["02:00:00:00:00:01 02:00:00:00:00:02", "7 02:00:00:00:00:09", "65535 02:00:00:00:00:0a"];
        let mut rig = Rig::new(2, |builder| {
            builder.declare("r", "RestoreMac", &args).chain(&["in", "r", "out0"]).connect("r", 1, "out1", 0);
        });
        let short = frame(0, 7)[..9].to_vec();
        rig.send([frame(1, 7), frame(0, 65_535), frame(2, 7), frame(0, 8), vec![0; 60], short]);
        rig.turn();
        let restored = |hop: u8, port: u8| {
            [&[2, 0, 0, 0, 0, hop, 2, 0, 0, 0, 0, port], &b"type and packet"[..]].concat()
        };
        assert_eq!((rig.got(0), rig.got(1)), (vec![restored(10, 1)], vec![restored(9, 2)]));
        let counts = ["restored", "no_port", "no_next_hop", "bad_fabric_mac", "too_short", "hops"];
        assert_eq!(counts.map(|name| rig.number("r", name)), [2, 1, 1, 1, 1, 2]);
        rig.write("r", "set", "8 02:00:00:00:00:0b").unwrap();
        rig.write("r", "remove", "7").unwrap();
        rig.send([frame(0, 8), frame(0, 7)]);
        rig.turn();
        assert_eq!((rig.got(0), rig.number("r", "no_next_hop")), (vec![restored(11, 1)], 2));
        for wrong in ["", "8", "x 02:00:00:00:00:0b", "65536 02:00:00:00:00:0b", "8 02:00"] {
            assert!(rig.write("r", "set", wrong).is_err(), "{wrong:?}");
        }
        let built = Rig::with_buffers(5, 1, |builder| {
            builder.declare("r", "RestoreMac", &["PORTS"]).chain(&["in", "r", "out0"]);
        });
        assert!(built.is_err());
    }
}

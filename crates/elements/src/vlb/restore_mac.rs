//! `RestoreMac`.

use crate::fabric::mac::{ExternalPort, PORTS, RouterMac};
use crate::fabric::next_hops::{CONNECTED, Neighbour, NextHops};
use crate::gateway::DropReason;
use crate::shared_names::drops;
use crate::values::{Mac, Macs};
use scalebricks_graph::args::{ListItem, Param};
use scalebricks_graph::element::{BindError, HandlerError};
use scalebricks_graph::{Binder, Class, Control, Element, Frame, HandlerId, Out, SlotList, element};
use scalebricks_io::PacketBuf;
use scalebricks_wire::{MacAddr, ethernet};
use std::sync::Arc;

/// Numbers of next hops in the table of an element that a configuration declares.
const NUMBERS: usize = 1 << 16;

/// A next hop of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// Its number.
    pub number: u16,
    /// Where it is.
    pub at: NextHopAt,
}

/// How a next hop is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextHopAt {
    /// By its MAC address.
    Mac(MacAddr),
    /// By port and IP address, whose MAC address is to be resolved.
    Neighbour(Neighbour),
}

impl Param for NextHop {
    const KIND: &'static str = "a next hop such as 17 02:00:00:00:00:01 or 17 0 192.0.2.1";

    fn read(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (number, at) = match *words.as_slice() {
            [number, mac] => (number, NextHopAt::Mac(Mac::read(mac)?.0)),
            [number, port, address] => {
                let port = ExternalPort::new(port.parse().ok()?)?;
                (number, NextHopAt::Neighbour(Neighbour { port, address: address.parse().ok()? }))
            }
            _ => return None,
        };
        Some(Self { number: number.parse().ok()?, at })
    }
}

impl ListItem for NextHop {
    const KINDS: &'static str = "NUMBER MAC or NUMBER PORT ADDRESS, …";
}

impl NextHop {
    /// Enters it in a table.
    fn enter(self, table: &NextHops) -> Result<(), String> {
        match self.at {
            NextHopAt::Neighbour(neighbour) => {
                table.define(self.number, Some(neighbour)).map_err(|error| error.to_string())
            }
            NextHopAt::Mac(mac) if table.set(self.number, Some(mac)) => Ok(()),
            NextHopAt::Mac(_) => {
                Err(format!("next hops have numbers below {CONNECTED}, not {}", self.number))
            }
        }
    }
}

element! {
    /// The output of a node of a cluster router: replaces the encoded address by the MAC address of the next hop, writes
    /// that of the port as source, and sends each frame to its port. It reads no byte behind the destination address.
    /// Frames whose next hop has no known MAC address, or is the packet's own destination, go unchanged to the output
    /// behind those of the ports, for `RouterOutput`.
    pub struct RestoreMac as "RestoreMac" { ports: Vec<MacAddr>, hops: Arc<NextHops>, resolves: bool, }
    inputs { push "in": "Frames that leave at this node.", }
    outputs {
        push "port" [OneOrMore]: "Frames that leave by the external port of this number. The last: frames whose next hop is not resolved; dropped if unconnected.",
    }
    params RestoreMacParams {
        /// The MAC addresses of this node's external ports, in order.
        ports: Macs,
        /// Next hops, by number: with their MAC address, or with port and IP address to be resolved.
        hops: Vec<NextHop> = Vec::new(),
    }
    example { "02:00:00:00:00:01 02:00:00:00:00:02", "7 02:00:00:00:00:09", "8 1 192.0.2.8", }
    drops {
        BAD_MAC = DropReason::BadFabricMac,
        TOO_SHORT = drops::TOO_SHORT,
        NO_PORT = "no_port": "The node has no external port of the number in the address.",
        NO_NEXT_HOP = "no_next_hop": "The MAC address of the next hop is unknown.",
    }
    counters { RESTORED = "restored": "Frames that got real addresses.", }
    handlers {
        read HOPS = "hops": "Number of next hops with a MAC address.",
        write SET = "set": "Sets a next hop: `NUMBER MAC`, or `NUMBER PORT ADDRESS` to be resolved.",
        write REMOVE = "remove": "Removes a next hop, `NUMBER`.",
    }
}

impl RestoreMac {
    /// The element of a node with these addresses of ports, and a table that control may change.
    ///
    /// # Errors
    /// More than [`PORTS`] ports.
    pub fn new(ports: Vec<MacAddr>, hops: Arc<NextHops>) -> Result<Self, String> {
        match ports.len() {
            1..=PORTS => Ok(Self { ports, hops, resolves: false }),
            count => Err(format!("{count} external ports, of 1 to {PORTS}")),
        }
    }

    pub(crate) const fn hops(&self) -> &Arc<NextHops> {
        &self.hops
    }
}

impl Class for RestoreMac {
    fn make(params: RestoreMacParams) -> Result<Self, String> {
        let RestoreMacParams { ports: Macs(ports), hops } = params;
        let table = NextHops::new(NUMBERS);
        for hop in hops {
            hop.enter(&table)?;
        }
        Self::new(ports, Arc::new(table))
    }
}

impl Control for RestoreMac {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.resolves = binder.is_connected(self.ports.len());
        Ok(())
    }

    fn read(&self, _: HandlerId) -> String {
        self.hops.len().to_string()
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        let wrong = || HandlerError::Value(format!("no next hop: `{value}`"));
        if handler == Self::SET {
            return NextHop::read(value).ok_or_else(wrong)?.enter(&self.hops).map_err(HandlerError::Value);
        }
        let number = value.trim().parse().map_err(|_| wrong())?;
        self.hops.define(number, None).map_err(|error| HandlerError::Value(error.to_string()))?;
        self.hops.set(number, None);
        Ok(())
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
                if self.resolves {
                    out.push(self.ports.len(), slot);
                } else {
                    out.drop(slot, Self::NO_NEXT_HOP);
                }
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
        let args = [
            "02:00:00:00:00:01 02:00:00:00:00:02",
            "7 02:00:00:00:00:09",
            "65534 02:00:00:00:00:0a",
            "9 0 192.0.2.9",
        ];
        let mut rig = Rig::new(2, |builder| {
            builder.declare("r", "RestoreMac", &args).chain(&["in", "r", "out0"]).connect("r", 1, "out1", 0);
        });
        let short = frame(0, 7)[..9].to_vec();
        rig.send([frame(1, 7), frame(0, 65_534), frame(2, 7), frame(0, 8), vec![0; 60], short]);
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
        for wrong in [
            "",
            "8",
            "x 02:00:00:00:00:0b",
            "65535 02:00:00:00:00:0b",
            "65536 02:00:00:00:00:0b",
            "8 02:00",
            "8 64 192.0.2.1",
            "8 0 224.0.0.1",
        ] {
            assert!(rig.write("r", "set", wrong).is_err(), "{wrong:?}");
        }
        // With an output for them, frames without a MAC address keep theirs.
        let mut rig = Rig::new(2, |builder| {
            builder.declare("r", "RestoreMac", &["02:00:00:00:00:01", "7 0 192.0.2.7"]);
            builder.chain(&["in", "r", "out0"]).connect("r", 1, "out1", 0);
        });
        let unresolved = [frame(0, 7), frame(0, 65_535), frame(0, 9)];
        rig.send(unresolved.clone());
        rig.turn();
        assert_eq!((rig.got(1), rig.number("r", "no_next_hop")), (unresolved.to_vec(), 0));
        let built = Rig::with_buffers(5, 1, |builder| {
            builder.declare("r", "RestoreMac", &["PORTS"]).chain(&["in", "r", "out0"]);
        });
        assert!(built.is_err());
    }
}

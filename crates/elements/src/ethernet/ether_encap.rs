//! `EtherEncap`.

use crate::shared_names::{drops, handlers};
use crate::values::Mac;
use scalebricks_graph::args::Param;
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{Control, HandlerId, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;
use scalebricks_wire::ethernet::{HEADER_LEN, header};

element! {
    /// Adds a fixed Ethernet header to packets.
    pub struct EtherEncap as "EtherEncap" { ethertype: u16, src: Mac, dst: Mac, }
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "The same packets with an Ethernet header.", }
    params EtherEncapParams {
        /// The ethertype, such as 0x0800.
        ethertype: u16,
        /// The source.
        src: Mac,
        /// The destination.
        dst: Mac,
    }
    example { "0x800", "2:0:0:0:0:1", "2:0:0:0:0:2", }
    drops { NO_ROOM = drops::NO_HEADROOM, }
    handlers {
        read SRC = handlers::SRC,
        read DST = handlers::DST,
        read ETHERTYPE = "ethertype": "The type.",
        write SET_SRC = handlers::SET_SRC,
        write SET_DST = handlers::SET_DST,
        write SET_ETHERTYPE = "ethertype": "Sets the type.",
    }
    makes |EtherEncapParams { ethertype, src, dst }| Self { ethertype, src, dst },
}

/// Adds a header to a packet and shifts its recorded offsets; `false` if there is no headroom.
#[inline]
pub(crate) fn encapsulate<P: PacketBuf>(packet: &mut P, meta: &mut Meta, header: &[u8; HEADER_LEN]) -> bool {
    if packet.prepend(HEADER_LEN).is_err() {
        return false;
    }
    if let Some(front) = packet.data_mut().first_chunk_mut() {
        *front = *header;
    }
    meta.l3 = meta.l3.saturating_add(HEADER_LEN as u16);
    meta.l4 = meta.l4.saturating_add(HEADER_LEN as u16);
    true
}

impl Control for EtherEncap {
    fn read(&self, handler: HandlerId) -> String {
        match handler {
            Self::SRC => self.src.0.to_string(),
            Self::DST => self.dst.0.to_string(),
            _ => self.ethertype.to_string(),
        }
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        let wrong = |what: &str| HandlerError::Value(format!("no {what}: {value:?}"));
        if handler == Self::SET_ETHERTYPE {
            self.ethertype = u16::read(value.trim()).ok_or_else(|| wrong("type"))?;
            return Ok(());
        }
        let mac = Mac::read(value).ok_or_else(|| wrong("MAC address"))?;
        *(if handler == Self::SET_SRC { &mut self.src } else { &mut self.dst }) = mac;
        Ok(())
    }
}

impl<P: PacketBuf> PerPacket<P> for EtherEncap {
    fn each(&mut self, packet: &mut P, meta: &mut Meta, _: PacketContext<'_>) -> Verdict {
        let header = header(self.dst.0, self.src.0, self.ethertype);
        if encapsulate(packet, meta, &header) { Verdict::ON } else { Verdict::Drop(Self::NO_ROOM) }
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn packets_get_the_header_that_is_set() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("e", "EtherEncap", &["0x0800", "1:1:1:1:1:1", "2:2:2:2:2:2"]);
            builder.chain(&["in", "e", "out0"]);
        });
        rig.send(["abc"]);
        rig.turn();
        assert_eq!(rig.got(0), [b"\x02\x02\x02\x02\x02\x02\x01\x01\x01\x01\x01\x01\x08\x00abc"]);
        rig.write("e", "src", "3:0:0:0:0:3").unwrap();
        rig.write("e", "dst", " ff-ff-ff-ff-ff-ff ").unwrap();
        assert_eq!(
            ["src", "dst", "ethertype"].map(|name| rig.read("e", name)),
            ["03:00:00:00:00:03", "ff:ff:ff:ff:ff:ff", "2048"]
        );
        assert!(rig.write("e", "dst", "ff:ff").is_err() && rig.write("e", "ethertype", "65536").is_err());
        rig.write("e", "ethertype", "0x0801").unwrap();
        rig.send([""]);
        rig.turn();
        assert_eq!(rig.got(0)[0][4..], [0xff, 0xff, 3, 0, 0, 0, 0, 3, 8, 1]);
    }

    #[test]
    fn headers_fit_as_long_as_there_is_room() {
        let mut rig = Rig::new(1, |builder| {
            let names = (0..10).map(|n| format!("e{n}")).collect::<Vec<_>>();
            for name in &names {
                builder.declare(name, "EtherEncap", &["2", "1:1:1:1:1:1", "2:2:2:2:2:2"]);
            }
            let row: Vec<&str> =
                ["in"].into_iter().chain(names.iter().map(String::as_str)).chain(["out0"]).collect();
            builder.chain(&row);
        });
        rig.send(["abc"]);
        rig.turn();
        // 128 bytes of headroom hold 9 headers.
        assert_eq!((rig.number("e9", "packets"), rig.number("e9", "no_headroom")), (1, 1));
    }
}

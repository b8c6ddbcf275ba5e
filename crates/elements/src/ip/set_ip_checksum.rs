//! `SetIPChecksum`.

use crate::columns::IpHeader;
use crate::header;
use crate::shared_names::drops;
use scalebricks_graph::{Control, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;

element! {
    /// Recomputes the IPv4 header checksum. Elements that change a header update its checksum themselves.
    pub struct SetIPChecksum as "SetIPChecksum" {}
    inputs { agnostic "in": "IPv4 packets.", }
    outputs { agnostic "out": "The same packets with a valid checksum.", }
    reads { IpHeader, }
    drops { NO_HEADER = drops::NO_HEADER, }
    makes |_| Self {},
}

impl Control for SetIPChecksum {}

impl<P: PacketBuf> PerPacket<P> for SetIPChecksum {
    fn each(&mut self, packet: &mut P, meta: &mut Meta, _: PacketContext<'_>) -> Verdict {
        match header::whole_mut(packet.data_mut(), meta) {
            Some(header) => header::sum(header),
            None => return Verdict::Drop(Self::NO_HEADER),
        }
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv4, ipv4_with_options};

    #[test]
    fn wrong_checksums_become_right() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("m", "MarkIPHeader", &[]).declare("s", "SetIPChecksum", &[]);
            builder.chain(&["in", "m", "s", "out0"]);
        });
        let right = [ipv4(9, b"abc"), ipv4_with_options(&[1, 1, 1, 0], b"abc")];
        let mut wrong = right.clone();
        for packet in &mut wrong {
            packet[10..12].fill(0xa5);
        }
        rig.send(wrong);
        rig.turn();
        assert_eq!(rig.got(0), right);
    }
}

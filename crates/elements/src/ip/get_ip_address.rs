//! `GetIPAddress`.

use crate::columns::DstIp;
use crate::shared_names::drops;
use scalebricks_graph::element::BindError;
use scalebricks_graph::frame::Parts;
use scalebricks_graph::{Binder, Class, Control, Frame, Handle, Out, SlotList, Spec, element};
use scalebricks_io::PacketBuf;
use std::net::Ipv4Addr;

element! {
    /// Sets the destination annotation from four bytes of each packet: offset 16 is the destination of a packet that
    /// starts with its IPv4 header.
    #[derive(Debug)]
    pub struct GetIPAddress as "GetIPAddress" { offset: usize, dst: Handle<DstIp>, }
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "The same.", }
    params GetIPAddressParams {
        /// Offset of the address.
        offset: usize,
    }
    example { "16", }
    writes { DstIp, }
    drops { SHORT = drops::TOO_SHORT, }
}

/// The address at an offset of a packet.
#[inline]
pub(crate) fn address(data: &[u8], offset: usize) -> Option<Ipv4Addr> {
    data.get(offset..)?.first_chunk().map(|octets: &[u8; 4]| Ipv4Addr::from(*octets))
}

impl Class for GetIPAddress {
    const SPEC: &'static Spec = Self::SPEC;
    type Params = GetIPAddressParams;

    fn make(params: GetIPAddressParams) -> Result<Self, String> {
        Ok(Self { offset: params.offset, dst: Handle::default() })
    }
}

impl Control for GetIPAddress {
    fn spec(&self) -> &'static Spec {
        Self::SPEC
    }

    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.dst = binder.column()?;
        Ok(())
    }
}

impl GetIPAddress {
    fn process<P: PacketBuf>(
        &mut self,
        batch: &mut SlotList,
        start: usize,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        let Parts { packets, columns, .. } = frame.parts();
        let dst = columns.get_mut(self.dst);
        batch.filter_map_from(start, |slot| {
            let Some(address) = address(packets[&slot].data(), self.offset) else {
                out.drop(slot, Self::SHORT);
                return None;
            };
            dst[&slot] = DstIp(address);
            Some(slot)
        });
    }
}

crate::agnostic::agnostic!(GetIPAddress);

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn the_address_is_where_the_packet_goes() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("g", "GetIPAddress", &["2"]).declare(
                "arp",
                "ARPQuerier",
                &["10.0.0.1", "2:0:0:0:0:1"],
            );
            builder
                .declare("idle", "Idle", &[])
                .connect("idle", 0, "arp", 1)
                .chain(&["in", "g", "arp", "out0"]);
        });
        rig.send([&[0, 0, 10, 0, 0, 7, 1][..], &[0, 0, 10, 0, 0]]);
        rig.turn();
        let query = rig.got(0).remove(0);
        assert_eq!((&query[38..42], rig.number("g", "too_short")), (&[10, 0, 0, 7][..], 1));
    }
}

//! Test elements before and after elements that use IP metadata.

use crate::columns::{DstIp, IpHeader};
use scalebricks_graph::{Control, Element, Frame, Handle, Out, SlotList, element};
use scalebricks_io::PacketBuf;
use std::net::Ipv4Addr;

element! {
    /// Marks each packet's IP header as at its start, and its destination as the address in its first four bytes.
    #[derive(Default)]
    pub(crate) struct Given as "Given" { dst: Handle<DstIp>, }
    inputs { push "in": "Packets.", }
    outputs { push "out": "The same.", }
    writes { DstIp, IpHeader, }
    binds { dst, }
}

element! {
    /// Writes each packet's destination address into its first four bytes.
    #[derive(Default)]
    pub(crate) struct Shown as "Shown" { dst: Handle<DstIp>, }
    inputs { push "in": "Packets.", }
    outputs { push "out": "The same.", }
    reads { DstIp, }
    binds { dst, }
}

impl Control for Given {}

impl Control for Shown {}

impl<P: PacketBuf> Element<P> for Given {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        for slot in batch.iter() {
            let (packet, meta) = frame.both_mut(slot);
            let header_len = u16::from(packet.data().first().copied().unwrap_or(0) & 0xF) * 4;
            (meta.l3, meta.l4, meta.length) = (0, header_len, packet.data().len() as u16);
            let address =
                packet.data().first_chunk::<4>().map_or(Ipv4Addr::UNSPECIFIED, |octets| (*octets).into());
            frame.column_mut(self.dst)[slot] = DstIp(address);
        }
        out.all(0, batch);
    }
}

impl<P: PacketBuf> Element<P> for Shown {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        for slot in batch.iter() {
            let address = frame.column(self.dst)[slot].0.octets();
            frame.packet_mut(slot).data_mut()[..4].copy_from_slice(&address);
        }
        out.all(0, batch);
    }
}

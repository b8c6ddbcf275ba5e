//! `IPsecDecap`.

use crate::esp::inbound::{Inbound, OpenError, Outer};
use crate::esp::load::{is_same, line, load};
use crate::shared_names::{counters, drops, handlers};
use crate::side_output::SideOutput;
use scalebricks_graph::{
    Control, DropId, Element, Environment, Frame, HandlerId, Meta, Out, SlotList, element,
};
use scalebricks_io::PacketBuf;
use std::any::Any;

element! {
    /// Decrypts ESP packets of tunnel mode (RFC 4303), alone or in UDP (RFC 3948), over both IP versions. Packets must
    /// start with the outer IP header. What leaves was authentic, new, and within the selectors of the association of its
    /// SPI. Combines ECN of both headers (RFC 6040). Outer fragments are not reassembled. A new configuration reads the
    /// file again, and continues the windows of associations whose SPI, destination and keys are the same.
    pub struct IPsecDecap as "IPsecDecap" {
        file: String, names: Vec<String>, is_open: bool, tunnels: Vec<Inbound>, side: SideOutput,
    }
    inputs { push "in": "IP packets with ESP, alone or in UDP to port 4500.", }
    outputs {
        push "out": "The inner packets, of either IP version.",
        push "other" [Optional]: "Packets without ESP, such as IKE; dropped if unconnected.",
    }
    params IPsecDecapParams {
        /// The file with security associations and keys, readable by its owner only.
        filename: String,
        /// The names of associations in it.
        sa: Vec<String>,
    }
    example { "sa.toml", "left-to-right", }
    drops {
        NO_SA = drops::NO_SA,
        EXPIRED = drops::SA_EXPIRED,
        REPLAY = "replay": "The sequence number was received before, or is older than the anti-replay window.",
        BAD_ICV = "bad_icv": "The packet is not authentic.",
        MALFORMED = drops::MALFORMED,
        POLICY = "policy_mismatch": "The inner addresses are outside the selectors of the packet's security association.",
        ECN = "congestion_unknown": "The outer header marks congestion, and the inner packet's transport does not know ECN.",
        FRAGMENT = "esp_fragment": "The outer packet is a fragment.",
        DUMMY = "dummy": "The packet has no content: its sender hides how much it sends.",
        KEEPALIVE = "nat_keepalive": "The packet only keeps a mapping of a NAT alive.",
        NOT_ESP = "not_esp": "The packet is not ESP.",
    }
    counters {
        PACKETS = "decrypted": "Packets decrypted.",
        BYTES = "decrypted_bytes": "Bytes of these packets after decryption.",
        AGEING = counters::SA_AGEING,
    }
    handlers { read SAS = handlers::SAS, }
    binds { side, }
    makes |IPsecDecapParams { filename: file, sa: names }| Self {
        file, names, is_open: false, tunnels: Vec::new(), side: SideOutput::default(),
    },
}

const fn reason(error: OpenError) -> DropId {
    match error {
        OpenError::Expired => IPsecDecap::EXPIRED,
        OpenError::Replay => IPsecDecap::REPLAY,
        OpenError::BadIcv => IPsecDecap::BAD_ICV,
        OpenError::Malformed => IPsecDecap::MALFORMED,
        OpenError::Policy => IPsecDecap::POLICY,
        OpenError::Ecn => IPsecDecap::ECN,
        OpenError::Dummy => IPsecDecap::DUMMY,
    }
}

/// A packet that is not decrypted.
enum Refused {
    Other,
    Drop(DropId),
}

impl IPsecDecap {
    #[inline]
    fn decrypt<P: PacketBuf>(&mut self, packet: &mut P) -> Result<(), Refused> {
        let at = match Outer::read(packet.data()) {
            Outer::Esp(at) => at,
            Outer::Keepalive => return Err(Refused::Drop(Self::KEEPALIVE)),
            Outer::Fragment => return Err(Refused::Drop(Self::FRAGMENT)),
            Outer::Malformed => return Err(Refused::Drop(Self::MALFORMED)),
            Outer::Other => return Err(Refused::Other),
        };
        // Sorted by SPI, which few associations share.
        let first = self.tunnels.partition_point(|tunnel| tunnel.sa().spi.get() < at.spi);
        let mut same =
            self.tunnels.iter_mut().skip(first).take_while(|tunnel| tunnel.sa().spi.get() == at.spi);
        let tunnel = same.find(|tunnel| tunnel.takes(&at)).ok_or(Refused::Drop(Self::NO_SA))?;
        tunnel.open(packet, &at).map_err(|error| Refused::Drop(reason(error)))
    }
}

impl Control for IPsecDecap {
    fn read(&self, _: HandlerId) -> String {
        let lines =
            self.tunnels.iter().map(|end| line(end.sa(), end.carried(), end.sequence(), end.is_ageing()));
        lines.collect()
    }

    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        if !self.is_open {
            (self.tunnels, self.is_open) = (std::mem::take(&mut before.tunnels), before.is_open);
        }
        for end in &mut self.tunnels {
            if let Some(same) = before.tunnels.iter_mut().find(|other| is_same(end.sa(), other.sa())) {
                end.continue_from(same);
            }
        }
    }
}

impl<P: PacketBuf> Element<P> for IPsecDecap {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (mut packets, mut bytes) = (0, 0);
        for slot in batch.drain() {
            let (packet, meta) = frame.both_mut(&slot);
            match self.decrypt(packet) {
                Ok(()) => {
                    (packets, bytes) = (packets + 1, bytes + packet.data().len() as u64);
                    let Meta { l3, l4, length, .. } = meta;
                    (*l3, *l4, *length) = (0, 0, 0);
                    out.push(0, slot);
                }
                Err(Refused::Other) => self.side.send(slot, Self::NOT_ESP, out),
                Err(Refused::Drop(reason)) => out.drop(slot, reason),
            }
        }
        out.count(Self::PACKETS, packets);
        out.count(Self::BYTES, bytes);
        out.set(Self::AGEING, self.tunnels.iter().filter(|end| end.is_ageing()).count() as u64);
    }

    fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        let all = load(world, &self.file, &self.names)?;
        let make = |sa| Inbound::new(sa).ok_or_else(|| "a key was refused".to_owned());
        self.tunnels = all.into_iter().map(make).collect::<Result<_, _>>()?;
        self.tunnels.sort_by_key(|tunnel| tunnel.sa().spi);
        self.is_open = true;
        Ok(())
    }
}

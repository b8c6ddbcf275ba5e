//! `IPsecEncap`.

use crate::columns::{DstIp, IpHeader};
use crate::esp::frames::{Found, Frames, Given, hop_to, lower_ttl, put_front};
use crate::esp::inner::Inner;
use crate::esp::load::{line, load};
use crate::esp::senders::{Fate, Senders};
use crate::header;
use crate::next_hops::{Hop, nanoseconds};
use crate::plain::{leave, prefetch_first_lines};
use crate::shared_names::{counters, drops, handlers};
use crate::side_output::SideOutput;
use crate::values::{Mac, Prefixes};
use arrayvec::ArrayVec;
use scalebricks_graph::{
    Bursts, Chunk, Class, Control, Element, Environment, Frame, Graph, Handle, HandlerId, Out, SLOTS,
    SlotList, element,
};
use scalebricks_io::{BURST, PacketBuf};
use scalebricks_wire::ethernet::HEADER_LEN;
use scalebricks_wire::{ipv4, ipv6};
use std::any::Any;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

element! {
    /// Encrypts IP packets of both versions by ESP in tunnel mode (RFC 4303). The first of the associations `SA` with a
    /// selector that matches source and destination is used; a packet that none is for is dropped, so that nothing passes
    /// in clear. Packets must start with the IP header. ECN is copied to the outer header (RFC 6040), and the DSCP too if
    /// the association says nothing else; the inner TTL is not changed, since `DecIPTTL` does so. Sets the destination
    /// annotation to the tunnel's far end if that has an IPv4 address, and on output 1 to the packet's destination. A new configuration reads the file again, and
    /// continues associations whose SPI, destination and keys are the same. No second element may send by the same
    /// association.
    ///
    /// Input 1 takes bursts of Ethernet frames from a port. Their ordinary IPv4 packets are routed and encrypted in one
    /// loop, with the result that `CheckIPHeader`, the routes, `DecIPTTL`, input 0, the routes of encrypted packets and
    /// `ARPQuerier` give. All other frames leave by output 2 unchanged, for those elements.
    pub struct IPsecEncap as "IPsecEncap" {
        file: String, names: Vec<String>, is_open: bool, tunnels: Senders, side: SideOutput, dst: Handle<DstIp>,
        frames: Option<Frames>,
    }
    inputs {
        push "in": "IP packets.",
        burst "frames" [Optional]: "Frames from a port.",
    }
    outputs {
        push "out": "ESP packets, alone or in UDP, of the association's outer IP version.",
        push "too_big" [Optional]: "Packets that would become longer than the association's MTU, unchanged; dropped if unconnected.",
        push "slow" [Optional]: "Frames that it does not handle, unchanged.",
        burst "fast" [Optional]: "Frames with encrypted packets.",
    }
    params IPsecEncapParams {
        /// The file with security associations and keys, readable by its owner only.
        filename: String,
        /// The names of associations in it, in order of preference.
        sa: Vec<String>,
        /// The MAC address of the port whose frames come by input 1. This and the next four keywords belong together.
        eth: Option<Mac> = None,
        /// The output of routes to packets that are to be encrypted, and of routes to encrypted packets.
        port: Option<u16> = None,
        /// The element with the routes of packets before encryption.
        routes: Option<String> = None,
        /// The element with the routes of encrypted packets.
        outer: Option<String> = None,
        /// The `ARPQuerier` of each output of routes, from output 1 on.
        arp: Option<String> = None,
        /// The router's addresses, as for `CheckIPHeader`.
        interfaces: Option<Prefixes> = None,
    }
    example { "sa.toml", "left-to-right", }
    writes { IpHeader on "out", DstIp on "out", IpHeader on "too_big", DstIp on "too_big", }
    drops {
        NO_SA = drops::NO_SA,
        EXPIRED = drops::SA_EXPIRED,
        EXHAUSTED = "sequence_exhausted": "All sequence numbers of the packet's security association were used.",
        TOO_BIG = "too_big": "The packet would become longer than the tunnel's MTU.",
        LONG = drops::OVER_LENGTH,
        MALFORMED = drops::MALFORMED,
        NO_ROOM = drops::NO_ROOM_FOR_ESP,
    }
    counters {
        PACKETS = "encrypted": "Packets encrypted.",
        BYTES = "encrypted_bytes": "Bytes of these packets before encryption.",
        AGEING = counters::SA_AGEING,
        FORWARDED = "fast": "Packets of these that came and left as whole frames.",
    }
    handlers { read SAS = handlers::SAS, }
    hooks { Between, }
    binds { side, dst, }
}

impl Class for IPsecEncap {
    fn make(params: IPsecEncapParams) -> Result<Self, String> {
        let IPsecEncapParams { filename: file, sa: names, eth, port, routes, outer, arp, interfaces } =
            params;
        // The association's MTU is the limit.
        let given = Given { eth, port, routes, outer, arp, interfaces, mtu: usize::from(u16::MAX) };
        Ok(Self {
            file,
            names,
            is_open: false,
            tunnels: Senders::default(),
            side: SideOutput::default(),
            dst: Handle::default(),
            frames: Frames::new(given, true)?,
        })
    }
}

/// Outputs of frames.
const SLOW: usize = 2;
const FAST: usize = 3;

impl IPsecEncap {
    /// Encrypts the ordinary packets of a burst; returns how many, and their bytes.
    #[inline]
    fn encrypt<P: PacketBuf>(
        &mut self,
        chunk: &mut Chunk<P>,
        now: u64,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) -> (u64, u64) {
        let mut fates: ArrayVec<_, BURST> = chunk.packets.iter().map(|_| Fate::TooBig).collect();
        let mut hops = [Hop::default(); BURST];
        if out.outputs() > FAST {
            self.choose(&mut chunk.packets, now, &mut fates, &mut hops);
            self.tunnels.seal_added(&mut chunk.packets, &mut fates);
        }
        let (mut packets, mut bytes) = (0, 0);
        for ((mut packet, fate), hop) in chunk.packets.drain(..).zip(fates).zip(&hops) {
            match fate {
                Fate::Sealed(_, len) if put_front(&mut packet, hop) => {
                    (packets, bytes) = (packets + 1, bytes + len as u64);
                    frame.send(FAST, packet);
                }
                Fate::Sealed(..) => out.drop_packet(packet, Self::NO_ROOM, frame),
                Fate::TooBig => leave(packet, SLOW, frame, out),
                Fate::Drop(reason) => out.drop_packet(packet, reason, frame),
            }
        }
        (packets, bytes)
    }

    /// Prepares the frames of a burst whose packets are ordinary, and notes where they go once they are encrypted. The
    /// other ones are unchanged.
    #[inline]
    fn choose<P: PacketBuf>(
        &mut self,
        packets: &mut [P],
        now: u64,
        fates: &mut [Fate],
        hops: &mut [Hop; BURST],
    ) {
        let Some(Frames { gate, port, inner, outer: Some(outer), .. }) = &mut self.frames else { return };
        let (Some(inner), Some(outer)) = (inner.current(), outer.current()) else { return };
        let ordinary = |_: usize, frame: &[u8]| gate.four.destination(gate.packet(frame)?);
        let found = Found::new(packets, inner, ordinary);
        // Most packets of a burst take the same association.
        let mut known: Option<(usize, Option<Hop>)> = None;
        for (at, packet) in packets.iter_mut().enumerate() {
            let is_outbound = found.at(at).is_some_and(|(hop, _)| inner.output(hop) == Some(*port));
            let read = packet.data().get(HEADER_LEN..).filter(|_| is_outbound).map(Inner::read);
            let Some(Ok(read)) = read else { continue };
            let Some((sender, true)) = self.tunnels.choose(&read) else { continue };
            let to = match known {
                Some((same, to)) if same == sender => to,
                _ => hop_to(outer, self.tunnels.sa(sender).dst, *port, now),
            };
            known = Some((sender, to));
            if let Some(to) = to
                && packet.trim_front(HEADER_LEN).is_ok()
            {
                lower_ttl(packet);
                hops[at] = to;
                fates[at] = self.tunnels.add(at, read);
            }
        }
    }

    fn count(&self, packets: u64, bytes: u64, out: &Out<'_>) {
        out.count(Self::PACKETS, packets);
        out.count(Self::BYTES, bytes);
        out.set(Self::AGEING, self.tunnels.ageing());
    }
}

impl Control for IPsecEncap {
    fn read(&self, _: HandlerId) -> String {
        self.tunnels
            .ends()
            .map(|end| line(end.sa(), end.carried(), end.sequence(), end.is_ageing()))
            .collect()
    }

    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        if !self.is_open {
            (self.tunnels, self.is_open) = (std::mem::take(&mut before.tunnels), before.is_open);
        }
        self.tunnels.continue_from(&mut before.tunnels);
    }
}

impl<P: PacketBuf + 'static> Element<P> for IPsecEncap {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (mut packets, mut bytes, mut fates) = (0, 0, ArrayVec::<_, SLOTS>::new());
        for slots in batch.as_slice().chunks(BURST) {
            frame.together(slots, |packets| self.tunnels.seal(packets, &mut fates));
        }
        for (slot, fate) in batch.drain().zip(fates) {
            let (sender, len) = match fate {
                Fate::Sealed(sender, len) => (sender, len),
                Fate::TooBig => {
                    let (packet, meta) = frame.both_mut(&slot);
                    let first = packet.data().first().copied().unwrap_or(0);
                    let (inner, mut to) = (Inner::read(packet.data()), Ipv4Addr::UNSPECIFIED);
                    if let Ok(Inner { dst, len, .. }) = inner {
                        let v4 = usize::from(first & 0xf) * 4;
                        header::note(meta, 0, if dst.is_ipv4() { v4 } else { ipv6::HEADER_LEN }, len);
                        to = if let IpAddr::V4(dst) = dst { dst } else { to };
                    }
                    frame.column_mut(self.dst)[&slot] = DstIp(to);
                    self.side.send(slot, Self::TOO_BIG, out);
                    continue;
                }
                Fate::Drop(reason) => {
                    out.drop(slot, reason);
                    continue;
                }
            };
            (packets, bytes) = (packets + 1, bytes + len as u64);
            let (header_len, dst) = match self.tunnels.sa(sender).dst {
                IpAddr::V4(dst) => (ipv4::MIN_HEADER_LEN, dst),
                IpAddr::V6(_) => (ipv6::HEADER_LEN, Ipv4Addr::UNSPECIFIED),
            };
            let (packet, meta) = frame.both_mut(&slot);
            header::note(meta, 0, header_len, packet.data().len());
            frame.column_mut(self.dst)[&slot] = DstIp(dst);
            out.push(0, slot);
        }
        self.count(packets, bytes, out);
    }

    fn burst(&mut self, _: usize, bursts: &mut Bursts<P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (now, mut packets, mut bytes) = (nanoseconds(out.now()), 0, 0);
        prefetch_first_lines(bursts);
        bursts.each(|chunk| {
            let (more, more_bytes) = self.encrypt(chunk, now, frame, out);
            (packets, bytes) = (packets + more, bytes + more_bytes);
        });
        out.count(Self::FORWARDED, packets);
        self.count(packets, bytes, out);
    }

    fn between(&mut self, _: &str, graph: &mut Graph<P>, now: Duration) {
        if let Some(frames) = &mut self.frames {
            frames.refresh(graph, now);
        }
    }

    fn fault(&self) -> Option<String> {
        self.frames.as_ref().and_then(Frames::fault)
    }

    fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        self.tunnels = Senders::new(load(world, &self.file, &self.names)?)?;
        self.is_open = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv4, ipv4_of};
    use crate::test_environment::TestEnvironment;
    use scalebricks_graph::Clock;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    const SECTION: &str = r#"
[[sa]]
name = "NAME"
spi = 0x1001
suite = "aes-128-gcm"
key = "000102030405060708090a0b0c0d0e0f10111213"
src = "192.0.2.1"
dst = "192.0.2.2"
selectors = [{ src = "10.0.0.0/16", dst = "10.0.0.0/16" }]
mtu = 600
"#;

    /// A file with this association and these other lines.
    fn keys(folder: &Path, name: &str, lines: &str) -> String {
        let path = folder.join("sa.toml");
        std::fs::write(&path, SECTION.replace("NAME", name) + lines).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.display().to_string()
    }

    /// Encrypted packets leave at end 0, those too big at end 1.
    fn encap(file: &str) -> Rig {
        let mut rig = Rig::new(2, |builder| {
            builder
                .declare("e", "IPsecEncap", &[file, "a"])
                .chain(&["in", "e", "out0"])
                .connect("e", 1, "out1", 0);
        });
        rig.open(&mut TestEnvironment::new(Clock::Wall)).unwrap();
        rig
    }

    fn decap(file: &str) -> Rig {
        let mut rig = Rig::new(2, |builder| {
            builder
                .declare("d", "IPsecDecap", &[file, "a"])
                .chain(&["in", "d", "out0"])
                .connect("d", 1, "out1", 0);
        });
        rig.open(&mut TestEnvironment::new(Clock::Wall)).unwrap();
        rig
    }

    #[test]
    fn packets_cross_a_tunnel_and_nothing_passes_in_clear() {
        let folder = tempfile::tempdir().unwrap();
        let file = keys(folder.path(), "a", "");
        let (mut near, mut far) = (encap(&file), decap(&file));
        let clear: Vec<Vec<u8>> = (0..100).map(|n| ipv4(9, &vec![n; usize::from(n) * 5])).collect();
        let elsewhere = ipv4_of(|header| header.dst = [11, 0, 0, 1].into(), b"secret");
        let long = ipv4(9, &[7; 600]);
        near.send(clear.clone().into_iter().chain([elsewhere, long.clone(), vec![0x45; 10], vec![]]));
        near.turn();
        let sealed = near.noted(0);
        assert_eq!((sealed.len(), near.got(1)), (100, vec![long]));
        assert_eq!(["no_sa", "malformed", "too_big"].map(|reason| near.number("e", reason)), [1, 2, 0]);
        assert_eq!((near.number("e", "encrypted"), sealed[0].1.l4), (100, 20));
        far.send(sealed.iter().map(|(bytes, _)| bytes.clone()));
        far.turn();
        assert_eq!(far.got(0), clear);
        far.send(sealed.iter().map(|(bytes, _)| bytes.clone()));
        let mut forged = sealed[7].0.clone();
        forged[27] = 200; // a number not yet seen
        let mut unknown = sealed[8].0.clone();
        unknown[23] ^= 1; // another SPI
        let other = ipv4_of(|header| header.protocol = 6, b"not ESP");
        let fragment = ipv4_of(|header| (header.more_fragments, header.protocol) = (true, 50), &[0; 40]);
        far.send([forged, unknown, other.clone(), fragment, vec![0x45; 5]]);
        far.turn();
        assert_eq!((far.got(0).len(), far.got(1)), (0, vec![other]));
        let reasons = ["replay", "bad_icv", "no_sa", "esp_fragment", "malformed"];
        assert_eq!(reasons.map(|reason| far.number("d", reason)), [100, 1, 1, 1, 1]);
        let sas = far.read("d", "sas");
        assert!(sas.starts_with("a 0x1001 aes-128-gcm 100 ") && sas.ends_with(" 100 fresh\n"), "{sas}");
    }

    #[test]
    fn nothing_passes_without_keys_or_after_their_lifetime() {
        let folder = tempfile::tempdir().unwrap();
        let mut unopened = Rig::new(1, |builder| {
            builder.declare("e", "IPsecEncap", &["none.toml", "a"]).chain(&["in", "e", "out0"]);
        });
        unopened.send([ipv4(9, b"secret")]);
        unopened.turn();
        assert_eq!((unopened.got(0).len(), unopened.number("e", "no_sa")), (0, 1));
        let file = keys(folder.path(), "a", "hard = { packets = 3 }\nsoft = { packets = 2 }\n");
        let mut near = encap(&file);
        near.send((0..5).map(|n| ipv4(9, &[n])));
        near.turn();
        assert_eq!(
            (near.got(0).len(), near.number("e", "sa_expired"), near.number("e", "sa_ageing")),
            (3, 2, 1)
        );
        near.send([ipv4(9, b"secret")]);
        near.turn();
        assert_eq!((near.got(0).len(), near.number("e", "sa_expired")), (0, 3));
        assert!(near.read("e", "sas").ends_with(" expired\n"));
    }

    #[test]
    fn a_new_configuration_continues_numbers_and_windows() {
        let folder = tempfile::tempdir().unwrap();
        let file = keys(folder.path(), "a", "");
        let (mut near, mut far) = (encap(&file), decap(&file));
        near.send([ipv4(9, b"1")]);
        near.turn();
        let first = near.got(0);
        near.replace(|builder| {
            builder
                .declare("e", "IPsecEncap", &[&file, "a"])
                .chain(&["in", "e", "out0"])
                .connect("e", 1, "out1", 0);
        });
        near.send([ipv4(9, b"2")]);
        near.turn();
        let second = near.got(0);
        assert_eq!((first[0][27], second[0][27]), (1, 2));
        far.send(first.clone());
        far.turn();
        far.replace(|builder| {
            builder
                .declare("d", "IPsecDecap", &[&file, "a"])
                .chain(&["in", "d", "out0"])
                .connect("d", 1, "out1", 0);
        });
        far.send(first.into_iter().chain(second));
        far.turn();
        assert_eq!((far.got(0), far.number("d", "replay")), (vec![ipv4(9, b"1"), ipv4(9, b"2")], 1));
    }

    #[test]
    fn wrong_files_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = keys(folder.path(), "b", "");
        let mut rig = Rig::new(1, |builder| {
            builder.declare("e", "IPsecEncap", &[&file, "a"]).chain(&["in", "e", "out0"]);
        });
        let mut refused = |expected: &str| {
            let errors = rig.open(&mut TestEnvironment::new(Clock::Wall)).unwrap_err();
            assert!(errors[0].1.contains(expected), "{errors:?}");
        };
        refused("sa.toml: no [[sa]] is named \"a\"");
        keys(folder.path(), "a", "fd = 1");
        refused("sa.toml: line 11: unknown field");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        refused("chmod 600");
    }
}

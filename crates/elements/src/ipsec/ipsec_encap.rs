//! `IPsecEncap`.

use crate::columns::{DstIp, IpHeader};
use crate::esp::inner::Inner;
use crate::esp::load::{is_same, line, load};
use crate::esp::outbound::{Outbound, SealError};
use crate::header;
use crate::shared_names::{counters, drops, handlers};
use crate::side_output::SideOutput;
use rand::SeedableRng;
use rand::rngs::StdRng;
use ring::rand::{SecureRandom, SystemRandom};
use scalebricks_graph::{
    Control, DropId, Element, Environment, Frame, Handle, HandlerId, Out, SlotList, element,
};
use scalebricks_io::PacketBuf;
use scalebricks_wire::{ipv4, ipv6};
use std::any::Any;
use std::net::{IpAddr, Ipv4Addr};

element! {
    /// Encrypts IP packets of both versions by ESP in tunnel mode (RFC 4303). The first of the associations `SA` with a
    /// selector that matches source and destination is used; a packet that none is for is dropped, so that nothing passes
    /// in clear. Packets must start with the IP header. ECN is copied to the outer header (RFC 6040), and the DSCP too if
    /// the association says nothing else; the inner TTL is not changed, since `DecIPTTL` does so. Sets the destination
    /// annotation to the tunnel's far end if that has an IPv4 address. A new configuration reads the file again, and
    /// continues associations whose SPI, destination and keys are the same. No second element may send by the same
    /// association.
    pub struct IPsecEncap as "IPsecEncap" {
        file: String, names: Vec<String>, is_open: bool, tunnels: Vec<Tunnel>, plan: Vec<Plan>, side: SideOutput,
        dst: Handle<DstIp>,
    }
    inputs { push "in": "IP packets.", }
    outputs {
        push "out": "ESP packets, alone or in UDP, of the association's outer IP version.",
        push "too_big" [Optional]: "Packets that would become longer than the association's MTU, unchanged; dropped if unconnected.",
    }
    params IPsecEncapParams {
        /// The file with security associations and keys, readable by its owner only.
        filename: String,
        /// The names of associations in it, in order of preference.
        sa: Vec<String>,
    }
    example { "sa.toml", "left-to-right", }
    writes { IpHeader on "out", DstIp on "out", }
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
    }
    handlers { read SAS = handlers::SAS, }
    binds { side, dst, }
    makes |IPsecEncapParams { filename: file, sa: names }| Self {
        file, names, is_open: false, tunnels: Vec::new(), plan: Vec::new(), side: SideOutput::default(),
        dst: Handle::default(),
    },
}

struct Tunnel {
    end: Outbound,
    inner_mtu: usize,
    /// Packets of the batch.
    wanted: u64,
    /// The next reserved number, and how many are left.
    next: u64,
    granted: u64,
    /// Why no more were reserved.
    refused: SealError,
}

#[derive(Clone, Copy)]
enum Plan {
    Drop(DropId),
    TooBig,
    Seal(usize, Inner),
}

const fn reason(error: SealError) -> DropId {
    match error {
        SealError::Expired => IPsecEncap::EXPIRED,
        SealError::Exhausted => IPsecEncap::EXHAUSTED,
        SealError::TooLong => IPsecEncap::LONG,
        SealError::NoRoom => IPsecEncap::NO_ROOM,
    }
}

impl IPsecEncap {
    #[inline]
    fn choose(&self, bytes: &[u8]) -> Plan {
        let Ok(inner) = Inner::read(bytes) else { return Plan::Drop(Self::MALFORMED) };
        match self.tunnels.iter().position(|tunnel| tunnel.end.sa().selects(inner.src, inner.dst)) {
            None => Plan::Drop(Self::NO_SA),
            Some(at) if inner.len > self.tunnels[at].inner_mtu => Plan::TooBig,
            Some(at) => Plan::Seal(at, inner),
        }
    }

    /// Reserves the sequence numbers of a batch.
    fn reserve(&mut self) {
        for tunnel in self.tunnels.iter_mut().filter(|tunnel| tunnel.wanted > 0) {
            match tunnel.end.reserve(tunnel.wanted) {
                Ok(range) => {
                    (tunnel.next, tunnel.granted) = (*range.start(), range.end() - range.start() + 1);
                    tunnel.refused = SealError::Exhausted;
                }
                Err(error) => (tunnel.granted, tunnel.refused) = (0, error),
            }
            tunnel.wanted = 0;
        }
    }

    #[inline]
    fn seal<P: PacketBuf>(&mut self, at: usize, inner: &Inner, packet: &mut P) -> Result<(), SealError> {
        let tunnel = &mut self.tunnels[at];
        if tunnel.granted == 0 {
            return Err(tunnel.refused);
        }
        let sequence = tunnel.next;
        tunnel.granted -= 1;
        tunnel.next = sequence.wrapping_add(1);
        tunnel.end.seal(packet, inner, sequence)
    }
}

impl Control for IPsecEncap {
    fn read(&self, _: HandlerId) -> String {
        let lines = self
            .tunnels
            .iter()
            .map(|Tunnel { end, .. }| line(end.sa(), end.carried(), end.sequence(), end.is_ageing()));
        lines.collect()
    }

    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        if !self.is_open {
            (self.tunnels, self.is_open) = (std::mem::take(&mut before.tunnels), before.is_open);
        }
        for tunnel in &mut self.tunnels {
            let same = before.tunnels.iter_mut().find(|other| is_same(tunnel.end.sa(), other.end.sa()));
            if let Some(same) = same {
                tunnel.end.continue_from(&mut same.end);
            }
        }
    }
}

impl<P: PacketBuf> Element<P> for IPsecEncap {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let mut plan = std::mem::take(&mut self.plan);
        plan.clear();
        for slot in batch.iter() {
            let chosen = self.choose(frame.packet(slot).data());
            if let Plan::Seal(at, _) = chosen {
                self.tunnels[at].wanted += 1;
            }
            plan.push(chosen);
        }
        self.reserve();
        let (mut packets, mut bytes) = (0, 0);
        for (slot, chosen) in batch.drain().zip(&plan) {
            let (at, inner) = match chosen {
                Plan::Drop(reason) => {
                    out.drop(slot, *reason);
                    continue;
                }
                Plan::TooBig => {
                    self.side.send(slot, Self::TOO_BIG, out);
                    continue;
                }
                Plan::Seal(at, inner) => (*at, inner),
            };
            let (packet, meta) = frame.both_mut(&slot);
            if let Err(error) = self.seal(at, inner, packet) {
                out.drop(slot, reason(error));
                continue;
            }
            (packets, bytes) = (packets + 1, bytes + inner.len as u64);
            let (header_len, dst) = match self.tunnels[at].end.sa().dst {
                IpAddr::V4(dst) => (ipv4::MIN_HEADER_LEN, dst),
                IpAddr::V6(_) => (ipv6::HEADER_LEN, Ipv4Addr::UNSPECIFIED),
            };
            header::note(meta, 0, header_len, packet.data().len());
            frame.column_mut(self.dst)[&slot] = DstIp(dst);
            out.push(0, slot);
        }
        self.plan = plan;
        out.count(Self::PACKETS, packets);
        out.count(Self::BYTES, bytes);
        out.set(Self::AGEING, self.tunnels.iter().filter(|tunnel| tunnel.end.is_ageing()).count() as u64);
    }

    fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        let make = |sa| {
            let mut seed = [0; 32];
            SystemRandom::new().fill(&mut seed).map_err(|_| "the system has no random numbers")?;
            let end = Outbound::new(sa, StdRng::from_seed(seed)).ok_or("a key was refused")?;
            let inner_mtu = end.sa().inner_mtu();
            Ok(Tunnel { end, inner_mtu, wanted: 0, next: 0, granted: 0, refused: SealError::Exhausted })
        };
        let all = load(world, &self.file, &self.names)?;
        self.tunnels = all.into_iter().map(make).collect::<Result<_, String>>()?;
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

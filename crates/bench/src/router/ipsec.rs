//! ESP tunnels: the elements of `examples/router/ipsec.click` between two ports in memory.
//!
//! A packet cannot be decrypted twice, because the anti-replay window would drop it. So decryption is measured as the
//! difference of two graphs: one that encrypts, and one that encrypts and decrypts. The latter must give back every packet.

use super::packets::RouterPackets;
use super::rig::{Contender, GraphForwarder, RouterRing, WHOLE, failed, ring_devices};
use super::table::{gateway_mac, mac};
use crate::error::BenchError;
use crate::gateway::packet_slab::{NoBuffers, SlabPacket};
use scalebricks_elements::esp::file;
use scalebricks_elements::esp::sa::Sa;
use scalebricks_io::PacketBuf;
use scalebricks_wire::ethernet::HEADER_LEN;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The suites: names of associations in [`FILE`] and of the work in results.
pub(super) const SUITES: [(&str, [&str; 2]); 2] = [
    ("gcm", ["encrypt, AES-128-GCM", "encrypt and decrypt, AES-128-GCM"]),
    ("cbc", ["encrypt, AES-128-CBC and HMAC-SHA1", "encrypt and decrypt, AES-128-CBC and HMAC-SHA1"]),
];

/// The associations.
const FILE: &str = include_str!("../../../elements/examples/ipsec.toml");

/// The protocol number of ESP.
const ESP: u8 = 50;

/// Writes the associations to a file that only its owner may read.
///
/// # Errors
/// [`BenchError::Check`].
pub(super) fn write_keys(folder: &Path) -> Result<PathBuf, BenchError> {
    let path = folder.join("sa.toml");
    let mut open = fs::OpenOptions::new();
    let file = open.create(true).truncate(true).write(true).mode(0o600).open(&path);
    file.and_then(|mut file| file.write_all(FILE.as_bytes())).map_err(|error| failed("ipsec", &error))?;
    Ok(path)
}

/// Octets of outer headers, without Ethernet.
fn front_len(sa: &str) -> Result<usize, BenchError> {
    let all = file::parse(FILE).map_err(|error| failed("ipsec", &error))?;
    let found = all.iter().find(|one| *one.name == *sa);
    found.map(Sa::front_len).ok_or_else(|| failed("ipsec", &format!("no association {sa}")))
}

/// A packet that left encrypted becomes as long as it was. Its tag holds that length from the first call on.
#[inline]
pub(super) fn shrink<P: PacketBuf>(packet: &mut P, front: usize) {
    let (mut tag, is) = (packet.tag(), packet.data().len());
    if tag.id == 0 {
        tag.id = is as u64;
        packet.set_tag(tag);
    } else if is > tag.id as usize {
        // The frame begins as many bytes earlier as there are outer headers.
        let _ = packet.reframe(front, tag.id as usize, 0);
    }
}

/// What is wrong with the headers of an encrypted packet.
pub(super) fn outer_fault(exit: usize, front: &[u8]) -> Option<&'static str> {
    match () {
        () if exit != 2 => Some("another port"),
        () if front[HEADER_LEN + 9] != ESP => Some("not encrypted"),
        () if front[HEADER_LEN + 12..HEADER_LEN + 20] != [192, 0, 2, 1, 192, 0, 2, 2] => {
            Some("other ends of the tunnel")
        }
        () => None,
    }
}

/// The graph: it encrypts, and decrypts again if `is_restored`.
fn text(keys: &Path, sa: &str, is_restored: bool) -> String {
    let decap = if is_restored {
        format!("-> IPsecDecap({}, {sa}) -> CheckIPHeader -> DecIPTTL\n", keys.display())
    } else {
        String::new()
    };
    format!(
        "FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> DropBroadcasts -> DecIPTTL\n\
         -> IPsecEncap({}, {sa})\n{decap}-> EtherEncap(0x0800, {}, {}) -> ToDevice(eth2);\n",
        keys.display(),
        mac(2),
        gateway_mac(2, 0)
    )
}

/// Both graphs of a suite, over rings of their own: encryption leaves other payloads.
///
/// # Errors
/// [`BenchError::Check`].
pub(super) fn contenders(
    keys: &Path,
    (sa, works): (&str, [&'static str; 2]),
    by: &'static str,
    [encrypts, restores]: [&RouterRing<SlabPacket>; 2],
    packets: impl Fn(Option<usize>) -> RouterPackets,
) -> Result<[Contender<SlabPacket>; 2], BenchError> {
    let make = |work: &'static str, ring: &RouterRing<SlabPacket>, kind: RouterPackets, restored: bool| {
        let (kind, devices) = (Arc::new(kind), ring_devices(ring, WHOLE));
        let graph = GraphForwarder::new(work, &text(keys, sa, restored), devices, &[], Box::new(NoBuffers))?;
        Ok::<_, BenchError>(Contender::new([work, by], graph, &kind, ring))
    };
    let front = front_len(sa)?;
    Ok([
        make(works[0], encrypts, packets(Some(front)), false)?,
        make(works[1], restores, packets(None), true)?,
    ])
}

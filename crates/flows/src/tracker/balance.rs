//! Which of several trackers gets a packet.

use super::Untracked;
use super::key::{Key, tuple};
use crate::fragments::{self, Defragmented, Defragmenter};
use crate::named::Tally;
use scalebricks_tables::dhash::{FlowHash, FlowHasher, Key4, Key6, Signature};
use scalebricks_types::{FiveTuple, HashSeed};
use scalebricks_wire::{IpPacket, ipv4_header_checksum_ok, parse_ip};
use std::time::Duration;

/// A packet's tracker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balanced<'a> {
    /// Number of the tracker.
    pub pipeline: u32,
    /// The packet that this fragment has completed. It goes to the tracker in place of the fragment.
    pub whole: Option<&'a [u8]>,
}

/// Distributes packets to trackers: the input stage before several application stages, each with a tracker of its own.
///
/// All packets of a flow reach the same tracker, in both directions. So do ICMP errors about it, by the packet that they
/// quote, and its fragments: the input stage completes packets from their fragments, because only the first fragment has
/// ports. The alternatives are worse. To balance all packets by addresses alone sends all flows between two gateways to one
/// core. To complete packets behind the balancer needs a ring between each pair of application cores, because the fragments'
/// core is seldom the flow's.
///
/// The number comes from [`FlowHash::pipeline`], whose bits are independent of bucket and signature. So the flows of a tracker
/// fill all buckets of its table, even if the balancer has the same secret.
#[derive(Debug)]
pub struct Balancer {
    hasher: FlowHasher,
    pipelines: u32,
    verify_checksums: bool,
    defragmenter: Defragmenter,
    untracked: Tally<Untracked>,
}

impl Balancer {
    /// For so many trackers; 0 counts as 1. `verify_checksums` is that of the trackers: it decides whether a fragment with a
    /// wrong header checksum is refused.
    pub fn new(
        pipelines: u32,
        secret: HashSeed,
        fragments: fragments::Config,
        verify_checksums: bool,
    ) -> Self {
        Self {
            hasher: FlowHasher::new(Signature::Keyed, secret),
            pipelines: pipelines.max(1),
            verify_checksums,
            defragmenter: Defragmenter::new(fragments),
            untracked: Tally::default(),
        }
    }

    /// Chooses the tracker of the IP packet at the start of `bytes`; padding may follow it. A malformed packet goes to the
    /// first one, which counts it.
    ///
    /// Cost: parsing, and a hash of 16 or 40 bytes. For a fragment also that of [`Defragmenter::add`].
    ///
    /// # Errors
    /// [`Untracked`]: a fragment that waits for others, or is refused. Nothing is handed over.
    pub fn take(&mut self, bytes: &[u8], zone: u16, now: Duration) -> Result<Balanced<'_>, Untracked> {
        let Ok(packet) = parse_ip(bytes) else { return Ok(Balanced { pipeline: 0, whole: None }) };
        if packet.summary.fragment.is_none() {
            let pipeline = hash(&self.hasher, &packet, zone).pipeline(self.pipelines);
            return Ok(Balanced { pipeline, whole: None });
        }
        if self.verify_checksums && packet.summary.is_ipv4() && !ipv4_header_checksum_ok(packet.bytes()) {
            self.untracked.count(Untracked::IpChecksum);
            return Err(Untracked::IpChecksum);
        }
        let untracked = match self.defragmenter.add(packet.bytes(), &packet.summary, now) {
            // The first is not reached: it is a fragment.
            Defragmented::NoFragment | Defragmented::Held => Untracked::FragmentHeld,
            Defragmented::Refused(_) => Untracked::FragmentRefused,
            Defragmented::Whole(whole) => {
                let hash = parse_ip(whole).map(|packet| hash(&self.hasher, &packet, zone));
                let pipeline = hash.map_or(0, |hash| hash.pipeline(self.pipelines));
                return Ok(Balanced { pipeline, whole: Some(whole) });
            }
        };
        self.untracked.count(untracked);
        Err(untracked)
    }

    /// Sets the number of trackers; 0 counts as 1.
    pub fn set_pipelines(&mut self, pipelines: u32) {
        self.pipelines = pipelines.max(1);
    }

    /// Forgets fragments whose time is over.
    pub fn expire(&mut self, now: Duration) {
        self.defragmenter.expire(now);
    }

    /// Fragments that were not handed over, by reason.
    pub const fn untracked(&self) -> &Tally<Untracked> {
        &self.untracked
    }

    /// Fragments.
    pub const fn defragmenter(&self) -> &Defragmenter {
        &self.defragmenter
    }
}

/// The hash of a packet's flow: of an ICMP error, that of the flow it quotes.
fn hash(hasher: &FlowHasher, packet: &IpPacket<'_>, zone: u16) -> FlowHash {
    let tuple = match packet.quoted() {
        Some(Ok(quoted)) => quoted.five_tuple(),
        _ => tuple(&packet.summary, packet.l4()),
    };
    hash_of(hasher, &tuple, zone)
}

fn hash_of(hasher: &FlowHasher, tuple: &FiveTuple, zone: u16) -> FlowHash {
    match Key4::of_tuple(tuple, zone) {
        Some(key) => hasher.hash(&key),
        // Both addresses of a packet are of one family.
        None => Key6::of_tuple(tuple, zone).map_or_else(FlowHash::default, |key| hasher.hash(&key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_tables::dhash::{Config, DHash, FlowKey, Records};
    use std::net::Ipv4Addr;

    fn tuple(number: u32) -> FiveTuple {
        let (client, port) = (Ipv4Addr::from_bits(0x0A00_0000 | number / 50), 1024 + (number % 50) as u16);
        let server = Ipv4Addr::from_bits(0xC000_0200 | number % 7);
        FiveTuple { src: client.into(), dst: server.into(), protocol: 6, src_port: port, dst_port: 443 }
    }

    /// The flows of one pipeline fill the buckets of its table as all flows would: the number of flows per bucket has the
    /// variance of a Poisson distribution, also with the secret of the table. Bits that the bucket uses too would leave
    /// all but one in `k` buckets empty.
    #[test]
    fn a_pipeline_s_flows_fill_all_buckets_of_its_table() {
        const BUCKETS: u32 = 400;
        let secret = HashSeed::new(5, 22);
        for pipelines in [2_u32, 3, 4, 6, 16] {
            let hasher = FlowHasher::new(Signature::Keyed, secret);
            let config = Config { buckets: BUCKETS, ..Config::for_sessions(4_000, secret) };
            let mut tables: Vec<DHash<Key4>> =
                (0..pipelines).map(|_| DHash::new(&config, Records::new()).unwrap()).collect();
            let mut counts = vec![vec![0_u32; BUCKETS as usize]; pipelines as usize];
            for number in 0..pipelines * 4_000 {
                let key = Key4::of_tuple(&tuple(number), 0).unwrap();
                let pipeline = hash_of(&hasher, &tuple(number), 0).pipeline(pipelines) as usize;
                let record = tables[pipeline].add(&key).unwrap().unwrap();
                if record.get() < BUCKETS * 16 {
                    counts[pipeline][record.get() as usize / 16] += 1;
                }
                assert_eq!(
                    hash_of(&hasher, &tuple(number).reversed(), 0).pipeline(pipelines),
                    pipeline as u32
                );
                assert_eq!(key.reversed(), Key4::of_tuple(&tuple(number).reversed(), 0).unwrap());
            }
            for (table, counts) in tables.iter().zip(&counts) {
                let flows = table.len() as f64;
                assert!((3_700.0..4_300.0).contains(&flows), "{flows} of {pipelines} pipelines");
                let mean = f64::from(counts.iter().sum::<u32>()) / f64::from(BUCKETS);
                let chi: f64 = counts.iter().map(|&count| (f64::from(count) - mean).powi(2) / mean).sum();
                // A mean of 10 cut at 16 has 0.9 times the variance; the bounds are 6 standard deviations away.
                let free = f64::from(BUCKETS - 1);
                let spread = 6.0 * (2.0 * free).sqrt();
                assert!((0.85 * free - spread..free + spread).contains(&chi), "{chi} of {pipelines}");
                let empty = counts.iter().filter(|&&count| count == 0).count();
                assert!(empty <= 2, "{empty} empty buckets of {pipelines}");
            }
        }
    }
}

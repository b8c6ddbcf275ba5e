//! What ESP costs: packets encrypted and decrypted on one core, from memory.
//!
//! Prints for each suite, inner packet of 64 to 1,400 bytes and burst of 1 and 32 packets: nanoseconds per packet, Mpps and
//! Gb/s of inner packets, the median and the best of the passes. A pass encrypts, or decrypts, 4,096 packets, in 512
//! buffers. Included are the check of the inner header, the outer headers, and a copy of the packet into its buffer.
//!
//! ```text
//! cargo run --release -p scalebricks-elements --example ipsec [PASSES]
//! ```

#![allow(clippy::print_stdout, reason = "it prints a table")]

use rand::SeedableRng;
use rand::rngs::StdRng;
use scalebricks_elements::esp::file;
use scalebricks_elements::esp::inbound::{Inbound, Opening, Outer};
use scalebricks_elements::esp::inner::Inner;
use scalebricks_elements::esp::outbound::{Outbound, Sealing};
use scalebricks_elements::esp::sa::Sa;
use scalebricks_io::{Packet, PacketBuf, PacketSource, Pool};
use scalebricks_wire::ipv4::Ipv4Header;
use std::time::{Duration, Instant};

/// Packets of a pass.
const PACKETS: usize = 4_096;
/// Their buffers, as many as a device has.
const BUFFERS: usize = 512;
/// Packets between two readings of the clock.
const TIMED: usize = 32;

const FILE: &str = include_str!("ipsec.toml");

type Failure = Box<dyn std::error::Error>;

/// Encrypts a pass in bursts of `burst` packets.
fn encrypt(
    sa: &Sa,
    buffers: &mut [Packet],
    burst: usize,
    inner: &[u8],
    sealed: &mut Vec<Vec<u8>>,
) -> Result<Duration, Failure> {
    let mut end = Outbound::new(sa.clone(), StdRng::seed_from_u64(1)).ok_or("a key was refused")?;
    let (mut time, mut sealings, mut failed) = (Duration::ZERO, Vec::with_capacity(burst), 0);
    sealed.clear();
    for timed in (0..PACKETS).step_by(TIMED) {
        let buffers = &mut buffers[timed % BUFFERS..][..TIMED];
        let begin = Instant::now();
        for packets in buffers.chunks_mut(burst) {
            sealings.clear();
            for (at, packet) in packets.iter_mut().enumerate() {
                packet.append(inner)?;
                sealings.push(Sealing { at, inner: Inner::read(packet.data())?, result: Ok(()) });
            }
            end.seal_many(packets, &mut sealings);
            failed += sealings.iter().filter(|sealing| sealing.result.is_err()).count();
        }
        time += begin.elapsed();
        for packet in buffers {
            sealed.push(packet.data().to_vec());
            packet.reframe(sa.front_len(), 0, 0)?;
        }
    }
    if failed > 0 { Err("packets were not encrypted".into()) } else { Ok(time) }
}

/// Decrypts a pass in bursts of `burst` packets.
fn decrypt(
    sa: &Sa,
    buffers: &mut [Packet],
    burst: usize,
    sealed: &[Vec<u8>],
    inner: &[u8],
) -> Result<Duration, Failure> {
    let mut end = Inbound::new(sa.clone()).ok_or("a key was refused")?;
    let (mut time, mut openings, mut failed) = (Duration::ZERO, Vec::with_capacity(burst), 0);
    for (timed, sealed) in sealed.chunks(TIMED).enumerate() {
        let buffers = &mut buffers[timed * TIMED % BUFFERS..][..TIMED];
        let begin = Instant::now();
        for (packets, sealed) in buffers.chunks_mut(burst).zip(sealed.chunks(burst)) {
            openings.clear();
            for (at, (packet, bytes)) in packets.iter_mut().zip(sealed).enumerate() {
                packet.reframe(0, 0, sa.front_len())?;
                packet.append(bytes)?;
                let Outer::Esp(place) = Outer::read(packet.data()) else { return Err("no ESP".into()) };
                openings.push(Opening { at, place, result: Ok(()) });
            }
            end.open_many(packets, &mut openings);
            failed += openings.iter().filter(|opening| opening.result.is_err()).count();
        }
        time += begin.elapsed();
        for packet in buffers {
            failed += usize::from(packet.data() != inner);
            packet.truncate(0);
        }
    }
    if failed > 0 { Err("the packets that came out are not those that went in".into()) } else { Ok(time) }
}

fn print(what: &str, sa: &Sa, len: usize, burst: usize, times: &mut [Duration]) {
    times.sort_unstable();
    let of = |time: Duration| {
        let ns = time.as_secs_f64() * 1e9 / PACKETS as f64;
        format!("{ns:8.1} ns {:7.2} Mpps {:7.2} Gb/s", 1e3 / ns, len as f64 * 8.0 / ns)
    };
    let (median, best) = (times[times.len() / 2], times[0]);
    println!("{:4} {what} {len:5} B, bursts of {burst:2}: median {}; best {}", sa.name, of(median), of(best));
}

fn main() -> Result<(), Failure> {
    let passes: usize = std::env::args().nth(1).map_or(Ok(101), |text| text.parse())?;
    let mut pool = Pool::new(BUFFERS, 2_048)?;
    let mut buffers = Vec::with_capacity(BUFFERS);
    while let Some(packet) = pool.alloc().filter(|_| buffers.len() < BUFFERS) {
        buffers.push(packet);
    }
    let mut sealed = Vec::with_capacity(PACKETS);
    for sa in file::parse(FILE)? {
        for len in [64, 256, 1_024, 1_400] {
            let header = Ipv4Header {
                dscp_ecn: 0,
                total_len: len as u16,
                identification: 1,
                dont_fragment: true,
                more_fragments: false,
                fragment_units: 0,
                ttl: 64,
                protocol: 17,
                src: [10, 0, 0, 1].into(),
                dst: [10, 0, 0, 2].into(),
            };
            let mut inner = header.to_bytes().to_vec();
            inner.resize(len, 0x5a);
            for burst in [1, 32] {
                let (mut encrypts, mut decrypts) = (Vec::new(), Vec::new());
                for _ in 0..passes.max(1) {
                    encrypts.push(encrypt(&sa, &mut buffers, burst, &inner, &mut sealed)?);
                    decrypts.push(decrypt(&sa, &mut buffers, burst, &sealed, &inner)?);
                }
                print("encrypt", &sa, len, burst, &mut encrypts);
                print("decrypt", &sa, len, burst, &mut decrypts);
            }
        }
    }
    Ok(())
}

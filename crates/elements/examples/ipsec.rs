//! What ESP costs: packets encrypted and decrypted on one core, from memory.
//!
//! Prints for each suite and inner packet of 64 to 1,500 bytes: nanoseconds per packet, Mpps and Gb/s of inner packets, the
//! median and the best of the passes. A pass encrypts, or decrypts, 4,096 packets. Included are the check of the inner
//! header, the outer headers, and a copy of the packet into its buffer.
//!
//! ```text
//! cargo run --release -p scalebricks-elements --example ipsec [PASSES]
//! ```

#![allow(clippy::print_stdout, reason = "it prints a table")]

use rand::SeedableRng;
use rand::rngs::StdRng;
use scalebricks_elements::esp::file;
use scalebricks_elements::esp::inbound::{Inbound, Outer};
use scalebricks_elements::esp::inner::Inner;
use scalebricks_elements::esp::outbound::Outbound;
use scalebricks_elements::esp::sa::Sa;
use scalebricks_io::{Packet, PacketBuf, PacketSource, Pool};
use scalebricks_wire::ipv4::Ipv4Header;
use std::hint::black_box;
use std::time::{Duration, Instant};

const PACKETS: usize = 4_096;

const FILE: &str = r#"
[[sa]]
name = "gcm"
spi = 256
suite = "aes-128-gcm"
key = "000102030405060708090a0b0c0d0e0f10111213"
src = "192.0.2.1"
dst = "192.0.2.2"
selectors = [{ src = "10.0.0.0/8", dst = "10.0.0.0/8" }]

[[sa]]
name = "cbc"
spi = 257
suite = "aes-128-cbc-hmac-sha1-96"
key = "000102030405060708090a0b0c0d0e0f"
auth_key = "000102030405060708090a0b0c0d0e0f10111213"
src = "192.0.2.1"
dst = "192.0.2.2"
selectors = [{ src = "10.0.0.0/8", dst = "10.0.0.0/8" }]
"#;

type Failure = Box<dyn std::error::Error>;

/// Copies bytes into the pool's packet, which is then in use.
fn fill(packet: &mut Packet, bytes: &[u8], front: usize) -> Result<(), Failure> {
    // The buffer's start moves back to where it was before the last pass.
    let len = packet.data().len();
    packet.reframe(front.min(len), 0, 0)?;
    packet.append(bytes)?;
    Ok(())
}

fn encrypt(
    sa: &Sa,
    packets: &mut [Packet],
    inner: &[u8],
    sealed: &mut Vec<Vec<u8>>,
) -> Result<Duration, Failure> {
    let mut end = Outbound::new(sa.clone(), StdRng::seed_from_u64(1)).ok_or("a key was refused")?;
    let begin = Instant::now();
    for burst in packets.chunks_mut(32) {
        let numbers = end.reserve(burst.len() as u64).map_err(|error| format!("{error:?}"))?;
        for (packet, sequence) in burst.iter_mut().zip(numbers) {
            fill(packet, inner, sa.front_len())?;
            let read = Inner::read(packet.data())?;
            end.seal(packet, &read, sequence).map_err(|error| format!("{error:?}"))?;
        }
    }
    let time = begin.elapsed();
    sealed.clear();
    sealed.extend(packets.iter().map(|packet| packet.data().to_vec()));
    Ok(time)
}

fn decrypt(sa: &Sa, packet: &mut Packet, sealed: &[Vec<u8>], inner: &[u8]) -> Result<Duration, Failure> {
    let mut end = Inbound::new(sa.clone()).ok_or("a key was refused")?;
    let begin = Instant::now();
    for bytes in sealed {
        // Back by as much as decryption has moved the start.
        let front = sa.front_len();
        packet.reframe(0, 0, if packet.data().is_empty() { 0 } else { front })?;
        packet.truncate(0);
        packet.append(bytes)?;
        let Outer::Esp(at) = Outer::read(packet.data()) else { return Err("no ESP".into()) };
        end.open(packet, &at).map_err(|error| format!("{error:?}"))?;
        black_box(packet.data());
    }
    let time = begin.elapsed();
    if packet.data() != inner || end.carried().0 != PACKETS as u64 {
        return Err("the packets that came out are not those that went in".into());
    }
    Ok(time)
}

fn print(what: &str, sa: &Sa, len: usize, times: &mut [Duration]) {
    times.sort_unstable();
    let of = |time: Duration| {
        let ns = time.as_secs_f64() * 1e9 / PACKETS as f64;
        format!("{ns:8.1} ns {:7.2} Mpps {:7.2} Gb/s", 1e3 / ns, len as f64 * 8.0 / ns)
    };
    let (median, best) = (times[times.len() / 2], times[0]);
    println!("{:4} {what} {len:5} B: median {}; best {}", sa.name, of(median), of(best));
}

fn main() -> Result<(), Failure> {
    let passes: usize = std::env::args().nth(1).map_or(Ok(101), |text| text.parse())?;
    let mut pool = Pool::new(PACKETS, 2_048)?;
    let mut packets = Vec::with_capacity(PACKETS);
    while let Some(packet) = pool.alloc().filter(|_| packets.len() < PACKETS) {
        packets.push(packet);
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
            let (mut encrypts, mut decrypts) = (Vec::new(), Vec::new());
            for _ in 0..passes.max(1) {
                encrypts.push(encrypt(&sa, &mut packets, &inner, &mut sealed)?);
                let Some(packet) = packets.first_mut() else { return Err("no packets".into()) };
                packet.truncate(0);
                decrypts.push(decrypt(&sa, packet, &sealed, &inner)?);
                packet.truncate(0);
            }
            print("encrypt", &sa, len, &mut encrypts);
            print("decrypt", &sa, len, &mut decrypts);
        }
    }
    Ok(())
}

//! Tests against a plain map.

mod growth;
mod hostile;
mod model;
mod records;
mod signatures;

use super::{Config, Growth, Key4, Key6, Pool};
use scalebricks_types::HashSeed;

/// A session with IPv4 addresses from a number: structured, as those of a network are.
fn session(number: u32) -> Key4 {
    let (client, port) = (number >> 8, 1024 + (number & 0xFF) as u16);
    Key4::new((0x0A00_0000 | client).into(), 0xC000_0207.into(), 6, port, 443, 0)
}

/// The same with IPv6 addresses.
fn long_session(number: u32) -> Key6 {
    let (client, port) = (u128::from(number >> 8), 1024 + (number & 0xFF) as u16);
    Key6::new((0x2001_0DB8 << 96 | client).into(), (0x2001_0DB8 << 96 | 7 << 64).into(), 6, port, 443, 0)
}

const SECRET: HashSeed = HashSeed::new(22, 2011);

/// A table of fixed size with a pool that refuses.
fn fixed(buckets: u32, entries: u32) -> Config {
    let pool = Pool { entries, max_entries: entries };
    Config { buckets, growth: Growth::Fixed, pool, ..Config::for_sessions(1, SECRET) }
}

//! Growth, the pool's limits, expiry while both happen, and the sizes that a table states.

use super::super::*;
use super::{SECRET, fixed, long_session, session};

/// A table with this many sessions.
fn filled(config: &Config, sessions: u32) -> DHash<Key4> {
    let mut table = DHash::new(config, Records::new()).unwrap();
    for number in 0..sessions {
        assert!(table.add(&session(number)).unwrap().is_some(), "{number}");
    }
    table
}

#[test]
fn a_growing_table_keeps_its_mean_and_finds_all() {
    let sessions = if cfg!(miri) { 30 } else { 20_000 };
    let mut table = DHash::<Key6>::new(&Config::growing(10, sessions, SECRET), Records::new()).unwrap();
    let mut most = 0.0_f64;
    for number in 0..sessions {
        table.add(&long_session(number)).unwrap();
        assert!(table.len() <= table.buckets() * GROWING_MEAN_SESSIONS as usize);
        // The Poisson distribution gives at most 1.33 % while buckets are split.
        most = most.max(table.in_lists() as f64 / table.len() as f64 * f64::from(u8::from(number > 2000)));
    }
    assert_eq!(table.buckets(), sessions.div_ceil(GROWING_MEAN_SESSIONS) as usize);
    let first = 10_u32.div_ceil(GROWING_MEAN_SESSIONS) as usize;
    assert_eq!(table.counters().splits as usize, table.buckets() - first);
    for number in 0..sessions {
        let found = table.find(&long_session(number).reversed()).unwrap();
        assert_eq!(
            (table.key(found.record), found.direction),
            (Some(&long_session(number)), Direction::Reverse)
        );
    }
    assert_eq!(table.find(&long_session(sessions)), None);
    assert!(cfg!(miri) || (0.008..0.02).contains(&most), "{most}");
}

#[test]
fn an_added_session_moves_only_sessions_of_the_bucket_that_is_split() {
    let mut table = filled(&Config::growing(40, 4000, SECRET), 40);
    for number in 40..if cfg!(miri) { 44 } else { 4000 } {
        let mut before = Vec::new();
        table.for_each(|record, key| before.push((record, *key)));
        let buckets = table.buckets();
        table.add(&session(number)).unwrap();
        let moved: Vec<_> = before.iter().filter(|(record, key)| table.key(*record) != Some(key)).collect();
        let is_grown = table.buckets() > buckets;
        assert!(is_grown || moved.is_empty());
        let bucket_of = |record: Record| record.get() as usize / SLOTS;
        let slots = moved.iter().map(|(record, _)| *record).filter(|&record| bucket_of(record) < buckets);
        let first = slots.clone().next().map(bucket_of);
        assert!(slots.clone().all(|record| Some(bucket_of(record)) == first), "one bucket is split");
        for (record, key) in moved.iter().filter(|(record, _)| bucket_of(*record) < buckets) {
            let to = table.find(key).unwrap().record;
            assert_eq!(bucket_of(to), buckets, "to the new bucket");
            assert_eq!(to.get() as usize % SLOTS, record.get() as usize % SLOTS, "with its slot");
        }
    }
}

#[test]
fn the_pool_grows_to_its_maximum_and_then_refuses_by_name() {
    let pools: &[_] = if cfg!(miri) { &[(3, 5)] } else { &[(0, 0), (3, 3), (3, 40), (0, 7)] };
    for &(entries, max_entries) in pools {
        let config = Config { max_list: 100, pool: Pool { entries, max_entries }, ..fixed(1, 0) };
        let mut table = DHash::new(&config, Records::new()).unwrap();
        let room = SLOTS as u32 + max_entries;
        for number in 0..room {
            assert!(table.add(&session(number)).unwrap().is_some());
        }
        assert_eq!(table.in_lists(), max_entries as usize);
        let error = table.add(&session(room)).unwrap_err();
        assert_eq!(error, AddError::PoolFull { max_entries });
        assert_eq!(table.counters().pool_full, 1);
        assert_eq!(table.capacity(), table.max_capacity());
        assert!((0..room).all(|number| table.find(&session(number)).is_some()), "established sessions stay");
        assert!((0..room).all(|number| table.remove(&session(number))));
        assert!(table.is_empty());
        assert!(table.add(&session(room)).unwrap().is_some(), "entries and slots are used again");
    }
}

#[test]
fn a_list_ends_at_its_maximum() {
    let mut table = filled(&Config { max_list: 5, ..fixed(1, 100) }, 21);
    assert_eq!(table.add(&session(21)), Err(AddError::ListFull { max_list: 5 }));
    assert_eq!((table.counters().list_full, table.len()), (1, 21));
}

#[test]
fn a_freed_slot_takes_a_session_of_the_list_only_on_request() {
    for is_promoting in [false, true] {
        let mut table = filled(&Config { is_promoting, ..fixed(1, 10) }, 20);
        let in_slot =
            (0..20).find(|&number| table.find(&session(number)).unwrap().record.get() < 16).unwrap();
        assert!(table.remove(&session(in_slot)));
        assert_eq!(table.in_lists(), if is_promoting { 3 } else { 4 });
        assert!((0..20).all(|number| table.find(&session(number)).is_some() == (number != in_slot)));
    }
}

/// The hand passes every session once in a round, whatever the budget, and removes those that are not kept.
#[test]
fn a_round_passes_every_session_once() {
    for &budget in if cfg!(miri) { &[7][..] } else { &[1, 7, 16, 1000] } {
        let mut table = filled(&Config { is_promoting: budget == 7, ..fixed(4, 20) }, 70);
        let (mut passed, mut calls) = (Vec::new(), 0);
        loop {
            let stats = table.sweep(budget, |session| {
                passed.push(*session.key);
                true
            });
            assert!(stats.visited <= budget && stats.removed == 0);
            calls += 1;
            if stats.is_round_complete {
                break;
            }
        }
        assert_eq!(calls, (4 * SLOTS + 20) / budget + 1);
        passed.sort_by_key(FlowKey::source_port);
        assert_eq!(passed, (0..70).map(session).collect::<Vec<_>>());
        let mut sweeps = 0;
        while !table.is_empty() {
            table.sweep(budget, |_| false);
            sweeps += 1;
            assert!(sweeps <= 200);
        }
        assert_eq!(table.counters().deleted, 70);
    }
}

/// Sessions that stay through two rounds are passed, while others come and the table is split.
#[test]
fn expiry_and_growth_go_together() {
    let mut records = Records::new();
    let last_seen = records.reserve::<u64>();
    let config = Config::growing(10, if cfg!(miri) { 100 } else { 5000 }, SECRET);
    let mut table = DHash::<Key4>::new(&config, records).unwrap();
    let (timeout, rounds) = (1000, if cfg!(miri) { 40 } else { 20_000 });
    for now in 1..rounds {
        let added = table.find_or_add(&session(now as u32)).unwrap();
        table.column_mut(last_seen)[added.record] = now;
        // The first ones go on for ever.
        let old = table.find_or_add(&session(now as u32 % 10 + 1)).unwrap();
        assert!(!old.is_new || now < 10, "a session with packets is kept");
        table.column_mut(last_seen)[old.record] = now;
        table.sweep(64, |session| session.records.column(last_seen)[session.record] + timeout >= now);
        // With 64 records per packet, a round over 10,000 slots takes 160 packets.
        assert!(table.len() < 1500, "{} sessions at {now}", table.len());
    }
    assert!(table.counters().splits > 0);
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe beyond the model tests")]
fn memory_is_stated_by_part() {
    let mut records = Records::new();
    let _ = records.reserve::<[u64; 4]>();
    let config = Config { pool: Pool { entries: 10, max_entries: 400 }, ..fixed(10, 0) };
    let mut table = DHash::<Key4>::new(&config, records).unwrap();
    let memory = table.memory();
    assert_eq!((memory.table_bytes, memory.heads_bytes, memory.pool_bytes), (640, 40, 120));
    assert_eq!((memory.keys_bytes, memory.columns_bytes), (170 * 16, 170 * 32));
    assert_eq!(memory.lookup_bytes(), 800);
    assert!(memory.reserved_bytes >= memory.total_bytes());
    assert_eq!((table.capacity(), table.max_capacity()), (170, 560));
    let mut number = 0;
    while table.in_lists() < 11 {
        table.add(&session(number)).unwrap();
        number += 1;
    }
    assert_eq!(table.memory().pool_bytes, (10 + 256) * 12);
}

/// One session in 180 is in a list, as for an ideal hash: the integral of the Poisson distribution gives 0.55 % for a
/// mean of 10 sessions per bucket.
#[test]
#[cfg_attr(miri, ignore = "too many sessions")]
fn as_many_sessions_are_in_lists_as_chance_puts_there() {
    let table = filled(&Config::for_sessions(200_000, SECRET), 200_000);
    let share = table.in_lists() as f64 / table.len() as f64;
    assert!((0.0045..0.0065).contains(&share), "{share}");
}

#[test]
fn wrong_configurations_are_refused_by_name() {
    let good = fixed(10, 5);
    let refused = |config: Config| DHash::<Key4>::new(&config, Records::new()).map(|_| ()).unwrap_err();
    assert_eq!(refused(Config { buckets: 0, ..good }), ConfigError::NoBuckets);
    let linear = |max_buckets, mean_sessions| Growth::Linear { max_buckets, mean_sessions };
    assert_eq!(
        refused(Config { growth: linear(9, 10), ..good }),
        ConfigError::Shrinks { buckets: 10, max_buckets: 9 }
    );
    for mean in [0, 17, u32::MAX] {
        assert_eq!(refused(Config { growth: linear(20, mean), ..good }), ConfigError::MeanSessions(mean));
    }
    let pool = Pool { entries: 5, max_entries: 4 };
    assert_eq!(refused(Config { pool, ..good }), ConfigError::PoolShrinks { entries: 5, max_entries: 4 });
    let records = (u64::from(u32::MAX) + 1) * 16;
    let most = Config { growth: linear(u32::MAX, 10), ..good };
    assert_eq!(refused(most), ConfigError::TooManyRecords { records: records - 16 + 5 });
    assert!(
        refused(Config { pool: Pool { entries: 0, max_entries: u32::MAX }, ..good })
            .to_string()
            .contains("lower")
    );
    assert_eq!(Config::for_sessions(0, SECRET).check(), Ok(()));
    assert_eq!(Config::growing(0, 0, SECRET).check(), Ok(()));
}

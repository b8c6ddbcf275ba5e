//! Servers are killed while batches are in flight.

use crate::nats_servers::cluster::Cluster;
use futures_util::StreamExt;
use futures_util::future::{join, join_all};
use scalebricks_control::engine::{
    AppendError, Batch, BatchId, Engine, EngineError, Entry, ReadError, SwapError, WriterId,
};
use scalebricks_engine::nats::{JetStream, Options};
use scalebricks_types::{PartitionId, Position};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

const P: PartitionId = PartitionId(0);

fn batch(writer: u64, number: u64) -> Batch {
    let payload = Arc::from((writer * 1_000_000 + number).to_le_bytes());
    Batch { id: BatchId { writer: WriterId(writer), number }, payload }
}

/// Appends one batch until it is acknowledged.
async fn insist(engine: &JetStream, writer: u64, number: u64) -> Position {
    loop {
        match engine.append(P, batch(writer, number)).await {
            Ok(position) => return position,
            Err(AppendError::TooLarge(_)) => unreachable!("it is small"),
            Err(_) => pause(20).await,
        }
    }
}

async fn pause(milliseconds: u64) {
    let (sender, receiver) = futures_channel::oneshot::channel();
    std::thread::spawn(move || {
        sleep(Duration::from_millis(milliseconds));
        sender.send(()).ok();
    });
    receiver.await.ok();
}

type Acknowledged = Vec<(BatchId, Position, Instant)>;

#[derive(Default)]
struct Progress {
    acknowledged: AtomicU64,
    is_over: AtomicBool,
}

impl Progress {
    /// Waits until this many more batches are acknowledged.
    fn wait_for(&self, more: u64) {
        let (began, before) = (Instant::now(), self.acknowledged.load(Ordering::Relaxed));
        while self.acknowledged.load(Ordering::Relaxed) < before + more {
            assert!(began.elapsed() < Duration::from_secs(60), "appends do not go on");
            sleep(Duration::from_millis(10));
        }
    }
}

/// Callers that append one batch after the other until the end of the test.
async fn callers(engine: &JetStream, writer: u64, count: u64, progress: &Progress) -> Acknowledged {
    let caller = |caller: u64| async move {
        let mut mine = Vec::new();
        for number in (caller..).step_by(count as usize) {
            if progress.is_over.load(Ordering::Relaxed) {
                break;
            }
            let position = insist(engine, writer, number).await;
            progress.acknowledged.fetch_add(1, Ordering::Relaxed);
            mine.push((batch(writer, number).id, position, Instant::now()));
        }
        mine
    };
    join_all((1..=count).map(caller)).await.concat()
}

async fn read_all(engine: &JetStream) -> Vec<Entry> {
    let (mut next, mut all) = (1, Vec::new());
    loop {
        let some = engine.read(P, Position(next), 1 << 20).await.unwrap();
        let Some(last) = some.last() else { return all };
        next = last.position.0 + 1;
        all.extend(some);
    }
}

/// Checks that positions have no holes, and that acknowledged batches are at their positions, once. Returns the number
/// of unacknowledged batches that were logged twice.
fn check(entries: &[Entry], acknowledged: &Acknowledged) -> usize {
    let positions: Vec<u64> = entries.iter().map(|entry| entry.position.0).collect();
    assert_eq!(positions, (1..=entries.len() as u64).collect::<Vec<_>>());
    let mut said = BTreeMap::new();
    for (id, position, _) in acknowledged {
        assert_eq!(said.insert(*id, *position), None, "acknowledged twice");
        let entry = &entries[position.0 as usize - 1];
        assert_eq!(entry.batch, batch(id.writer.0, id.number), "at {position:?}");
    }
    let mut times: HashMap<BatchId, usize> = HashMap::new();
    for entry in entries {
        *times.entry(entry.batch.id).or_default() += 1;
    }
    assert!(said.keys().all(|id| times.contains_key(id)));
    times.values().filter(|&&times| times > 1).count()
}

/// The longest time without an acknowledgement.
fn stall(acknowledged: &Acknowledged) -> Duration {
    let mut times: Vec<Instant> = acknowledged.iter().map(|(.., time)| *time).collect();
    times.sort_unstable();
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

fn wait_until_current(cluster: &Cluster, stream: &str) {
    let began = Instant::now();
    loop {
        let info = cluster.ask(&format!("STREAM.INFO.{stream}"), &json!({}));
        let replicas = info["cluster"]["replicas"].as_array();
        if replicas.is_some_and(|all| all.len() == 2 && all.iter().all(|replica| replica["current"] == true))
        {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "not caught up: {info}");
        sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_leader_that_is_killed_loses_nothing() {
    let Some(cluster) = Cluster::start(3) else { return };
    let stream = format!("f-log-{}", P.0);
    pollster::block_on(async {
        let options = Options { timeout: Duration::from_secs(3), ..cluster.options("f") };
        drop(cluster.open("f").await);
        let engine = JetStream::connect(options.clone()).await.unwrap();
        let other = JetStream::connect(options).await.unwrap();
        insist(&engine, 9, 1).await;
        let mut watch = other.watch(P, Position(1));
        let mut all = Acknowledged::new();
        // Twice: the second time, the restarted server is needed for a majority, and has caught up.
        for life in 1..=2u64 {
            let progress = Progress::default();
            let ran = std::thread::scope(|scope| {
                scope.spawn(|| {
                    progress.wait_for(5000);
                    let leader = cluster.leader(&stream);
                    cluster.kill_server(leader);
                    sleep(Duration::from_secs(1)); // messages in flight have arrived
                    progress.wait_for(5000);
                    progress.is_over.store(true, Ordering::Relaxed);
                    cluster.start_server(leader);
                });
                let both =
                    join(callers(&engine, life, 128, &progress), callers(&other, life + 10, 16, &progress));
                let (mut one, two) = pollster::block_on(both);
                one.extend(two);
                one
            });
            println!("{} batches, longest stall {:?}", ran.len(), stall(&ran));
            all.extend(ran);
            wait_until_current(&cluster, &stream);
        }
        let entries = read_all(&engine).await;
        let twice = check(&entries, &all);
        println!("{} entries, {twice} batches twice", entries.len());
        assert_eq!(twice, 0);
        for entry in &entries {
            assert_eq!(watch.next().await.unwrap().as_ref(), Ok(entry), "a watch outlives its servers");
        }
    });
}

#[test]
fn all_servers_go_and_come_back() {
    let Some(cluster) = Cluster::start(3) else { return };
    pollster::block_on(async {
        let options = Options { timeout: Duration::from_secs(1), ..cluster.options("g") };
        drop(cluster.open("g").await);
        let engine = JetStream::connect(options).await.unwrap();
        insist(&engine, 9, 1).await;
        let mut watch = engine.watch(P, Position(1));
        let mut records = engine.watch_records("");
        let progress = Progress::default();
        let acknowledged = std::thread::scope(|scope| {
            scope.spawn(|| {
                progress.wait_for(500);
                (0..3).for_each(|n| cluster.kill_server(n));
                let result = pollster::block_on(engine.append(P, batch(8, 1)));
                assert!(
                    matches!(result, Err(AppendError::Unknown(_) | AppendError::Refused(_))),
                    "{result:?}"
                );
                let result = pollster::block_on(engine.last(P));
                assert!(matches!(result, Err(ReadError::Unavailable(_))), "{result:?}");
                let result = pollster::block_on(engine.record("a"));
                assert!(matches!(result, Err(EngineError::Unavailable(_))), "{result:?}");
                let result = pollster::block_on(engine.publish("a", Arc::from(*b"x")));
                assert!(matches!(result, Err(EngineError::Unavailable(_))), "{result:?}");
                // Longer than servers remember batches: the engine searches the log for them.
                sleep(Duration::from_secs(62));
                (0..3).for_each(|n| cluster.start_server(n));
                let began = Instant::now();
                pollster::block_on(insist(&engine, 8, 1));
                println!("back after {:?}", began.elapsed());
                progress.is_over.store(true, Ordering::Relaxed);
            });
            pollster::block_on(callers(&engine, 1, 64, &progress))
        });
        let entries = read_all(&engine).await;
        assert_eq!(check(&entries, &acknowledged), 0);
        for entry in &entries {
            assert_eq!(watch.next().await.unwrap().as_ref(), Ok(entry));
        }
        insist_on_record(&engine, "a").await;
        assert_eq!(records.next().await.unwrap().unwrap().key, "a");
    });
}

/// Creates a record; retries while the servers have no leader.
async fn insist_on_record(engine: &JetStream, key: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match engine.swap(key, None, Some(Arc::from(*b"x"))).await {
            // Or an earlier attempt succeeded without an answer.
            Ok(_) | Err(SwapError::Conflict(Some(_))) => return,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        pause(200).await;
    }
}

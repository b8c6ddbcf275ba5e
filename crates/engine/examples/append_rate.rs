//! Rate of fsyncs of a directory's disk, and of appends of the embedded log in it, or of NATS servers.
//!
//! `cargo run --release -p scalebricks-engine --example append_rate -- [DIRECTORY] [CALLERS] [BYTES] [SECONDS] [RUNS]
//! [PARTITIONS]`
//!
//! With `nats://HOST:PORT[,...]` instead of the directory it creates streams for that many partitions (1) on servers,
//! and leaves them there: their names begin with `rate-`.
//!
//! Prints one line per number of callers (0: 1, 4, 16 and 64; for servers 1, 64 and 512) with the medians of its runs.
//! Each caller waits for its batch before it sends the next.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "the measurements are its output")]

use scalebricks_control::engine::{Batch, BatchId, Engine, WriterId};
use scalebricks_engine::embedded::storage::{Directory, sync_rate};
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_engine::nats::{self, JetStream};
use scalebricks_types::PartitionId;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

type Failure = Box<dyn Error + Send + Sync>;

/// Fsyncs per second of a file that grows by `bytes` each time.
fn fsync_rate(directory: &Path, bytes: usize, time: Duration) -> Result<f64, Failure> {
    let (storage, _lock) =
        Directory::lock(directory).map_err(|e| e.map_or("in use".to_owned(), |e| e.to_string()))?;
    Ok(sync_rate(&storage, bytes, time)?)
}

/// Batches per second, and p50 and p99 of their latency in milliseconds.
fn appends(
    engine: &impl Engine,
    callers: u64,
    bytes: usize,
    time: Duration,
    partitions: u64,
) -> Result<[f64; 3], Failure> {
    let is_over = AtomicBool::new(false);
    let mut latencies = Vec::new();
    let payload: Arc<[u8]> = Arc::from(vec![1; bytes]);
    let start = Instant::now();
    let caller = async |writer: u64| -> Result<Vec<Duration>, Failure> {
        let mut mine = Vec::new();
        for number in 1.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let id = BatchId { writer: WriterId(writer), number };
            let batch = Batch { id, payload: Arc::clone(&payload) };
            let began = Instant::now();
            engine.append(PartitionId((writer % partitions) as u16), batch).await?;
            mine.push(began.elapsed());
        }
        Ok(mine)
    };
    thread::scope(|scope| {
        let caller = &caller;
        let threads: Vec<_> =
            (0..callers).map(|writer| scope.spawn(move || pollster::block_on(caller(writer)))).collect();
        thread::sleep(time);
        is_over.store(true, Ordering::Relaxed);
        for thread in threads {
            latencies.extend(thread.join().map_err(|_| "a caller panicked")??);
        }
        Ok::<_, Failure>(())
    })?;
    let elapsed = start.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let at = |percent: usize| {
        let index = (latencies.len() * percent / 100).min(latencies.len().saturating_sub(1));
        latencies.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    };
    Ok([latencies.len() as f64 / elapsed, at(50), at(99)])
}

/// The result of [`appends`] for a log in a directory, and MiB per second read when it is opened again.
fn append_rate(directory: &Path, callers: u64, bytes: usize, time: Duration) -> Result<[f64; 4], Failure> {
    let engine = EmbeddedLog::open(directory, Options::default())?;
    let [batches, p50, p99] = appends(&engine, callers, bytes, time, 1 << 16)?;
    drop(engine);
    let start = Instant::now();
    let entries = EmbeddedLog::open(directory, Options::default())?.report().entries;
    let read = (entries as f64 * bytes as f64 / f64::from(1 << 20)) / start.elapsed().as_secs_f64();
    Ok([batches, p50, p99, read])
}

/// Measures servers; the streams stay there.
fn on_servers(
    servers: &str,
    callers: u64,
    bytes: usize,
    time: Duration,
    runs: u64,
    partitions: u64,
) -> Result<(), Failure> {
    let prefix = format!("rate-{}", std::process::id());
    let servers = servers.split(',').map(str::to_owned).collect();
    let options = nats::Options { servers, prefix, ..nats::Options::default() };
    let callers = if callers == 0 { vec![1, 64, 512] } else { vec![callers] };
    for (kind, callers) in callers.into_iter().enumerate() {
        let partitions = partitions.clamp(1, callers);
        let mut results = Vec::new();
        for run in 0..runs {
            // Each run has its own log, as a writer's numbers begin at 1.
            let prefix = format!("{}-{kind}-{run}", options.prefix);
            let options = nats::Options { prefix, ..options.clone() };
            let engine = pollster::block_on(JetStream::connect(options))?;
            pollster::block_on(engine.prepare((0..partitions).map(|n| PartitionId(n as u16))))?;
            results.push(appends(&engine, callers, bytes, time, partitions)?);
        }
        let [batches, p50, p99] = [0, 1, 2].map(|i| median(results.iter().map(|result| result[i]).collect()));
        println!(
            "RESULT engine=nats callers={callers} partitions={partitions} bytes={bytes} runs={runs} \
             batches_per_s={batches:.0} latency_ms_p50={p50:.3} latency_ms_p99={p99:.3}"
        );
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let target = arguments.next();
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (callers, bytes, seconds, runs) = (number(0)?, number(4096)? as usize, number(1)?, number(5)?);
    let partitions = number(1)?;
    let time = Duration::from_secs(seconds);
    if let Some(servers) = target.as_deref().filter(|target| target.contains("://")) {
        return on_servers(servers, callers, bytes, time, runs, partitions);
    }
    let base = target.map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = base.join(format!("append-rate-{}", std::process::id()));
    let callers = if callers == 0 { vec![1, 4, 16, 64] } else { vec![callers] };
    for callers in callers {
        // Alternating, since the speed of a shared disk changes from second to second.
        let mut results = Vec::new();
        for _ in 0..runs {
            let fsyncs = fsync_rate(&directory, bytes, time)?;
            std::fs::remove_dir_all(&directory)?;
            let [batches, p50, p99, read] = append_rate(&directory, callers, bytes, time)?;
            std::fs::remove_dir_all(&directory)?;
            results.push([fsyncs, batches, p50, p99, read]);
        }
        let [fsyncs, batches, p50, p99, read] =
            [0, 1, 2, 3, 4].map(|i| median(results.iter().map(|result| result[i]).collect()));
        println!(
            "RESULT callers={callers} bytes={bytes} runs={runs} fsyncs_per_s={fsyncs:.0} batches_per_s={batches:.0} \
             latency_ms_p50={p50:.3} latency_ms_p99={p99:.3} open_mib_per_s={read:.0}"
        );
    }
    Ok(())
}

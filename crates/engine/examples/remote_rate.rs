//! How many batches a log takes from callers in its process, and from callers over a socket.
//!
//! `cargo run --release -p scalebricks-engine --example remote_rate -- [DIRECTORY] [BYTES] [SECONDS] [RUNS]`
//!
//! Prints one line for each way and number of callers, each value the median of its runs. Every caller is a thread and
//! waits for its batch before it sends the next. Server and callers share a process, and so its cores.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "what it measured is what it is for")]

use scalebricks_control::engine::{Batch, BatchId, Engine, WriterId};
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_engine::remote::{
    ClientOptions, Endpoint, Listener, RemoteEngine, Server, ServerOptions, serve,
};
use scalebricks_types::PartitionId;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

type Failure = Box<dyn Error + Send + Sync>;

/// How callers reach the log.
#[derive(Debug, Clone, Copy)]
enum Way {
    Direct,
    Unix,
    Tcp,
}

/// An engine over a new log, and what serves it.
fn open(directory: &Path, way: Way) -> Result<(Arc<dyn Engine>, Option<Server>), Failure> {
    let log = Arc::new(EmbeddedLog::open(directory, Options::default())?);
    let endpoint = match way {
        Way::Direct => return Ok((log, None)),
        Way::Unix => Endpoint::Unix(directory.join("engine.sock")),
        Way::Tcp => "tcp:127.0.0.1:0".parse()?,
    };
    let listener = Listener::bind(&endpoint)?;
    let endpoint = listener.endpoint().clone();
    let server = serve(log, listener, ServerOptions::default())?;
    Ok((Arc::new(RemoteEngine::connect(endpoint, ClientOptions::default())?), Some(server)))
}

/// Batches a second, and the time that half of them and 99 of a hundred took at the most, in milliseconds.
fn rate(engine: &dyn Engine, callers: u64, bytes: usize, time: Duration) -> Result<[f64; 3], Failure> {
    let is_over = AtomicBool::new(false);
    let payload: Arc<[u8]> = Arc::from(vec![1; bytes]);
    let mut latencies = Vec::new();
    let start = Instant::now();
    thread::scope(|scope| {
        let caller = |writer| -> Result<Vec<Duration>, Failure> {
            let mut mine = Vec::new();
            for number in 1.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let id = BatchId { writer: WriterId(writer), number };
                let batch = Batch { id, payload: Arc::clone(&payload) };
                let began = Instant::now();
                pollster::block_on(engine.append(PartitionId(writer as u16), batch))?;
                mine.push(began.elapsed());
            }
            Ok(mine)
        };
        let threads: Vec<_> = (0..callers).map(|writer| scope.spawn(move || caller(writer))).collect();
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let base = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (bytes, seconds, runs) = (number(4096)? as usize, number(1)?, number(5)?);
    let directory = base.join(format!("remote-rate-{}", std::process::id()));
    for callers in [1, 64] {
        let mut results = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..runs {
            // In turn, since a disk shared with others is not the same from one second to the next.
            for (way, results) in [Way::Direct, Way::Unix, Way::Tcp].into_iter().zip(&mut results) {
                let (engine, server) = open(&directory, way)?;
                results.push(rate(engine.as_ref(), callers, bytes, Duration::from_secs(seconds))?);
                drop((engine, server));
                std::fs::remove_dir_all(&directory)?;
            }
        }
        for (way, results) in [Way::Direct, Way::Unix, Way::Tcp].into_iter().zip(results) {
            let [batches, p50, p99] =
                [0, 1, 2].map(|i| median(results.iter().map(|result| result[i]).collect()));
            println!(
                "RESULT way={way:?} callers={callers} bytes={bytes} runs={runs} batches_per_s={batches:.0} \
                 latency_ms_p50={p50:.3} latency_ms_p99={p99:.3}"
            );
        }
    }
    Ok(())
}

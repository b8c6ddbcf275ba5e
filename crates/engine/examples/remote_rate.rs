//! Append rate and latency of three logs for one machine: embedded in the process, an engine process over a unix socket,
//! and one local NATS server.
//!
//! `cargo run --release -p scalebricks-engine --example remote_rate -- NATS_SERVER [DIRECTORY] [BYTES] [SECONDS] [RUNS]`
//!
//! `NATS_SERVER` is the program that `scripts/nats.sh path` names. Every caller is a thread and waits for its batch before
//! it sends the next. The callers and the engine process's server share a process, and so do its cores; the NATS server is
//! a process of its own on the same cores. Prints JSON: for each log, number of callers and number of partitions the
//! medians of the runs, and each run.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "the measurements are its output")]

use scalebricks_control::engine::{Batch, BatchId, Engine, WriterId};
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_engine::nats::{self, JetStream};
use scalebricks_engine::remote::{
    ClientOptions, Endpoint, Listener, RemoteEngine, Server, ServerOptions, serve,
};
use scalebricks_types::PartitionId;
use serde_json::{Value, json};
use std::error::Error;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

type Failure = Box<dyn Error + Send + Sync>;

/// Where the log is.
#[derive(Debug, Clone, Copy)]
enum Way {
    Embedded,
    EngineProcess,
    Nats,
}

const WAYS: [Way; 3] = [Way::Embedded, Way::EngineProcess, Way::Nats];

/// What serves the log.
enum Serving {
    Nothing,
    Engine(Server),
    Nats(Child),
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Self::Nats(child) = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// An engine over a new log, and what serves it.
fn open(
    directory: &Path,
    way: Way,
    program: &str,
    partitions: u64,
) -> Result<(Arc<dyn Engine>, Serving), Failure> {
    if matches!(way, Way::Nats) {
        return open_nats(directory, program, partitions);
    }
    let log = Arc::new(EmbeddedLog::open(directory, Options::default())?);
    if matches!(way, Way::Embedded) {
        return Ok((log, Serving::Nothing));
    }
    let listener = Listener::bind(&Endpoint::Unix(directory.join("engine.sock")))?;
    let endpoint = listener.endpoint().clone();
    let server = serve(log, listener, ServerOptions::default())?;
    Ok((Arc::new(RemoteEngine::connect(endpoint, ClientOptions::default())?), Serving::Engine(server)))
}

/// Starts one NATS server that syncs every append to the disk.
fn open_nats(
    directory: &Path,
    program: &str,
    partitions: u64,
) -> Result<(Arc<dyn Engine>, Serving), Failure> {
    std::fs::create_dir_all(directory)?;
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let config = directory.join("nats.conf");
    let store = directory.display();
    let text = format!(
        "listen: \"{address}\"\nmax_payload: 2MB\njetstream {{ store_dir: \"{store}\", sync_interval: always }}\n"
    );
    std::fs::write(&config, text)?;
    let mut command = Command::new(program);
    let child = command.arg("-c").arg(config).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let serving = Serving::Nats(child);
    let started = Instant::now();
    while TcpStream::connect(address).is_err() {
        if started.elapsed() > Duration::from_secs(10) {
            return Err("the NATS server did not start".into());
        }
        thread::sleep(Duration::from_millis(50));
    }
    let servers = vec![format!("nats://{address}")];
    let options = nats::Options { servers, replicas: 1, ..nats::Options::default() };
    let engine = pollster::block_on(JetStream::connect(options))?;
    pollster::block_on(engine.prepare((0..partitions).map(|n| PartitionId(n as u16))))?;
    Ok((Arc::new(engine), serving))
}

/// Batches a second, and the time that half of them and 99 of a hundred took at the most, in milliseconds.
fn rate(
    engine: &dyn Engine,
    callers: u64,
    partitions: u64,
    bytes: usize,
    time: Duration,
) -> Result<[f64; 3], Failure> {
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
                pollster::block_on(engine.append(PartitionId((writer % partitions) as u16), batch))?;
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

/// Smallest, median and largest of one value of all runs.
fn spread(runs: &[[f64; 3]], value: usize) -> Value {
    let values: Vec<f64> = runs.iter().map(|run| run[value]).collect();
    let (low, high) = values.iter().fold((f64::INFINITY, 0f64), |(low, high), &v| (low.min(v), high.max(v)));
    json!({ "median": median(values), "min": low, "max": high })
}

/// First line of a program's output, or of a file.
fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().ok_or("name the nats-server program: scripts/nats.sh path")?;
    let base = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (bytes, seconds, runs) = (number(4096)? as usize, number(2)?, number(5)?);
    let directory = base.join(format!("remote-rate-{}", std::process::id()));
    let mut rows = Vec::new();
    let load_before = load();
    for (callers, partitions) in [(1, 1), (16, 16), (64, 64), (64, 1)] {
        let mut results = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..runs {
            // Alternate: a disk and cores shared with others change from one second to the next.
            for (way, results) in WAYS.into_iter().zip(&mut results) {
                let (engine, serving) = open(&directory, way, &program, partitions)?;
                let time = Duration::from_secs(seconds);
                results.push(rate(engine.as_ref(), callers, partitions, bytes, time)?);
                drop((engine, serving));
                std::fs::remove_dir_all(&directory)?;
            }
        }
        for (way, runs) in WAYS.into_iter().zip(results) {
            rows.push(json!({
                "log": format!("{way:?}"),
                "callers": callers,
                "partitions": partitions,
                "batches_per_s": spread(&runs, 0),
                "latency_ms_p50": spread(&runs, 1),
                "latency_ms_p99": spread(&runs, 2),
            }));
        }
    }
    let report = json!({
        "commit": first_line("git", &["rev-parse", "HEAD"]),
        "cpu": first_line("sed", &["-n", "s/^model name.*: //p", "/proc/cpuinfo"]),
        "cores": thread::available_parallelism()?.get(),
        "nats_server": first_line(&program, &["--version"]),
        "bytes": bytes,
        "seconds": seconds,
        "runs": runs,
        "load_average": { "before": load_before, "after": load() },
        "rows": rows,
    });
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}

//! `gateway`: one node measured alone, latencies by load, and packets through a whole cluster in this process by
//! architecture: what the demo does, told as rows.

use scalebricks_bench::{BenchError, BenchRun, Metric};
use scalebricks_console::machine;
use scalebricks_lab::demo::config::{DemoConfig, MAX_FLOWS};
use scalebricks_lab::demo::report::result::ArchitectureResult;
use scalebricks_lab::demo::stopwatch::SLICES;
use scalebricks_lab::demo::synthetic::{self, SyntheticError};
use scalebricks_report::stats::Summary;

/// Packets for each flow.
const PACKETS_PER_FLOW: u64 = 5;

/// Fewest packets: ten slices of several rounds, so that the first, which is not timed, leaves something.
const MIN_PACKETS: u64 = 2_000_000;

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    let flows = options.keys(&[1_000, 250_000], &[1_000, 32_000, 1_000_000, 8_000_000, 32_000_000]);
    scalebricks_bench::gateway::measure(bench, &flows)?;
    // The demo keeps every flow of all nodes, which is for fewer flows than one node's tables.
    for flows in options.keys(&[250_000], &[1_000_000]).into_iter().filter(|&flows| flows <= MAX_FLOWS) {
        for threads in options.threads(&[machine::cores()], &[machine::cores()]) {
            one(bench, flows, threads)?;
        }
    }
    Ok(())
}

/// One cluster size.
fn one(bench: &mut BenchRun<'_>, flows: u64, threads: usize) -> Result<(), BenchError> {
    let small = flows < 100_000;
    let packets = if small { flows * PACKETS_PER_FLOW } else { (flows * PACKETS_PER_FLOW).max(MIN_PACKETS) };
    let config = DemoConfig::synthetic(flows, packets, threads)
        .map_err(|error| BenchError::Usage(format!("gateway: {error}")))?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| BenchError::Threads(error.to_string()))?;
    let (console, interrupt) = (bench.console, bench.interrupt);
    let report =
        pool.install(|| synthetic::run(&config, console, interrupt)).map_err(|error| match error {
            SyntheticError::Interrupted(interrupted) => BenchError::Interrupted(interrupted),
            SyntheticError::Memory { needed, available } => {
                BenchError::Memory { keys: flows, needed, available }
            }
            other => BenchError::Other(Box::new(other)),
        })?;
    for result in &report.architectures {
        if !result.is_clean() {
            let problem = format!("{} packets lost, {} misdelivered", result.lost, result.misdelivered);
            return Err(BenchError::check(result.name, problem));
        }
        let case = bench
            .case(result.name, flows)
            .threads(threads)
            .table_bytes(result.gpt_bytes_per_node + result.fib_bytes_per_node);
        bench.add(case, Metric::PacketRate, rates(result));
    }
    Ok(())
}

/// The slices of the run as its runs; the first round of packets is in none.
fn rates(result: &ArchitectureResult) -> Summary {
    let [median, min, max] = [result.mpps_median, result.mpps_min, result.mpps_max].map(|mpps| mpps * 1e6);
    Summary { median, min, max, runs: SLICES }
}

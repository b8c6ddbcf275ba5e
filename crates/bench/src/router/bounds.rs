//! Tables 2 and 3: what bounds a server. The clock, the bandwidth of memory, empty polls, and instructions per packet.

use super::bed::Bed;
use super::packets::Lengths;
use super::rig::{Measured, WHOLE};
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::keys::mix;
use crate::pin;
use crate::row::Metric;
use crate::timing;
use scalebricks_report::stats::Summary;
use serde::Deserialize;
use std::hint::black_box;
use std::path::Path;

/// Words of the memory that is streamed, 256 MiB: far more than the last-level cache.
const WORDS: usize = 1 << 25;
/// Words of a cache line.
const LINE: usize = 8;
/// Steps of the chain of instructions.
const STEPS: u64 = 1 << 24;
/// Cycles of a step: a XOR and a multiplication of 64 bits, each of which needs the result before.
const STEP_CYCLES: f64 = 4.0;
/// Polls per run.
const POLLS: usize = 1 << 16;

/// The names of streams of memory.
const READS: &str = "memory, reads in order";
const WRITES: &str = "memory, writes in order";
const RANDOM: &str = "memory, writes of random lines";
pub(crate) const STREAMS: [&str; 3] = [READS, WRITES, RANDOM];
/// The name of the clock.
pub(crate) const CLOCK: &str = "clock";

/// Counts of instructions, from `scripts/instructions router`.
#[derive(Debug, Deserialize)]
struct Counts {
    /// What was counted; `router`.
    what: String,
    counts: Vec<Count>,
}

#[derive(Debug, Deserialize)]
struct Count {
    work: String,
    by: String,
    /// Instructions per packet, without the ports.
    a_packet: f64,
}

/// The clock in cycles per second, by a chain of dependent instructions.
fn clock() -> Result<f64, BenchError> {
    let (sum, seconds) = timing::pinned(|| {
        let factor = black_box(0x9E37_79B9_7F4A_7C15_u64);
        (0..STEPS).fold(1_u64, |sum, step| (sum ^ step).wrapping_mul(factor))
    })?;
    black_box(sum);
    Ok(STEPS as f64 * STEP_CYCLES / seconds)
}

#[inline(never)]
fn stream(what: &str, words: &mut [u64], seed: u64) {
    match what {
        READS => {
            black_box(words.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)));
        }
        WRITES => words.fill(black_box(seed)),
        _ => {
            let lines = words.len() / LINE;
            for number in 0..lines as u64 {
                let line = (mix(seed << 32 | number) >> 32) as usize % lines * LINE;
                if let Some(line) = words.get_mut(line..line + LINE) {
                    line.fill(number);
                }
            }
        }
    }
}

/// Bytes per second of all threads together.
fn bandwidth(what: &'static str, memory: &mut [u64], threads: usize) -> Result<f64, BenchError> {
    let bytes = size_of_val(memory) as f64;
    let part = memory.len() / threads;
    let works: Vec<_> = memory
        .chunks_mut(part)
        .take(threads)
        .enumerate()
        .map(|(number, words)| move || stream(what, words, number as u64 + 1))
        .collect();
    Ok(bytes / timing::together(what, works)?)
}

/// Measures.
///
/// # Errors
/// [`BenchError`], also for a file of counts that cannot be read.
pub(super) fn run(bench: &mut BenchRun<'_>, bed: &Bed) -> Result<(), BenchError> {
    let runs = bench.options.runs();
    let mut memory: Vec<u64> = (0..WORDS as u64).collect();
    let lengths = Lengths::of(64);
    let mut contenders = bed.ours(&bed.ring(&lengths), &lengths, WHOLE)?;
    let threads: Vec<usize> = (1..=pin::cores().min(2)).collect();
    let (mut clocks, mut polls) = (Vec::new(), vec![Vec::new(); contenders.len()]);
    let mut streams = Vec::new();
    for what in STREAMS {
        streams.extend(threads.iter().map(|&threads| (what, threads, Vec::new())));
    }
    for contender in &mut contenders {
        contender.judge()?;
    }
    for _ in 0..runs {
        bench.check()?;
        clocks.push(clock()?);
        for (what, threads, rates) in &mut streams {
            rates.push(bandwidth(what, &mut memory, *threads)?);
        }
        for (contender, times) in contenders.iter_mut().zip(&mut polls) {
            times.push(contender.empty_turn(POLLS)?);
        }
    }
    let case = bench.case(CLOCK, bed.routes()).threads(1);
    bench.add(case, Metric::ClockRate, Summary::of(&clocks));
    for (what, threads, rates) in streams {
        let case = bench.case(what, bed.routes()).threads(threads);
        bench.add(case, Metric::Bandwidth, Summary::of(&rates));
    }
    for (contender, times) in contenders.iter().zip(polls) {
        let [work, by] = contender.name();
        let case = bench.case(work, bed.routes()).format(by).variant("empty poll".to_owned()).threads(1);
        bench.add(case, Metric::PollTime, Summary::of(&times));
    }
    match bench.options.instructions.clone() {
        Some(path) => add_counts(bench, bed, &path)?,
        None => bench.console.note(
            "router: instructions left out: count them by scripts/instructions router --json FILE, and give --instructions FILE",
        ),
    }
    Ok(())
}

fn add_counts(bench: &mut BenchRun<'_>, bed: &Bed, path: &Path) -> Result<(), BenchError> {
    let usage = |error: &dyn std::fmt::Display| {
        BenchError::Usage(format!("--instructions: {}: {error}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| usage(&error))?;
    let Counts { what, counts } = serde_json::from_str(&text).map_err(|error| usage(&error))?;
    if what != "router" {
        return Err(usage(&format!("counts of {what}, not of router")));
    }
    for Count { work, by, a_packet } in counts {
        let case = bench.case(&work, bed.routes()).variant(format!("{by}, counted")).threads(1);
        bench.add_exact(case, Metric::Instructions, a_packet);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn memory_is_streamed_by_one_thread_and_by_two() {
        let mut memory: Vec<u64> = (0..1 << 16).collect();
        for what in STREAMS {
            for threads in [1, 2] {
                assert!(bandwidth(what, &mut memory, threads).unwrap() > 0.0);
            }
        }
        assert!(clock().unwrap() > 0.0);
    }

    #[test]
    fn counts_are_read_and_those_of_something_else_refused() {
        let options = Options { quick: true, runs: Some(1), ..Options::default() };
        let mut bench = BenchRun::for_test("router", options);
        let bed = Bed::new(&bench).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |what: &str| {
            let text =
                format!(r#"{{"what":"{what}","counts":[{{"work":"route","by":"fused","a_packet":97.5}}]}}"#);
            std::fs::write(file.path(), text).unwrap();
        };
        write("lpm");
        let error = add_counts(&mut bench, &bed, file.path()).unwrap_err().to_string();
        assert!(error.contains("counts of lpm"), "{error}");
        write("router");
        add_counts(&mut bench, &bed, file.path()).unwrap();
        let row = &bench.rows()[0];
        assert_eq!(
            (row.metric, row.median, row.case.variant_text()),
            (Metric::Instructions, 97.5, "fused, counted")
        );
    }
}

//! Whether two cores are two physical cores: how much more work a pair of threads does than one.
//!
//! Two threads of one physical core share its execution units and caches, and a virtual machine may hide
//! that. So this module measures the pair: once with independent multiplications, which keep the execution
//! units busy, and once with independent random loads, which keep the memory busy. The report also says what
//! the kernel claims.

use crate::error::BenchError;
use crate::keys::mix;
use crate::{pin, timing};
use scalebricks_report::stats::Summary;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::sync::OnceLock;

/// Runs per measurement.
const RUNS: usize = 7;
/// Rounds of multiplications per run, about ten milliseconds.
const ROUNDS: u64 = 1 << 20;
/// Numbers multiplied in parallel.
const LANES: usize = 16;
/// Random loads per run and thread.
const LOADS: u64 = 1 << 20;
/// Words of the array they load from: 256 MiB.
const WORDS: usize = 1 << 25;
/// A pair that does less than this many times the work of one thread counts as one core.
const TWO_CORES: f64 = 1.6;

static MEASURED: OnceLock<CorePair> = OnceLock::new();

/// How two pinned threads scale, as multiples of the work of one thread; medians of several short runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CorePair {
    /// For arithmetic.
    pub arithmetic: f64,
    /// For random loads from a large array.
    pub random_loads: f64,
    /// The siblings of both cores according to the kernel (`thread_siblings_list`).
    pub siblings: Option<String>,
}

impl CorePair {
    /// Measures the first two cores that threads are pinned to; `None` on a single core.
    ///
    /// # Errors
    /// [`BenchError::Threads`]; [`BenchError::Rejected`].
    pub fn measure() -> Result<Option<Self>, BenchError> {
        if pin::cores() < 2 {
            return Ok(None);
        }
        let memory: Vec<u64> = (0..WORDS as u64).collect();
        let arithmetic = scaling(|thread| multiply(thread as u64))?;
        let random_loads = scaling(|thread| load(&memory, thread as u64))?;
        Ok(Some(Self { arithmetic, random_loads, siblings: siblings() }))
    }

    /// The pair that [`settle`](Self::settle) measured.
    pub fn known() -> Option<&'static Self> {
        MEASURED.get()
    }

    /// Measures the pair once for the process.
    ///
    /// # Errors
    /// As [`measure`](Self::measure).
    pub fn settle() -> Result<(), BenchError> {
        if Self::known().is_none()
            && let Some(pair) = Self::measure()?
        {
            let _ = MEASURED.set(pair);
        }
        Ok(())
    }

    /// Whether it does the arithmetic of two physical cores.
    pub fn is_two_cores(&self) -> bool {
        self.arithmetic >= TWO_CORES
    }
}

impl std::fmt::Display for CorePair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is = if self.is_two_cores() { "two cores" } else { "one core" };
        let (arithmetic, loads) = (self.arithmetic, self.random_loads);
        write!(
            f,
            "{is}: a pair of threads does {arithmetic:.2} times the arithmetic of one, {loads:.2} times the random loads"
        )?;
        match &self.siblings {
            Some(siblings) => write!(f, "; siblings by the kernel: {siblings}"),
            None => Ok(()),
        }
    }
}

/// The mark of a row measured with this many threads.
pub fn mark(threads: Option<usize>) -> Option<&'static str> {
    mark_of(threads?, pin::cores(), CorePair::known())
}

fn mark_of(threads: usize, cores: usize, pair: Option<&CorePair>) -> Option<&'static str> {
    match threads {
        ..2 => None,
        _ if threads > cores => Some("oversubscribed"),
        _ if pair.is_some_and(|pair| !pair.is_two_cores()) => Some("one core"),
        _ => None,
    }
}

/// How many times the work of one thread two threads do in the same time.
fn scaling(work: impl Fn(usize) + Sync) -> Result<f64, BenchError> {
    let work = &work;
    let run = |threads: usize| {
        let works = (0..threads).map(|thread| move || work(thread)).collect();
        timing::together("the pair of cores", works)
    };
    run(2)?;
    let times: Result<Vec<f64>, BenchError> = (0..RUNS).map(|_| Ok(2.0 * run(1)? / run(2)?)).collect();
    Ok(Summary::of(&times?).median)
}

/// Independent multiplications.
#[inline(never)]
fn multiply(seed: u64) {
    let mut lanes: [u64; LANES] = std::array::from_fn(|lane| mix(seed + lane as u64));
    for round in 0..black_box(ROUNDS) {
        for lane in &mut lanes {
            *lane = lane.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ round;
        }
    }
    black_box(lanes);
}

/// Independent loads from random positions.
#[inline(never)]
fn load(memory: &[u64], thread: u64) {
    let place = |number: u64| (mix(thread << 32 | number) >> 32) as usize % WORDS;
    black_box((0..LOADS).fold(0_u64, |sum, number| sum.wrapping_add(memory[place(number)])));
}

/// Each core with its siblings, as in `1: 0-1, 0: 0-1`.
fn siblings() -> Option<String> {
    let of = |core: usize| {
        let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
        let list = std::fs::read_to_string(path).ok()?;
        Some(format!("{core}: {}", list.trim()))
    };
    Some([of(pin::core(0)?)?, of(pin::core(1)?)?].join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_follow_from_threads_cores_and_the_pair() {
        let pair = |arithmetic| CorePair { arithmetic, random_loads: 1.9, siblings: None };
        assert_eq!(mark_of(1, 1, None), None);
        assert_eq!(mark_of(2, 1, None), Some("oversubscribed"));
        assert_eq!(mark_of(2, 2, Some(&pair(1.97))), None);
        assert_eq!(mark_of(2, 2, Some(&pair(1.2))), Some("one core"));
        assert_eq!(mark_of(4, 2, Some(&pair(1.97))), Some("oversubscribed"));
        assert_eq!(mark_of(1, 2, Some(&pair(1.2))), None);
        assert!(pair(1.2).to_string().starts_with("one core: a pair of threads does 1.20 times"));
    }

    #[test]
    fn a_pair_is_measured() {
        if let Some(pair) = CorePair::measure().unwrap() {
            assert!(pair.arithmetic > 0.0 && pair.random_loads > 0.0, "{pair}");
            assert!(pair.arithmetic.is_finite() && pair.random_loads.is_finite(), "{pair}");
        }
    }
}

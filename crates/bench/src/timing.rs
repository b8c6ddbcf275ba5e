//! Times builds and lookups.

use crate::error::BenchError;
use crate::keys::KeySet;
use crate::pin;
use crate::structures::{KeyForms, LookupMode, Queries, Table};
use rustix::time::{ClockId, clock_gettime};
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The clock that times a single thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Elapsed time.
    Wall,
    /// CPU time of the thread, for a shared machine.
    Cpu,
}

/// Whether single threads are timed by [`Clock::Cpu`].
static BY_CPU: AtomicBool = AtomicBool::new(false);

impl Clock {
    /// Uses this clock for single threads from now on.
    pub fn choose(self) {
        BY_CPU.store(self == Self::Cpu, Ordering::Relaxed);
    }

    /// The clock in use.
    pub fn chosen() -> Self {
        if BY_CPU.load(Ordering::Relaxed) { Self::Cpu } else { Self::Wall }
    }

    /// Time since a fixed moment in the past.
    pub fn now(self) -> Duration {
        let id = match self {
            Self::Wall => ClockId::Monotonic,
            Self::Cpu => ClockId::ThreadCPUTime,
        };
        let time = clock_gettime(id);
        // Both parts are non-negative, because both clocks start in the past.
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
}

/// Runs `work` on this thread; returns its result and the elapsed seconds.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    timed_by(Clock::Wall, work)
}

fn timed_by<T>(clock: Clock, work: impl FnOnce() -> T) -> (T, f64) {
    let start = clock.now();
    let done = work();
    (done, clock.now().saturating_sub(start).as_secs_f64())
}

/// Runs `work` on its own pinned thread; returns its result and the seconds it took by the chosen clock.
///
/// # Errors
/// [`BenchError::Threads`] if the thread cannot be started.
pub fn pinned<T: Send>(work: impl FnOnce() -> T + Send) -> Result<(T, f64), BenchError> {
    std::thread::scope(|scope| {
        let spawned = std::thread::Builder::new().spawn_scoped(scope, || {
            pin::to_core(0);
            timed_by(Clock::chosen(), work)
        });
        let thread = spawned.map_err(|error| BenchError::Threads(error.to_string()))?;
        thread.join().map_err(|_| BenchError::Threads("a measuring thread panicked".to_owned()))
    })
}

/// Runs all queries of `set`, split evenly among the threads; returns keys per second over all threads.
///
/// Answers are overwritten with wrong ones before the run. The caller checks them afterwards. Neither is
/// timed.
///
/// # Errors
/// [`BenchError::Threads`]; [`BenchError::Rejected`] if no time passed.
pub fn lookup(
    table: &dyn Table,
    mode: LookupMode,
    set: &KeySet,
    forms: &KeyForms,
    threads: usize,
    answers: &mut [u8],
) -> Result<f64, BenchError> {
    for (answer, right) in answers.iter_mut().zip(&set.answers) {
        *answer = !right;
    }
    let seconds = shared(mode.name(), &mut answers[..set.len()], threads, |places, answers| {
        let (flows, words) = forms.part(places.clone());
        table.lookup(mode, Queries { hashes: &set.queries[places], flows, words }, answers);
    })?;
    Ok(set.len() as f64 / seconds)
}

/// Number of queries per thread, except for the last threads; at least 1.
pub fn share(queries: usize, threads: usize) -> usize {
    queries.div_ceil(threads).max(1)
}

/// Splits the answers into one part of [`share`] queries per thread. `work` fills a part; it gets the
/// positions of the queries and their answers. Returns seconds as [`together`] does.
///
/// # Errors
/// [`BenchError::Threads`]; [`BenchError::Rejected`] if no time passed.
pub fn shared<A: Send>(
    what: &str,
    answers: &mut [A],
    threads: usize,
    work: impl Fn(Range<usize>, &mut [A]) + Sync,
) -> Result<f64, BenchError> {
    let (share, work) = (share(answers.len(), threads), &work);
    let parts = answers.chunks_mut(share).enumerate();
    let works = parts.map(|(number, answers)| {
        let places = number * share..number * share + answers.len();
        move || work(places, answers)
    });
    together(what, works.collect())
}

/// Runs each work on its own pinned thread, all started together. Returns the seconds from the first start to
/// the last end, by the chosen clock for one thread and by the wall clock for several.
///
/// # Errors
/// [`BenchError::Threads`]; [`BenchError::Rejected`] if no time passed.
pub fn together<F: FnOnce() + Send>(what: &str, works: Vec<F>) -> Result<f64, BenchError> {
    let barrier = Barrier::new(works.len());
    let clock = if works.len() == 1 { Clock::chosen() } else { Clock::Wall };
    let times: Result<Vec<(Duration, Duration)>, BenchError> = std::thread::scope(|scope| {
        let barrier = &barrier;
        let begin = |(number, work): (usize, F)| {
            scope.spawn(move || {
                pin::to_core(number);
                barrier.wait();
                let start = clock.now();
                work();
                (start, clock.now())
            })
        };
        let workers: Vec<_> = works.into_iter().enumerate().map(begin).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
            worker.join().map_err(|_| BenchError::Threads("a measuring thread panicked".to_owned()))
        };
        workers.into_iter().map(join).collect()
    });
    let times = times?;
    let start = times.iter().map(|time| time.0).min().unwrap_or_default();
    let end = times.iter().map(|time| time.1).max().unwrap_or_default();
    net(what, end.as_secs_f64(), start.as_secs_f64())
}

/// A time minus another one that is part of it.
///
/// # Errors
/// [`BenchError::Rejected`] if nothing remains: one of the two was disturbed.
pub fn net(what: &str, whole: f64, part: f64) -> Result<f64, BenchError> {
    let left = whole - part;
    if left > 0.0 {
        return Ok(left);
    }
    Err(BenchError::rejected(what, format!("the whole took {whole:.4}, but a part of it {part:.4}")))
}

/// A rate: count divided by seconds; 0 for a count of 0.
///
/// # Errors
/// [`BenchError::Rejected`] if a positive count took no time.
pub fn rate(what: &str, count: usize, seconds: f64) -> Result<f64, BenchError> {
    if count == 0 { Ok(0.0) } else { Ok(count as f64 / net(what, seconds, 0.0)?) }
}

/// Compares answers with those of the set.
///
/// # Errors
/// [`BenchError::Wrong`] for the first difference.
pub fn check(structure: &str, set: &KeySet, answers: &[u8]) -> Result<(), BenchError> {
    compare(structure, &set.answers, answers)
}

/// Compares answers with the right ones where updates have changed the set's own.
///
/// # Errors
/// [`BenchError::Wrong`] for the first difference.
pub fn compare(structure: &str, right: &[u8], answers: &[u8]) -> Result<(), BenchError> {
    let wrong = right.iter().zip(answers).position(|(right, got)| right != got);
    wrong.map_or(Ok(()), |key| {
        Err(BenchError::Wrong {
            structure: structure.to_owned(),
            key,
            keys: right.len(),
            got: answers[key],
            want: right[key],
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers all but a few queries correctly.
    struct Liar(usize);

    impl Table for Liar {
        fn table_bytes(&self) -> u64 {
            0
        }

        fn lookup(&self, _: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
            let known = KeySet::new(100, 2);
            for (hash, answer) in queries.hashes.iter().zip(answers).skip(self.0) {
                let place = known.queries.iter().position(|asked| asked == hash).unwrap();
                *answer = known.answers[place];
            }
        }
    }

    #[test]
    fn both_clocks_go_forward() {
        for clock in [Clock::Wall, Clock::Cpu] {
            let (sum, seconds) =
                timed_by(clock, || (0..2_000_000_u64).fold(0, |a, b| std::hint::black_box(a ^ b)));
            assert!(sum < 1 << 21 && seconds > 0.0 && seconds < 60.0);
        }
        assert_eq!(Clock::chosen(), Clock::Wall);
    }

    #[test]
    fn threads_share_all_questions_and_none_twice() {
        for (queries, threads, most) in [(10, 3, 4), (10, 1, 10), (9, 3, 3), (2, 5, 1)] {
            let mut answers = vec![0; queries];
            let fill = |places: Range<usize>, answers: &mut [usize]| {
                assert!((1..=most).contains(&answers.len()), "{places:?}");
                answers.iter_mut().zip(places).for_each(|(answer, place)| *answer += place + 1);
            };
            assert!(shared("x", &mut answers, threads, fill).unwrap() > 0.0);
            assert_eq!(answers, (1..=queries).collect::<Vec<_>>());
            assert_eq!(share(queries, threads), most);
        }
        assert_eq!(share(0, 2), 1);
    }

    #[test]
    fn a_net_time_is_positive_or_none() {
        assert!((net("x", 3.0, 1.0).unwrap() - 2.0).abs() < 1e-12);
        for (whole, part) in [(1.0, 1.0), (1.0, 2.0), (f64::NAN, 1.0)] {
            let error = net("x", whole, part).unwrap_err();
            assert!(matches!(&error, BenchError::Rejected { what, tries: 1, .. } if what == "x"), "{error}");
        }
    }

    #[test]
    fn a_wrong_answer_is_found_and_so_is_a_missing_one() {
        let set = KeySet::new(100, 2);
        let mut answers = set.answers.clone();
        for threads in [1, 3, 200] {
            assert!(
                lookup(&Liar(0), LookupMode::Loop, &set, &KeyForms::default(), threads, &mut answers)
                    .unwrap()
                    > 0.0
            );
            check("liar", &set, &answers).unwrap();
        }
        lookup(&Liar(1), LookupMode::Loop, &set, &KeyForms::default(), 1, &mut answers).unwrap();
        let error = check("liar", &set, &answers).unwrap_err();
        assert!(error.to_string().starts_with("liar answered"), "{error}");
    }
}

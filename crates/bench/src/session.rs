//! What a benchmark is given to work with.

use crate::error::BenchError;
use crate::figures::exhibit::{Chart, Conclusion, Exhibits, PageTable};
use crate::options::Options;
use crate::row::{Case, Metric, Row};
use crate::stats::Summary;
use scalebricks_console::quantity::short_count;
use scalebricks_console::{Busy, Console, Interrupt, Progress, memory};
use std::sync::atomic::{AtomicUsize, Ordering};

/// One benchmark under way: what was asked for, whom to tell, and the rows so far.
#[derive(Debug)]
pub struct Session<'a> {
    bench: &'static str,
    options: &'a Options,
    console: &'a Console,
    interrupt: &'a Interrupt,
    rows: Vec<Row>,
    exhibits: Exhibits,
    rejected: AtomicUsize,
}

#[cfg(test)]
impl Session<'static> {
    /// A quiet session for a test, which leaks what it borrows.
    pub(crate) fn for_test(bench: &'static str, options: Options) -> Self {
        let options = Box::leak(Box::new(options));
        Self::new(bench, options, Box::leak(Box::new(Console::new(true))), Box::leak(Box::default()))
    }
}

impl<'a> Session<'a> {
    /// For this benchmark.
    pub const fn new(
        bench: &'static str,
        options: &'a Options,
        console: &'a Console,
        interrupt: &'a Interrupt,
    ) -> Self {
        Self {
            bench,
            options,
            console,
            interrupt,
            rows: Vec::new(),
            exhibits: Exhibits { charts: Vec::new(), sheets: Vec::new(), conclusions: Vec::new() },
            rejected: AtomicUsize::new(0),
        }
    }

    /// What was asked for.
    pub const fn options(&self) -> &'a Options {
        self.options
    }

    /// Where words go. Results are printed from the rows.
    pub const fn console(&self) -> &'a Console {
        self.console
    }

    /// Whether the user wants to stop, for those who pass it on.
    pub const fn interrupt(&self) -> &'a Interrupt {
        self.interrupt
    }

    /// `Err` once the user wants to stop; asked between two steps.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`].
    pub fn check(&self) -> Result<(), BenchError> {
        Ok(self.interrupt.check()?)
    }

    /// A spinner for something that is not timed, until dropped.
    pub fn busy(&self, doing: &'static str) -> Busy {
        self.console.busy(self.bench, doing)
    }

    /// A bar of `total` steps.
    pub fn progress(&self, total: usize) -> Progress {
        self.console.progress(self.bench, total as u64)
    }

    /// Counts a run that was rejected and is made again.
    pub fn reject(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs that were rejected and made again.
    pub fn rejected(&self) -> usize {
        self.rejected.load(Ordering::Relaxed)
    }

    /// A case of this benchmark, to be filled in.
    pub fn case(&self, structure: &str, keys: u64) -> Case {
        Case { bench: self.bench, structure: structure.to_owned(), keys, ..Case::default() }
    }

    /// Keeps a result.
    pub fn add(&mut self, case: Case, metric: Metric, figures: Summary) {
        self.rows.push(Row::new(case, metric, figures));
    }

    /// Keeps a chart.
    pub fn add_chart(&mut self, chart: Chart) {
        self.exhibits.charts.push(chart);
    }

    /// Keeps a table for the page.
    pub fn add_table(&mut self, sheet: PageTable) {
        self.exhibits.sheets.push(sheet);
    }

    /// Keeps a sentence for the page that says what a table or chart shows.
    pub fn add_conclusion(&mut self, name: &str, sentence: impl Into<String>) {
        self.exhibits.conclusions.push(Conclusion { name: name.to_owned(), sentence: sentence.into() });
    }

    /// The rows so far.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rows, and what else is shown.
    pub fn finish(self) -> (Vec<Row>, Exhibits) {
        (self.rows, self.exhibits)
    }

    /// Those of these sizes that fit the memory.
    ///
    /// # Errors
    /// As [`Self::fits`].
    pub fn fitting(&self, sizes: Vec<u64>, bytes_per_key: u64) -> Result<Vec<u64>, BenchError> {
        let mut fitting = Vec::with_capacity(sizes.len());
        for keys in sizes {
            if self.fits(keys, bytes_per_key)? {
                fitting.push(keys);
            }
        }
        Ok(fitting)
    }

    /// Whether `keys` keys, which take about so many bytes, fit the memory. A size that nobody asked for by name is
    /// left out with a note.
    ///
    /// # Errors
    /// [`BenchError::Memory`] for a size that was asked for.
    pub fn fits(&self, keys: u64, bytes_per_key: u64) -> Result<bool, BenchError> {
        let needed = keys.saturating_mul(bytes_per_key);
        match memory::available_bytes() {
            Some(available) if needed > available => {
                if self.options.keys.is_some() {
                    return Err(BenchError::Memory { keys, needed, available });
                }
                let left_out =
                    format!("{}: {} keys left out, too little memory", self.bench, short_count(keys));
                self.console.note(&left_out);
                Ok(false)
            }
            _ => Ok(true),
        }
    }
}

//! The context of a running benchmark.

use crate::error::BenchError;
use crate::options::Options;
use crate::row::{Case, Metric, Row};
use scalebricks_console::quantity::short_count;
use scalebricks_console::{Busy, Console, Interrupt, Progress, memory};
use scalebricks_report::exhibit::{Chart, Conclusion, Exhibits, PageTable};
use scalebricks_report::stats::Summary;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A running benchmark: its options, the console, and the results so far.
#[derive(Debug)]
pub struct BenchRun<'a> {
    name: &'static str,
    /// The options.
    pub options: &'a Options,
    /// The console for notes. Results are printed from the rows.
    pub console: &'a Console,
    /// The interrupt, for code that passes it on.
    pub interrupt: &'a Interrupt,
    rows: Vec<Row>,
    exhibits: Exhibits,
    rejected: AtomicUsize,
}

#[cfg(test)]
impl BenchRun<'static> {
    /// A quiet run for a test, which leaks what it borrows.
    pub(crate) fn for_test(name: &'static str, options: Options) -> Self {
        let options = Box::leak(Box::new(options));
        Self::new(name, options, Box::leak(Box::new(Console::new(true))), Box::leak(Box::default()))
    }
}

impl<'a> BenchRun<'a> {
    /// A run of this benchmark without results.
    pub fn new(
        name: &'static str,
        options: &'a Options,
        console: &'a Console,
        interrupt: &'a Interrupt,
    ) -> Self {
        let (rows, exhibits, rejected) = Default::default();
        Self { name, options, console, interrupt, rows, exhibits, rejected }
    }

    /// Fails once the user has interrupted the run. Long work calls it between steps.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`].
    pub fn check(&self) -> Result<(), BenchError> {
        Ok(self.interrupt.check()?)
    }

    /// Waits, unless Ctrl-C was pressed.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`].
    pub fn pause(&self, time: Duration) -> Result<(), BenchError> {
        Ok(self.interrupt.wait(time)?)
    }

    /// A spinner for work that is not timed; it lasts until it is dropped.
    pub fn busy(&self, doing: &'static str) -> Busy {
        self.console.busy(self.name, doing)
    }

    /// A progress bar of `total` steps.
    pub fn progress(&self, total: usize) -> Progress {
        self.console.progress(self.name, total as u64)
    }

    /// Counts a rejected run, which is repeated.
    pub fn reject(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of rejected runs.
    pub fn rejected(&self) -> usize {
        self.rejected.load(Ordering::Relaxed)
    }

    /// A case of this benchmark, to be completed by its setters.
    pub fn case(&self, structure: &str, keys: u64) -> Case {
        Case { bench: self.name, structure: structure.to_owned(), keys, ..Case::default() }
    }

    /// Adds a row.
    pub fn add(&mut self, case: Case, metric: Metric, figures: Summary) {
        self.rows.push(Row::new(case, metric, figures));
    }

    /// Adds a row with a figure that does not vary.
    pub fn add_exact(&mut self, case: Case, metric: Metric, figure: f64) {
        self.add(case, metric, Summary::exact(figure));
    }

    /// Adds a chart.
    pub fn add_chart(&mut self, chart: Chart) {
        self.exhibits.charts.push(chart);
    }

    /// Adds a table for the page.
    pub fn add_table(&mut self, table: impl Into<PageTable>) {
        self.exhibits.sheets.push(table.into());
    }

    /// Adds a sentence that states, with numbers, what a table or chart of the page shows.
    pub fn add_conclusion(&mut self, name: &str, sentence: impl Into<String>) {
        self.exhibits.conclusions.push(Conclusion { name: name.to_owned(), sentence: sentence.into() });
    }

    /// The rows so far.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rows, and the charts, tables and conclusions.
    pub fn finish(self) -> (Vec<Row>, Exhibits) {
        (self.rows, self.exhibits)
    }

    /// The requested sizes, or one of these lists, as far as they fit in memory: see [`Self::fits`].
    ///
    /// # Errors
    /// As [`Self::fits`].
    pub fn sizes(&self, quick: &[u64], full: &[u64], bytes_per_key: u64) -> Result<Vec<u64>, BenchError> {
        let mut fitting = Vec::new();
        for keys in self.options.keys(quick, full) {
            if self.fits(keys, bytes_per_key)? {
                fitting.push(keys);
            }
        }
        Ok(fitting)
    }

    /// Whether `keys` keys of about `bytes_per_key` bytes fit in memory. A default size that does not fit is
    /// skipped with a note.
    ///
    /// # Errors
    /// [`BenchError::Memory`] for a size that the user requested.
    pub fn fits(&self, keys: u64, bytes_per_key: u64) -> Result<bool, BenchError> {
        let needed = keys.saturating_mul(bytes_per_key);
        let Some(available) = memory::available_bytes().filter(|&available| needed > available) else {
            return Ok(true);
        };
        if self.options.keys.is_some() {
            return Err(BenchError::Memory { keys, needed, available });
        }
        self.console.note(&format!("{}: {} keys skipped: too little memory", self.name, short_count(keys)));
        Ok(false)
    }
}

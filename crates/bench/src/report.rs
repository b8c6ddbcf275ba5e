//! The report of a run as JSON, from which pages are made.

use crate::figures::chart;
use crate::options::Options;
use crate::pair::CorePair;
use crate::row::{Case, Row};
use crate::structures::native;
use crate::timing::Clock;
use scalebricks_console::machine::{self, Processor};
use scalebricks_report::exhibit::{Exhibits, PageTable};
use scalebricks_report::pages::{Evidence, Picture};
use scalebricks_report::provenance;
use serde::{Deserialize, Serialize};

/// The results of a run, and where they were measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Cores, memory, kernel, transparent huge pages, and the clock if it is not the wall clock.
    pub machine: String,
    /// The processor's brand string.
    pub cpu: String,
    /// Its family number.
    pub cpu_family: Option<u32>,
    /// Its model number.
    pub cpu_model: Option<u32>,
    /// Its microarchitecture, if known, as in `Zen 5`.
    pub cpu_name: String,
    /// Cores available to the process.
    pub cores: usize,
    /// How two of them scale; `None` on a single core.
    pub pair: Option<CorePair>,
    /// The commit that measured, with the suffix `-dirty` if files were changed; `unknown` outside a
    /// checkout.
    pub commit: String,
    /// The date in UTC.
    pub date: String,
    /// The command that repeats the measurement, without paths of this machine.
    pub command: String,
    /// Enabled features: `peers`, `dpdk`.
    pub features: Vec<String>,
    /// The clock that timed single threads: `wall` or `cpu`.
    pub clock: String,
    /// Runs per measurement.
    pub runs: usize,
    /// Whether it was a quick run with small tables.
    pub quick: bool,
    /// The results.
    pub rows: Vec<Row>,
    /// Charts, tables and conclusions.
    #[serde(flatten)]
    pub exhibits: Exhibits,
}

impl Report {
    /// A report of results measured by this process.
    pub fn here(rows: Vec<Row>, exhibits: Exhibits, options: &Options) -> Self {
        let is_timed_by_cpu = Clock::chosen() == Clock::Cpu;
        let processor = Processor::here();
        let features = [("peers", cfg!(feature = "peers")), ("dpdk", cfg!(feature = "dpdk"))];
        Self {
            machine: format!(
                "{}, {}, {}{}",
                machine::description(),
                native::compiled_for(),
                native::prefetching(),
                if is_timed_by_cpu { ", single threads by CPU time" } else { "" }
            ),
            cpu_name: processor.name(),
            cpu: processor.brand,
            cpu_family: processor.family,
            cpu_model: processor.model,
            cores: machine::cores(),
            pair: CorePair::known().cloned(),
            commit: provenance::commit(),
            date: machine::date(),
            command: provenance::command_line(std::env::args()),
            features: features
                .iter()
                .filter(|(_, there)| *there)
                .map(|(name, _)| (*name).to_owned())
                .collect(),
            clock: if is_timed_by_cpu { "cpu" } else { "wall" }.to_owned(),
            runs: options.runs(),
            quick: options.quick,
            rows,
            exhibits,
        }
    }

    /// The processor.
    pub fn processor(&self) -> Processor {
        Processor { brand: self.cpu.clone(), family: self.cpu_family, model: self.cpu_model }
    }

    /// What pages show of a report.
    ///
    /// # Errors
    /// A description of what is wrong with the text or a chart.
    pub fn evidence(json: &str) -> Result<Evidence, String> {
        let report: Self = serde_json::from_str(json).map_err(|error| error.to_string())?;
        report.rows.iter().find_map(measured_too_rarely).map_or(Ok(()), Err)?;
        let drawn = chart::render(&report, &report.exhibits.charts).map_err(|error| error.to_string())?;
        let titles = report.exhibits.charts.iter().map(|chart| chart.title.clone());
        let pictures =
            drawn.into_iter().zip(titles).map(|((file, svg), title)| Picture { file, title, svg }).collect();
        let mut exhibits = report.exhibits.clone();
        exhibits.sheets.push(report.sheet());
        Ok(Evidence {
            processor: report.processor(),
            commit: report.commit,
            runs: Some(report.runs),
            runs_are: "runs",
            is_quick: report.quick,
            exhibits,
            texts: Vec::new(),
            pictures,
        })
    }

    /// The table that says where and how the run measured.
    fn sheet(&self) -> PageTable {
        let mut sheet = PageTable::new("run", &["", ""]).side_by_side(1);
        let cores = self.cores.to_string();
        let runs = self.runs.to_string() + if self.quick { ", small tables" } else { "" };
        let command = format!("`{}`", self.command);
        let features = if self.features.is_empty() { "none".to_owned() } else { self.features.join(", ") };
        let told = [
            ("processor", self.cpu.as_str()),
            ("machine", &self.machine),
            ("cores", &cores),
            ("commit", &self.commit),
            ("date", &self.date),
            ("runs", &runs),
            ("command", &command),
            ("built in", &features),
        ];
        let pair = self.pair.as_ref().map(CorePair::to_string);
        let pair = pair.as_deref().map(|pair| ("pair of cores", pair));
        sheet
            .rows
            .extend(told.into_iter().chain(pair).map(|(what, text)| vec![what.to_owned(), text.to_owned()]));
        sheet
    }
}

/// Why a page may not show a row: it has too few runs.
fn measured_too_rarely(row: &Row) -> Option<String> {
    let Case { bench, structure, variant, keys, .. } = &row.case;
    (row.metric.is_timed() && row.runs < provenance::LEAST_RUNS).then(|| {
        format!(
            "{bench}: {} of {structure} ({}) with {keys} keys has {} runs, and a page shows {} and more",
            row.metric.name(),
            variant.as_deref().unwrap_or("no variant"),
            row.runs,
            provenance::LEAST_RUNS,
        )
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::row::Metric;
    use scalebricks_console::output::json;
    use scalebricks_report::exhibit::{Chart, Conclusion, Mark, Point, Scale, Series};
    use scalebricks_report::stats::Summary;
    use serde_json::Value;

    /// A report with one item of each kind, measured by `commit`.
    pub(crate) fn sample(commit: &str) -> Report {
        let case = Case { bench: "choice", structure: "setsep".to_owned(), keys: 7, ..Case::default() };
        let rows = vec![Row::new(case, Metric::LookupRate, Summary::of(&[1e6, 2e6, 3e6]))];
        let mut sheet = PageTable::new("choice", &["flows", "M/s"]);
        sheet.rows.push(vec!["7".to_owned(), "2.00".to_owned()]);
        let mut chart = Chart::new("lookups", "Lookups", ("flows", Scale::Decades), ("M/s", Scale::Linear));
        let points = vec![Point { x: 7.0, y: 2.0, spread: Some((1.0, 3.0)) }];
        chart.series.push(Series::new("setsep", Mark::Dotted, 0, points));
        let said = Conclusion { name: "choice-said".to_owned(), sentence: "It is fast.".to_owned() };
        let exhibits = Exhibits { charts: vec![chart], sheets: vec![sheet], conclusions: vec![said] };
        let report = Report::here(rows, exhibits, &Options::default());
        Report {
            cpu: "AMD EPYC".to_owned(),
            cpu_family: Some(26),
            cpu_model: Some(2),
            cpu_name: "Zen 5".to_owned(),
            pair: Some(CorePair { arithmetic: 1.97, random_loads: 1.8, siblings: None }),
            commit: commit.to_owned(),
            command: "scalebricks-bench choice".to_owned(),
            ..report
        }
    }

    #[test]
    fn a_report_is_the_same_after_it_was_read_back() {
        let report = sample("0123456789ab");
        let text = json(&report).unwrap();
        let again: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(json(&again).unwrap(), text);
        assert_eq!((again.rows, again.exhibits, again.pair), (report.rows, report.exhibits, report.pair));
    }

    #[test]
    fn a_rate_of_too_few_runs_is_shown_nowhere() {
        let mut report = sample("0123456789ab");
        assert!(Report::evidence(&json(&report).unwrap()).is_ok());
        let case = report.rows[0].case.clone();
        report.rows.push(Row::new(case.clone(), Metric::BitsPerKey, Summary::exact(3.5)));
        assert!(Report::evidence(&json(&report).unwrap()).is_ok(), "it does not vary");
        report.rows.push(Row::new(case, Metric::UpdateRate, Summary::of(&[1.0, 2.0])));
        let problem = Report::evidence(&json(&report).unwrap()).map(drop).unwrap_err();
        assert!(problem.contains("update_rate of setsep") && problem.contains("2 runs"), "{problem}");
    }

    #[test]
    fn all_that_tells_where_it_was_measured_is_there() {
        let value: Value = serde_json::from_str(&json(&sample("c")).unwrap()).unwrap();
        for name in ["machine", "cpu", "cpu_name", "commit", "date", "command", "clock"] {
            assert!(value[name].as_str().is_some_and(|text| !text.is_empty()), "{name}");
        }
        assert!(value["cores"].as_u64() >= Some(1) && value["runs"] == 5 && value["quick"] == false);
        for name in ["features", "rows", "sheets", "charts", "conclusions"] {
            assert!(value[name].is_array(), "{name}");
        }
    }
}

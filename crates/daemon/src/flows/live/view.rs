//! What a terminal shows of live packets: a table of the flows with most traffic, or a line now and then.

use super::ports::Seen;
use super::talkers::{Ranking, Report, Talker};
use crate::flows::record;
use crate::flows::summary::numbers;
use scalebricks_admin::commands::trimmed;
use scalebricks_console::output::Live as LiveText;
use scalebricks_console::{Console, quantity};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How it is shown.
pub(in super::super) enum Style {
    /// Replaced in place on a terminal.
    Table(LiveText),
    /// A line per interval.
    Lines,
}

/// Shows reports.
pub(in super::super) struct View<'a> {
    console: &'a Console,
    style: Style,
    ranking: Ranking,
    /// The ports' names.
    label: String,
    seen: Arc<Seen>,
    started: Instant,
    last: Shown,
}

/// Counters when they were shown.
#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    at: Duration,
    frames: u64,
    bytes: u64,
    began: u64,
    ended: u64,
}

impl<'a> View<'a> {
    pub(in super::super) fn new(
        console: &'a Console,
        style: Style,
        ranking: Ranking,
        (label, seen): (String, Arc<Seen>),
    ) -> Self {
        Self { console, style, ranking, label, seen, started: Instant::now(), last: Shown::default() }
    }

    /// Which flows reports need: none for lines.
    pub(in super::super) const fn ranking(&self) -> Ranking {
        match self.style {
            Style::Table(_) => self.ranking,
            Style::Lines => Ranking { most: 0, ..self.ranking },
        }
    }

    /// Shows the reports of all trackers for an interval.
    pub(in super::super) fn show(&mut self, reports: impl IntoIterator<Item = Report>) {
        let ranking = self.ranking();
        let mut report = Report::default();
        reports.into_iter().for_each(|other| report.add(other, ranking));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let text = self.render(&report, self.started.elapsed(), now);
        match &self.style {
            Style::Table(live) => live.show(&text),
            Style::Lines => self.console.note(&text),
        }
    }

    /// The text after `elapsed` since the start.
    fn render(&mut self, report: &Report, elapsed: Duration, now: Duration) -> String {
        let seen = self.seen.counters();
        let shown = Shown {
            at: elapsed,
            frames: seen.frames,
            bytes: seen.bytes,
            began: report.began,
            ended: report.ended,
        };
        let last = std::mem::replace(&mut self.last, shown);
        let interval = elapsed.saturating_sub(last.at);
        let line = format!(
            "{}, {}: {} packets/s, {}; {} flows, {} began, {} ended; dropped by ports {}, in no flow {}",
            self.label,
            age(elapsed),
            quantity::short_count(per_second(shown.frames.saturating_sub(last.frames), interval)),
            bits(per_second(8 * shown.bytes.saturating_sub(last.bytes), interval)),
            quantity::count(report.flows as u64),
            quantity::count(shown.began.saturating_sub(last.began)),
            quantity::count(shown.ended.saturating_sub(last.ended)),
            quantity::count(seen.dropped),
            quantity::count(seen.no_packet + report.untracked),
        );
        match self.style {
            Style::Table(_) => format!("{line}\n{}", table(report, interval, now)),
            Style::Lines => line,
        }
    }
}

/// The flows with most traffic.
fn table(report: &Report, interval: Duration, now: Duration) -> String {
    let columns = ["protocol", "from", "to", "state", "packets/s", "bits/s", "bytes", "age"];
    let mut table = numbers(columns, 4..8);
    for Talker { tuple, flow, traffic } in &report.talkers {
        table.add_row([
            record::name(tuple.protocol),
            record::end(tuple.src, tuple.src_port),
            record::end(tuple.dst, tuple.dst_port),
            flow.state().name().to_owned(),
            quantity::short_count(per_second(traffic.packets, interval)),
            quantity::short_count(per_second(8 * traffic.bytes, interval)),
            quantity::bytes(flow.bytes.iter().sum()),
            age(now.saturating_sub(Duration::from_nanos(flow.first_ns))),
        ]);
    }
    let mut text = trimmed(&table);
    if report.others.packets > 0 {
        text += &format!(
            "\nflows that were not counted one by one: {} packets, {}",
            quantity::count(report.others.packets),
            quantity::bytes(report.others.bytes)
        );
    }
    text
}

/// A rate, rounded.
fn per_second(count: u64, interval: Duration) -> u64 {
    (count as f64 / interval.as_secs_f64().max(1e-3)).round() as u64 // saturates
}

/// A rate of bits with its unit.
fn bits(rate: u64) -> String {
    let number = quantity::short_count(rate);
    let space = if number.contains(' ') { "" } else { " " };
    format!("{number}{space}bit/s")
}

/// A time as people say it.
fn age(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

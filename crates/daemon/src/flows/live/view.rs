//! What a terminal shows of live packets: a table of the flows with most traffic, or a line now and then.

use super::ports::Seen;
use super::talkers::{Ranking, Report, Talker};
use crate::flows::record;
use crate::flows::summary::numbers;
use comfy_table::presets;
use scalebricks_admin::commands::trimmed;
use scalebricks_console::output::Live as LiveText;
use scalebricks_console::{Console, quantity};
use std::fmt::Write;
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
        let width = match &self.style {
            Style::Table(live) => live.columns(),
            Style::Lines => u16::MAX,
        };
        let text = self.render(&report, self.started.elapsed(), now, width);
        match &self.style {
            Style::Table(live) => live.show(&text),
            Style::Lines => self.console.note(&text),
        }
    }

    /// The text after `elapsed` since the start, in so many columns.
    fn render(&mut self, report: &Report, elapsed: Duration, now: Duration, width: u16) -> String {
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
            Style::Table(_) => format!("{line}\n{}", table(report, interval, now, width)),
            Style::Lines => line,
        }
    }
}

/// The flows with most traffic. Cells wrap if the columns are too few.
fn table(report: &Report, interval: Duration, now: Duration, width: u16) -> String {
    let columns = ["protocol", "from", "to", "state", "packets/s", "bits/s", "bytes", "age"];
    let mut table = numbers(columns, 4..8);
    table.load_preset(presets::NOTHING).set_width(width);
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 1));
    });
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
        let _ = write!(
            text,
            "\nflows that were not counted one by one: {} packets, {}",
            quantity::count(report.others.packets),
            quantity::bytes(report.others.bytes)
        );
    }
    text
}

/// A rate, rounded.
fn per_second(count: u64, interval: Duration) -> u64 {
    let interval_ns = interval.as_nanos().max(1_000_000);
    let rate = (u128::from(count) * 1_000_000_000 + interval_ns / 2) / interval_ns;
    u64::try_from(rate).unwrap_or(u64::MAX)
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

#[cfg(test)]
mod tests {
    use super::super::talkers::{Order, Traffic};
    use super::*;
    use scalebricks_flows::tracker::Flow;
    use scalebricks_types::FiveTuple;

    fn talker(port: u16, packets: u64, bytes: u64) -> Talker {
        let tuple = FiveTuple {
            src: "192.0.2.1".parse().unwrap(),
            dst: "2001:db8::2".parse().unwrap(),
            protocol: 17,
            src_port: port,
            dst_port: 53,
        };
        let mut flow = Flow::default();
        (flow.first_ns, flow.bytes) = (1_000_000_000, [3 << 20, 1 << 20]);
        Talker { tuple, flow, traffic: Traffic { packets, bytes } }
    }

    #[test]
    fn a_row_has_rates_of_the_interval_and_totals_of_the_flow() {
        let report = Report {
            talkers: vec![talker(1, 3_000, 1_500_000), talker(2, 1, 30)],
            others: Traffic { packets: 9, bytes: 2_048 },
            ..Report::default()
        };
        let text = table(&report, Duration::from_secs(2), Duration::from_secs(91), 200);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let row = [
            "udp",
            "192.0.2.1:1",
            "[2001:db8::2]:53",
            "one_way",
            "1.50",
            "k",
            "6",
            "M",
            "4",
            "MiB",
            "90",
            "s",
        ];
        assert_eq!(rows[1], row, "{text}");
        assert_eq!(rows[2][4..6], ["1", "120"], "{text}");
        assert_eq!(text.lines().last(), Some("flows that were not counted one by one: 9 packets, 2 KiB"));
        let narrow = table(&report, Duration::from_secs(2), Duration::from_secs(91), 60);
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 60 || line.starts_with("flows")),
            "{narrow}"
        );
    }

    #[test]
    fn a_line_has_what_happened_since_the_last() {
        let console = Console::new(true);
        let seen = Arc::new(Seen::default());
        let ranking = Ranking { most: 10, order: Order::Bytes };
        let mut view = View::new(&console, Style::Lines, ranking, ("eth0".to_owned(), Arc::clone(&seen)));
        assert_eq!(view.ranking().most, 0, "lines have no flows");
        seen.set_for_test([1_000, 125_000, 3, 5]);
        let report = Report { flows: 7, began: 9, ended: 2, untracked: 1, ..Report::default() };
        let mut line = |seconds, report: &Report| {
            view.render(report, Duration::from_secs(seconds), Duration::ZERO, u16::MAX)
        };
        assert_eq!(
            line(10, &report),
            "eth0, 10 s: 100 packets/s, 100 kbit/s; 7 flows, 9 began, 2 ended; dropped by ports 5, in no flow 4"
        );
        assert_eq!(
            line(130, &report),
            "eth0, 2 min: 0 packets/s, 0 bit/s; 7 flows, 0 began, 0 ended; dropped by ports 5, in no flow 4"
        );
    }
}

//! Rates as bar charts: one picture per benchmark and metric, one panel per table size, one bar per row.

use crate::figures::chart::labels;
use crate::report::Report;
use crate::row::{Metric, Row};
use crate::table::figure;
use plotters::style::text_anchor::HPos;
use scalebricks_console::quantity::short_count;
use scalebricks_report::picture::{self, Area, Bar, DrawError, FAINT, INK, WIDTH, bold, style};

const HEAD: i32 = 56;
const EDGE: i32 = 28;
const FOOT_SIZE: u32 = 11;
const FOOT_LINE: i32 = 16;
/// Characters of a commit, with the remark that sources had changed.
const SHOWN_COMMIT: usize = 20;
const PANEL_HEAD: i32 = 34;
const PITCH: i32 = 24;

/// Structures drawn in the colour of this project.
const OURS: [&str; 2] = ["setsep", "scalebricks"];

/// A file name and an SVG document for each benchmark of `benches` and each metric.
///
/// # Errors
/// [`DrawError`] if the drawing library refuses.
pub fn render(report: &Report, benches: &[&str]) -> Result<Vec<(String, String)>, DrawError> {
    let mut kinds: Vec<(&str, Metric)> = Vec::new();
    for row in &report.rows {
        let kind = (row.case.bench, row.metric);
        if benches.contains(&row.case.bench)
            && (row.metric.is_rate() || row.metric == Metric::BitsPerKey)
            && !kinds.contains(&kind)
        {
            kinds.push(kind);
        }
    }
    let draw = |(bench, metric): (&str, Metric)| {
        let rows = report.rows.iter().filter(|row| row.case.bench == bench && row.metric == metric);
        let name = format!("{bench}-{}.svg", metric.name().replace('_', "-"));
        Ok((name, picture(report, bench, metric, &rows.collect::<Vec<_>>())?))
    };
    kinds.into_iter().map(draw).collect()
}

fn picture(report: &Report, bench: &str, metric: Metric, rows: &[&Row]) -> Result<String, DrawError> {
    let panels: Vec<&[&Row]> = rows.chunk_by(|a, b| panel_of(a) == panel_of(b)).collect();
    let height = HEAD + foot_height(report) + PITCH * length(rows.len()) + PANEL_HEAD * length(panels.len());
    picture::document(height, |area| {
        let title = format!("{bench}: {}", metric.name().replace('_', " "));
        area.draw_text(&title, &bold(style(22, INK, HPos::Left)), (28, 32))?;
        let mut top = HEAD;
        for panel in panels {
            draw_panel(area, panel, top)?;
            top += PANEL_HEAD + PITCH * length(panel.len());
        }
        draw_foot(area, report, height)
    })
}

/// Draws where it was measured at the lower edge, in as many lines as that takes.
pub(crate) fn draw_foot(area: &Area<'_>, report: &Report, height: i32) -> Result<(), DrawError> {
    let lines = foot(report);
    for (number, line) in (1..).zip(lines.iter().rev()) {
        area.draw_text(line, &style(FOOT_SIZE, FAINT, HPos::Left), (EDGE, height - FOOT_LINE * number))?;
    }
    Ok(())
}

/// Height of what [`draw_foot`] draws, with its distance from what is above.
pub(crate) fn foot_height(report: &Report) -> i32 {
    FOOT_LINE * (length(foot(report).len()) + 1)
}

fn foot(report: &Report) -> Vec<String> {
    let commit = report.commit.chars().take(SHOWN_COMMIT).collect::<String>();
    let foot = format!("{} · {} · commit {commit}", report.cpu, report.machine);
    labels::wrap(&foot, FOOT_SIZE, WIDTH - 2 * EDGE)
}

/// A number of rows or panels, at most some hundreds.
fn length(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX / 1_024)
}

/// Rows with equal results share a panel and a scale.
const fn panel_of(row: &Row) -> (u64, Option<u8>) {
    (row.case.keys, row.case.value_bits)
}

fn draw_panel(area: &Area<'_>, rows: &[&Row], top: i32) -> Result<(), DrawError> {
    let Some(first) = rows.first() else { return Ok(()) };
    let bits = first.case.value_bits.map_or(String::new(), |bits| format!(", {bits}-bit values"));
    let title = format!("{} keys{bits}", short_count(first.case.keys));
    area.draw_text(&title, &bold(style(15, INK, HPos::Left)), (28, top + PANEL_HEAD / 2))?;
    let (left, right) = (370, 810);
    let most = rows.iter().map(|row| row.median).fold(0.0, f64::max);
    for (number, row) in rows.iter().enumerate() {
        let middle = top + PANEL_HEAD + PITCH * length(number) + PITCH / 2;
        let is_ours = OURS.contains(&row.case.structure.as_str());
        Bar { left, right, middle, half: 7, is_ours }.draw(area, row.median, most)?;
        area.draw_text(&label(row), &style(13, INK, HPos::Right), (left - 10, middle))?;
        area.draw_text(&figure(row, row.median), &style(13, INK, HPos::Left), (right + 10, middle))?;
    }
    Ok(())
}

/// The label that distinguishes a row from its neighbours.
fn label(row: &Row) -> String {
    let case = &row.case;
    let parts = [
        Some(case.structure.clone()),
        case.format.map(str::to_owned),
        case.variant.clone(),
        case.batch.map(|batch| format!("×{batch}")),
        case.nodes.map(|nodes| format!("{nodes} nodes")),
        case.callers.map(|callers| format!("{callers} callers")),
        case.threads.filter(|&threads| threads > 1).map(|threads| format!("{threads} threads")),
        case.load.map(|load| format!("load {load:.2}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Case;
    use scalebricks_report::stats::Summary;

    #[test]
    fn a_picture_for_each_kind_of_figure() {
        let case = Case { bench: "fib", structure: "a<b".to_owned(), keys: 2_000_000, ..Case::default() };
        let row = |metric| Row::new(case.clone(), metric, Summary::exact(3e6));
        let rows = vec![row(Metric::LookupRate), row(Metric::InsertRate), row(Metric::MaxGroupLoad)];
        let report = Report { rows, ..crate::report::tests::sample("c") };
        let pictures = render(&report, &["fib"]).unwrap();
        let names: Vec<&str> = pictures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["fib-lookup-rate.svg", "fib-insert-rate.svg"]);
        let document = &pictures[0].1;
        assert!(document.starts_with("<svg") && document.trim_end().ends_with("</svg>"));
        assert!(document.contains("a&lt;b") && document.contains("2 M keys") && document.contains("3 M/s"));
    }

    #[test]
    fn nothing_to_draw_is_no_error() {
        assert!(render(&crate::report::tests::sample("c"), &[]).unwrap().is_empty());
    }
}

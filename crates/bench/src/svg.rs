//! Rates as pictures: one a benchmark and metric, a panel a table size, a bar a row.

use crate::row::{Metric, Report, Row};
use crate::table::figure;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use scalebricks_console::quantity::short_count;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const WIDTH: i32 = 1_000;
const HEAD: i32 = 56;
const FOOT: i32 = 34;
const PANEL_HEAD: i32 = 34;
const PITCH: i32 = 24;

/// A card of its own colour, so that the picture reads the same on a white page and on a dark one.
pub(crate) const CARD: RGBColor = RGBColor(0xfa, 0xfa, 0xf8);
pub(crate) const TRACK: RGBColor = RGBColor(0xec, 0xec, 0xe8);
pub(crate) const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
pub(crate) const FAINT: RGBColor = RGBColor(0x6b, 0x72, 0x79);
const BAR: RGBColor = RGBColor(0x9a, 0xa7, 0xb4);
const BAR_OURS: RGBColor = RGBColor(0x0b, 0x6e, 0x99);

/// Structures that are drawn in the colour of the house.
const OURS: [&str; 2] = ["setsep", "scalebricks"];

/// The picture could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("drawing the picture: {0}")]
pub struct DrawError(String);

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for DrawError {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self(error.to_string())
    }
}

/// A file name and an SVG document for each of `benches` and kind of figure.
///
/// # Errors
/// [`DrawError`] if the drawing library refuses.
pub fn render(report: &Report, benches: &[&str]) -> Result<Vec<(String, String)>, DrawError> {
    let mut kinds: Vec<(&str, Metric)> = Vec::new();
    for row in &report.rows {
        let kind = (row.subject.bench, row.metric);
        if benches.contains(&row.subject.bench)
            && (row.metric.is_rate() || row.metric == Metric::BitsPerKey)
            && !kinds.contains(&kind)
        {
            kinds.push(kind);
        }
    }
    let draw = |(bench, metric): (&str, Metric)| {
        let rows = report.rows.iter().filter(|row| row.subject.bench == bench && row.metric == metric);
        let name = format!("{bench}-{}.svg", metric.name().replace('_', "-"));
        Ok((name, picture(report, bench, metric, &rows.collect::<Vec<_>>())?))
    };
    kinds.into_iter().map(draw).collect()
}

fn picture(report: &Report, bench: &str, metric: Metric, rows: &[&Row]) -> Result<String, DrawError> {
    let panels: Vec<&[&Row]> = rows.chunk_by(|a, b| panel_of(a) == panel_of(b)).collect();
    let height = HEAD + FOOT + PITCH * length(rows.len()) + PANEL_HEAD * length(panels.len());
    let mut document = String::new();
    {
        let size = (WIDTH.cast_unsigned(), height.cast_unsigned());
        let area = SVGBackend::with_string(&mut document, size).into_drawing_area();
        area.fill(&CARD)?;
        let title = format!("{bench}: {}", metric.name().replace('_', " "));
        area.draw_text(&title, &bold(style(22, INK, HPos::Left)), (28, 32))?;
        let mut top = HEAD;
        for panel in panels {
            draw_panel(&area, panel, top)?;
            top += PANEL_HEAD + PITCH * length(panel.len());
        }
        let foot = format!("{} · {} · commit {}", report.cpu, report.machine, report.commit);
        area.draw_text(&foot, &style(12, FAINT, HPos::Left), (28, height - 16))?;
        area.present()?;
    }
    Ok(document)
}

/// A number of rows or panels, of which there are hundreds at most.
fn length(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX / 1_024)
}

/// Rows with this in common share a panel and a scale.
const fn panel_of(row: &Row) -> (u64, Option<u8>) {
    (row.subject.keys, row.subject.value_bits)
}

fn draw_panel(area: &Area<'_>, rows: &[&Row], top: i32) -> Result<(), DrawError> {
    let Some(first) = rows.first() else { return Ok(()) };
    let bits = first.subject.value_bits.map_or(String::new(), |bits| format!(", {bits}-bit values"));
    let title = format!("{} keys{bits}", short_count(first.subject.keys));
    area.draw_text(&title, &bold(style(15, INK, HPos::Left)), (28, top + PANEL_HEAD / 2))?;
    let (left, right) = (370, 810);
    let most = rows.iter().map(|row| row.median).fold(0.0, f64::max);
    for (number, row) in rows.iter().enumerate() {
        let middle = top + PANEL_HEAD + PITCH * length(number) + PITCH / 2;
        let ours = OURS.contains(&row.subject.structure.as_str());
        let share = if most > 0.0 { row.median / most } else { 0.0 };
        // At least a hair, so that a tiny figure is not mistaken for a missing one.
        let end = left + ((f64::from(right - left) * share) as i32).max(1);
        let bar = |to: i32, colour: RGBColor| {
            Rectangle::new([(left, middle - 7), (to, middle + 7)], colour.filled())
        };
        area.draw(&bar(right, TRACK))?;
        area.draw(&bar(end, if ours { BAR_OURS } else { BAR }))?;
        area.draw_text(&label(row), &style(13, INK, HPos::Right), (left - 10, middle))?;
        area.draw_text(&figure(row, row.median), &style(13, INK, HPos::Left), (right + 10, middle))?;
    }
    Ok(())
}

/// What tells a row from its neighbours.
fn label(row: &Row) -> String {
    let subject = &row.subject;
    let parts = [
        Some(subject.structure.clone()),
        subject.format.map(str::to_owned),
        subject.variant.clone(),
        subject.batch.map(|batch| format!("×{batch}")),
        subject.threads.filter(|&threads| threads > 1).map(|threads| format!("{threads} threads")),
        subject.load.map(|load| format!("load {load:.2}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

pub(crate) fn style(size: u32, colour: RGBColor, horizontal: HPos) -> TextStyle<'static> {
    let plain = TextStyle::from(("sans-serif", size).into_font());
    TextStyle { color: colour.to_backend_color(), ..plain }.pos(Pos::new(horizontal, VPos::Center))
}

/// A text style made bold.
pub(crate) fn bold(mut text: TextStyle<'static>) -> TextStyle<'static> {
    text.font = text.font.style(FontStyle::Bold);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Subject;
    use crate::stats::Summary;

    #[test]
    fn a_picture_for_each_kind_of_figure() {
        let subject =
            Subject { bench: "fib", structure: "a<b".to_owned(), keys: 2_000_000, ..Subject::default() };
        let row = |metric| Row::new(subject.clone(), metric, Summary::exact(3e6));
        let rows = vec![row(Metric::LookupRate), row(Metric::InsertRate), row(Metric::MaxGroupLoad)];
        let pictures = render(&Report::here(rows), &["fib"]).unwrap();
        let names: Vec<&str> = pictures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["fib-lookup-rate.svg", "fib-insert-rate.svg"]);
        let document = &pictures[0].1;
        assert!(document.starts_with("<svg") && document.trim_end().ends_with("</svg>"));
        assert!(document.contains("a&lt;b") && document.contains("2 M keys") && document.contains("3 M/s"));
    }

    #[test]
    fn nothing_to_draw_is_no_error() {
        assert!(render(&Report::here(Vec::new()), &[]).unwrap().is_empty());
    }
}

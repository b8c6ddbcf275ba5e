//! The report as a picture: small multiples, a panel a figure, a bar an architecture.

use super::result::{ArchitectureResult, Report};
use super::table::{ratio, table_bytes};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use scalebricks_console::quantity::{bytes, count, short_count};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const WIDTH: i32 = 1_000;
const HEIGHT: i32 = 600;
const HEAD: i32 = 62;
const FOOT: i32 = 34;

/// A card of its own colour, so that the picture reads the same on a white page and on a dark one.
const CARD: RGBColor = RGBColor(0xfa, 0xfa, 0xf8);
const TRACK: RGBColor = RGBColor(0xec, 0xec, 0xe8);
const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
const FAINT: RGBColor = RGBColor(0x6b, 0x72, 0x79);
const BAR: RGBColor = RGBColor(0x9a, 0xa7, 0xb4);
const BAR_OURS: RGBColor = RGBColor(0x0b, 0x6e, 0x99);

/// The picture could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("drawing the picture: {0}")]
pub struct DrawError(String);

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for DrawError {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self(error.to_string())
    }
}

/// One panel: what it shows, which way is better, and how a result fills it.
struct Panel<'a> {
    title: &'a str,
    hint: &'a str,
    figure: fn(&ArchitectureResult) -> f64,
    text: fn(&ArchitectureResult) -> String,
    with_ratio: bool,
}

/// The report as an SVG document.
///
/// # Errors
/// [`DrawError`] if the drawing library refuses.
pub fn render(report: &Report) -> Result<String, DrawError> {
    let mut document = String::new();
    {
        let area = SVGBackend::with_string(&mut document, (WIDTH.cast_unsigned(), HEIGHT.cast_unsigned()))
            .into_drawing_area();
        draw(&area, report)?;
        area.present()?;
    }
    Ok(document)
}

fn draw(area: &Area<'_>, report: &Report) -> Result<(), DrawError> {
    area.fill(&CARD)?;
    let title =
        format!("{} flows on {} nodes: four ways to find their state", count(report.flows), report.nodes);
    area.draw_text(&title, &style(22, INK, HPos::Left).font_style(FontStyle::Bold), (28, 34))?;
    let packets = report.architectures.iter().map(|r| r.packets_in).max().unwrap_or(0);
    let wrong: u64 = report.architectures.iter().map(|r| r.lost + r.misdelivered).sum();
    let checked =
        format!("{} packets each, all checked: {} lost or misdelivered", count(packets), count(wrong));
    area.draw_text(&checked, &style(14, FAINT, HPos::Right), (WIDTH - 28, 36))?;
    let capacity_title = format!("Flows that fit in {} a node", bytes(report.capacity_budget_bytes));
    let panels = [
        Panel {
            title: "Forwarding rate, all nodes together",
            hint: "Mpps, more is better",
            figure: |r| r.mpps,
            text: |r| format!("{:.2}", r.mpps),
            with_ratio: true,
        },
        Panel {
            title: "Crossings of the switch per packet",
            hint: "mean, fewer is better",
            figure: |r| r.hops_mean,
            text: |r| format!("{:.2}, at most {}", r.hops_mean, r.hops_max),
            with_ratio: false,
        },
        Panel {
            title: "Tables of one node",
            hint: "GPT and FIB, smaller is better",
            figure: |r| table_bytes(r) as f64,
            text: |r| bytes(table_bytes(r)),
            with_ratio: true,
        },
        Panel {
            title: &capacity_title,
            hint: "tables filled, more is better",
            figure: |r| r.capacity_flows as f64,
            text: |r| short_count(r.capacity_flows),
            with_ratio: true,
        },
    ];
    let body = area.margin(HEAD, FOOT, 14, 14);
    for (panel, part) in panels.iter().zip(body.split_evenly((2, 2))) {
        draw_panel(&part, report, panel)?;
    }
    let foot = format!(
        "scalebricks {} · {} · {} threads on {} · seed {}",
        report.version, report.input, report.threads, report.machine.cpu, report.seed
    );
    area.draw_text(&foot, &style(12, FAINT, HPos::Left), (28, HEIGHT - 18))?;
    Ok(())
}

fn draw_panel(area: &Area<'_>, report: &Report, panel: &Panel<'_>) -> Result<(), DrawError> {
    let (width, height) = area.dim_in_pixel();
    let (width, height) = (width.cast_signed(), height.cast_signed());
    area.draw_text(panel.title, &style(16, INK, HPos::Left).font_style(FontStyle::Bold), (14, 18))?;
    area.draw_text(panel.hint, &style(13, FAINT, HPos::Right), (width - 14, 18))?;
    let (left, right, top) = (138, width - 148, 42);
    let most = report.architectures.iter().map(panel.figure).fold(0.0, f64::max);
    let pitch = 50.min((height - top - 10) / 4); // there are four architectures
    for (row, result) in (0..).zip(&report.architectures) {
        let middle = top + pitch * row + pitch / 2;
        let ours = result.name == "scalebricks";
        let half = (pitch * 3 / 10).max(4);
        let share = if most > 0.0 { (panel.figure)(result) / most } else { 0.0 };
        // At least a hair, so that a tiny figure is not mistaken for a missing one.
        let end = left + ((f64::from(right - left) * share) as i32).max(1);
        let bar = |to: i32, colour: RGBColor| {
            Rectangle::new([(left, middle - half), (to, middle + half)], colour.filled())
        };
        area.draw(&bar(right, TRACK))?;
        area.draw(&bar(end, if ours { BAR_OURS } else { BAR }))?;
        let name = emphasised(style(14, INK, HPos::Right), ours);
        area.draw_text(result.name, &name, (left - 10, middle))?;
        let ratio = ratio(report, result, panel.figure).filter(|_| panel.with_ratio);
        let text = match ratio {
            Some(ratio) => format!("{}  ({ratio:.2}×)", (panel.text)(result)),
            None => (panel.text)(result),
        };
        area.draw_text(&text, &emphasised(style(14, INK, HPos::Left), ours), (right + 10, middle))?;
    }
    Ok(())
}

fn style(size: u32, colour: RGBColor, horizontal: HPos) -> TextStyle<'static> {
    let plain = TextStyle::from(("sans-serif", size).into_font());
    TextStyle { color: colour.to_backend_color(), ..plain }.pos(Pos::new(horizontal, VPos::Center))
}

fn emphasised(style: TextStyle<'static>, strongly: bool) -> TextStyle<'static> {
    if strongly { style.font_style(FontStyle::Bold) } else { style }
}

/// A font's style, by text style.
trait WithFontStyle {
    fn font_style(self, style: FontStyle) -> Self;
}

impl WithFontStyle for TextStyle<'static> {
    fn font_style(mut self, style: FontStyle) -> Self {
        self.font = self.font.style(style);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn the_picture_is_closed_and_escaped_and_shows_every_architecture() {
        let document = render(&sample::report()).unwrap();
        assert!(document.starts_with("<svg") && document.trim_end().ends_with("</svg>"));
        assert!(document.contains("A &amp; B") && !document.contains("A & B"));
        for result in sample::report().architectures {
            // On a line of its own: the foot names the program, which is called as one of them.
            let label = format!("\n{}\n", result.name);
            assert_eq!(document.matches(&label).count(), 4, "{}", result.name);
        }
    }

    #[test]
    fn nothing_to_draw_is_no_error() {
        let mut report = sample::report();
        report.architectures.clear();
        render(&report).unwrap();
    }
}

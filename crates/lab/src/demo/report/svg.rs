//! The report as a picture: a panel per figure, a bar per architecture.

use super::result::{ArchitectureResult, Report};
use super::table::{mpps, ratio, table_bytes};
use plotters::style::TextStyle;
use plotters::style::text_anchor::HPos;
use scalebricks_console::quantity::{bytes, count, short_count};
use scalebricks_report::picture::{self, Area, Bar, DrawError, FAINT, INK, WIDTH, bold, style};

const HEIGHT: i32 = 600;
const HEAD: i32 = 62;
const FOOT: i32 = 34;

/// A panel: its title, the direction that is better, and the figure of a result.
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
    picture::document(HEIGHT, |area| draw(area, report))
}

fn draw(area: &Area<'_>, report: &Report) -> Result<(), DrawError> {
    let title =
        format!("{} flows on {} nodes: four ways to find their state", count(report.flows), report.nodes);
    area.draw_text(&title, &bold(style(22, INK, HPos::Left)), (28, 34))?;
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
            figure: |r| r.speed.mpps,
            text: |r| mpps(&r.speed),
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
    area.draw_text(panel.title, &bold(style(16, INK, HPos::Left)), (14, 18))?;
    area.draw_text(panel.hint, &style(13, FAINT, HPos::Right), (width - 14, 18))?;
    let (left, right, top) = (138, width - 148, 42);
    let most = report.architectures.iter().map(panel.figure).fold(0.0, f64::max);
    let pitch = 50.min((height - top - 10) / 4); // there are four architectures
    for (row, result) in (0..).zip(&report.architectures) {
        let middle = top + pitch * row + pitch / 2;
        let is_ours = result.name == "scalebricks";
        let half = (pitch * 3 / 10).max(4);
        Bar { left, right, middle, half, is_ours }.draw(area, (panel.figure)(result), most)?;
        let name = emphasised(style(14, INK, HPos::Right), is_ours);
        area.draw_text(result.name, &name, (left - 10, middle))?;
        let ratio = ratio(report, result, panel.figure).filter(|_| panel.with_ratio);
        let text = match ratio {
            Some(ratio) => format!("{}  ({ratio:.2}×)", (panel.text)(result)),
            None => (panel.text)(result),
        };
        area.draw_text(&text, &emphasised(style(14, INK, HPos::Left), is_ours), (right + 10, middle))?;
    }
    Ok(())
}

fn emphasised(style: TextStyle<'static>, strongly: bool) -> TextStyle<'static> {
    if strongly { bold(style) } else { style }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::report::sample;

    #[test]
    fn the_picture_is_complete_and_escaped_and_shows_every_architecture() {
        let document = render(&sample::report()).unwrap();
        assert!(document.starts_with("<svg") && document.trim_end().ends_with("</svg>"));
        assert!(document.contains("A &amp; B") && !document.contains("A & B"));
        for result in sample::report().architectures {
            // Labels are separate lines. The foot contains the program's name, which is also an architecture.
            let label = format!("\n{}\n", result.name);
            assert_eq!(document.matches(&label).count(), 4, "{}", result.name);
        }
    }

    #[test]
    fn a_report_without_results_can_be_drawn() {
        let mut report = sample::report();
        report.architectures.clear();
        render(&report).unwrap();
    }
}

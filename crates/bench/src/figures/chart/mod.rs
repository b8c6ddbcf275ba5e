//! Draws charts: lines with their names at their ends, and small multiples where one picture would hold too many.
//!
//! | module | content |
//! |---|---|
//! | `axes` | ranges, ticks and their labels |
//! | `colours` | one colour per structure |
//! | `labels` | names beside the ends of lines |
//! | `panel` | one pair of axes with its series |

mod axes;
mod colours;
pub(crate) mod labels;
mod panel;

use crate::report::Report;
use crate::svg::{draw_foot, foot_height};
use panel::{Panel, Place};
use plotters::style::text_anchor::HPos;
use scalebricks_report::exhibit::{Chart, Series};
use scalebricks_report::picture::{self, DrawError, INK, WIDTH, bold, style};

/// More series are drawn as small multiples.
const MOST_SERIES: usize = 7;
/// Edge of the picture, and height of the title.
const EDGE: i32 = 28;
const HEAD: i32 = 52;
/// Height of a single panel and of one of several.
const HEIGHT: i32 = 470;
const SMALL_HEIGHT: i32 = 270;
/// Distance of panels.
const GAP: i32 = 16;

/// A file name and an SVG document for each chart.
///
/// # Errors
/// [`DrawError`] if the drawing library refuses.
pub fn render(report: &Report, charts: &[Chart]) -> Result<Vec<(String, String)>, DrawError> {
    charts.iter().map(|chart| Ok((format!("{}.svg", chart.name), picture(report, chart)?))).collect()
}

fn picture(report: &Report, chart: &Chart) -> Result<String, DrawError> {
    let groups = groups(&chart.series);
    let panels: Vec<Panel<'_>> =
        groups.iter().map(|(title, members)| Panel::new(chart, title, members)).collect();
    let is_single = panels.len() == 1;
    let columns = if is_single { 1 } else { 2 };
    let width = (WIDTH - 2 * EDGE - GAP * (columns - 1)) / columns;
    let least = if is_single { HEIGHT } else { SMALL_HEIGHT };
    let height = panels.iter().map(|panel| panel.height(width)).fold(least, i32::max);
    let rows = (length(panels.len()) + columns - 1) / columns;
    let bottom = HEAD + rows * (height + GAP);
    let total = bottom + foot_height(report);
    picture::document(total, |area| {
        area.draw_text(&chart.title, &bold(style(22, INK, HPos::Left)), (EDGE, 30))?;
        for (number, panel) in (0..).zip(&panels) {
            let (row, column) = (number / columns, number % columns);
            let (left, top) = (EDGE + column * (width + GAP), HEAD + row * (height + GAP));
            panel.draw(area, Place { left, right: left + width, top, bottom: top + height })?;
        }
        draw_foot(area, report, total)
    })
}

/// Series by panel, with the panel's title: all in one if they are few. Otherwise those whose names begin with the same
/// part, up to a comma, are together.
fn groups(series: &[Series]) -> Vec<(String, Vec<&Series>)> {
    let all = || series.iter().collect();
    if series.len() <= MOST_SERIES {
        return vec![(String::new(), all())];
    }
    let mut groups: Vec<(String, Vec<&Series>)> = Vec::new();
    for one in series {
        let first = one.name.split(", ").next().unwrap_or_default();
        match groups.iter_mut().find(|(title, _)| title == first) {
            Some((_, members)) => members.push(one),
            None => groups.push((first.to_owned(), vec![one])),
        }
    }
    // Names without common parts.
    if groups.len() == series.len() { vec![(String::new(), all())] } else { groups }
}

/// A number of series or panels, at most some dozens.
fn length(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_report::exhibit::{Mark, Point, Scale};

    fn chart(names: &[&str], mark: Mark) -> Chart {
        let mut chart = Chart::new("c", "A < B", ("x", Scale::Linear), ("y", Scale::Decades));
        for (number, name) in names.iter().enumerate() {
            let points = vec![Point::exact(1, 10.0), Point::exact(2, 200.0 + number as f64)];
            chart.series.push(Series::new(*name, mark, number, points));
        }
        chart
    }

    fn drawn(chart: &Chart) -> String {
        render(&crate::report::tests::sample("c"), std::slice::from_ref(chart)).unwrap().remove(0).1
    }

    /// What an attribute of the document's elements says, as numbers.
    fn numbers(document: &str, attribute: &str) -> Vec<f64> {
        let pattern = format!(" {attribute}=\"");
        document.split(&pattern).skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect()
    }

    #[test]
    fn a_chart_is_a_picture() {
        let document = drawn(&chart(&["one", "two"], Mark::Dotted));
        assert!(document.starts_with("<svg") && document.trim_end().ends_with("</svg>"));
        assert!(document.contains("A &lt; B") && document.contains("100"));
        assert_eq!(document.matches("two").count(), 1, "named at its end, and nowhere else");
    }

    #[test]
    fn series_of_one_colour_can_be_told_apart() {
        let document = drawn(&chart(&["othello, a", "othello, b"], Mark::Dotted));
        // Discs for the first series and squares for the second: two points each, and one beside the name.
        assert_eq!(document.matches("<circle").count(), 3);
        assert_eq!(document.matches("<polygon").count(), 3);
    }

    #[test]
    fn many_series_are_small_multiples() {
        let names: Vec<String> =
            (0..12).map(|n| format!("{}, {n}", ["left", "middle", "right"][n % 3])).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let groups_of = |chart: &Chart| -> Vec<(String, usize)> {
            groups(&chart.series).into_iter().map(|(title, members)| (title, members.len())).collect()
        };
        let many = chart(&names, Mark::Line);
        assert_eq!(
            groups_of(&many),
            [("left".to_owned(), 4), ("middle".to_owned(), 4), ("right".to_owned(), 4)]
        );
        assert_eq!(groups_of(&chart(&names[..7], Mark::Line)), [(String::new(), 7)], "few are one");
        let document = drawn(&many);
        assert_eq!(document.matches("left").count(), 1, "the title of its panel");
    }

    /// Long names, many series, a long line of provenance: all is inside.
    #[test]
    fn nothing_is_outside_the_canvas() {
        let long = "encrypt and decrypt, AES-128-CBC and HMAC-SHA1, in a configuration in the Click language";
        let same: Vec<&str> = std::iter::repeat_n(long, 30).collect();
        for chart in [chart(&same, Mark::Dotted), chart(&[long; 3], Mark::Line), chart(&[], Mark::Line)] {
            let report = Report { commit: "c".repeat(200), ..crate::report::tests::sample("c") };
            let document = render(&report, std::slice::from_ref(&chart)).unwrap().remove(0).1;
            let height = numbers(&document, "height")[0];
            assert!(numbers(&document, "y").into_iter().all(|y| (0.0..height).contains(&y)), "{document}");
            let texts = document.split("<text ").skip(1).filter_map(|text| {
                let x = numbers(&format!(" {text}"), "x")[0];
                let size: f64 = text.split_once("font-size=\"")?.1.split_once('"')?.0.parse().ok()?;
                let words = text.split_once(">\n")?.1.split_once("\n<")?.0;
                text.contains("text-anchor=\"start\"")
                    .then(|| x + f64::from(labels::width(words, 100)) * size / 100.0)
            });
            let ends: Vec<f64> = texts.collect();
            assert!(
                !ends.is_empty() && ends.iter().all(|&end| end <= f64::from(WIDTH)),
                "{ends:?} {document}"
            );
        }
    }
}

//! Draws charts in the style of the bars of [`crate::svg`].

use crate::report::Report;
use crate::svg::draw_foot;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::{Axis, Chart, Mark, Scale, Series};
use scalebricks_report::picture::{self, Area, DrawError, FAINT, INK, OURS, TRACK, bold, style};

const HEIGHT: i32 = 560;
/// Edges of the plot area: left, right, top, bottom.
const FRAME: (i32, i32, i32, i32) = (96, 690, 64, 470);
/// Left edge of the legend.
const LEGEND: i32 = 712;
const PITCH: i32 = 26;

/// Colours of series; the first is that of this project.
const COLOURS: [RGBColor; 8] = [
    OURS,
    RGBColor(0xc2, 0x57, 0x1a),
    RGBColor(0x3b, 0x8b, 0x5b),
    RGBColor(0x7a, 0x5e, 0xa8),
    RGBColor(0xb5, 0x86, 0x0b),
    RGBColor(0xa8, 0x32, 0x44),
    RGBColor(0x4c, 0x4f, 0x8f),
    RGBColor(0x6b, 0x72, 0x79),
];

/// Letters of a series' name that fit at the normal size.
const LETTERS: usize = 34;

/// Maximum labels of an axis.
const MOST_TICKS: usize = 12;

/// A file name and an SVG document for each chart.
///
/// # Errors
/// [`DrawError`] if the drawing library refuses.
pub fn render(report: &Report, charts: &[Chart]) -> Result<Vec<(String, String)>, DrawError> {
    charts.iter().map(|chart| Ok((format!("{}.svg", chart.name), picture(report, chart)?))).collect()
}

fn picture(report: &Report, chart: &Chart) -> Result<String, DrawError> {
    let all = || chart.series.iter().flat_map(|series| &series.points);
    let x = Span::of(chart.x.scale, all().map(|point| point.x), (FRAME.0, FRAME.1));
    let y = Span::of(chart.y.scale, all().map(|point| point.y), (FRAME.3, FRAME.2));
    let height = HEIGHT.max(FRAME.2 + PITCH * length(chart.series.len() + 2));
    picture::document(height, |area| {
        area.draw_text(&chart.title, &bold(style(22, INK, HPos::Left)), (28, 32))?;
        draw_axes(area, &chart.x, &chart.y, &x, &y)?;
        for (number, series) in chart.series.iter().enumerate() {
            let points: Vec<(i32, i32)> =
                series.points.iter().map(|point| (x.pixel(point.x), y.pixel(point.y))).collect();
            let alike = |other: &&Series| (other.colour, other.mark) == (series.colour, series.mark);
            let look = Look { number, again: chart.series[..number].iter().filter(alike).count() };
            draw(area, series, look, &points)?;
            let middle = FRAME.2 + 8 + PITCH * length(number);
            draw(area, series, look, &[(LEGEND, middle), (LEGEND + 30, middle)])?;
            let size = if series.name.chars().count() > LETTERS { 11 } else { 13 };
            area.draw_text(&series.name, &style(size, INK, HPos::Left), (LEGEND + 40, middle))?;
        }
        draw_foot(area, report, height)
    })
}

fn draw_axes(area: &Area<'_>, across: &Axis, up: &Axis, x: &Span, y: &Span) -> Result<(), DrawError> {
    let grid = |from, to| PathElement::new([from, to], TRACK.stroke_width(1));
    for (value, label) in x.ticks() {
        let at = x.pixel(value);
        area.draw(&grid((at, FRAME.2), (at, FRAME.3)))?;
        area.draw_text(&label, &style(13, INK, HPos::Center), (at, FRAME.3 + 16))?;
    }
    for (value, label) in y.ticks() {
        let at = y.pixel(value);
        area.draw(&grid((FRAME.0, at), (FRAME.1, at)))?;
        area.draw_text(&label, &style(13, INK, HPos::Right), (FRAME.0 - 8, at))?;
    }
    area.draw(&PathElement::new(
        [(FRAME.0, FRAME.2), (FRAME.0, FRAME.3), (FRAME.1, FRAME.3)],
        FAINT.stroke_width(1),
    ))?;
    area.draw_text(
        &across.label,
        &style(13, FAINT, HPos::Center),
        (FRAME.0.midpoint(FRAME.1), FRAME.3 + 40),
    )?;
    area.draw_text(&up.label, &style(13, FAINT, HPos::Left), (28, FRAME.2 - 14))?;
    Ok(())
}

/// A number of series, at most some dozens.
fn length(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(0)
}

/// Distinguishes series of the same colour.
#[derive(Clone, Copy)]
struct Look {
    /// Index in the chart, which selects the shape of its points.
    number: usize,
    /// Earlier series of the same colour and mark, which selects the dash pattern.
    again: usize,
}

fn draw(area: &Area<'_>, series: &Series, look: Look, points: &[(i32, i32)]) -> Result<(), DrawError> {
    let colour = COLOURS[series.colour % COLOURS.len()];
    let pen = colour.stroke_width(2);
    let (dash, gap) = [(8, 5), (2, 4), (14, 4), (5, 9)][look.again % 4];
    match (series.mark, look.again) {
        (Mark::Dots, _) => {}
        (Mark::Line | Mark::Dotted, 0) => area.draw(&PathElement::new(points.to_vec(), pen))?,
        _ => area.draw(&DashedPathElement::new(points.iter().copied(), dash, gap, pen))?,
    }
    if matches!(series.mark, Mark::Dots | Mark::Dotted) {
        for &point in points {
            draw_point(area, point, look.number, colour)?;
        }
    }
    Ok(())
}

/// Draws a disc, square, triangle, diamond or cross.
fn draw_point(area: &Area<'_>, at: (i32, i32), shape: usize, colour: RGBColor) -> Result<(), DrawError> {
    let corners = |corners: &[(i32, i32)]| -> Vec<(i32, i32)> {
        corners.iter().map(|corner| (at.0 + corner.0, at.1 + corner.1)).collect()
    };
    match shape % 5 {
        0 => area.draw(&Circle::new(at, 4, colour.filled()))?,
        1 => area.draw(&Polygon::new(corners(&[(-4, -4), (4, -4), (4, 4), (-4, 4)]), colour.filled()))?,
        2 => area.draw(&Polygon::new(corners(&[(0, -5), (5, 4), (-5, 4)]), colour.filled()))?,
        3 => area.draw(&Polygon::new(corners(&[(0, -6), (6, 0), (0, 6), (-6, 0)]), colour.filled()))?,
        _ => area.draw(&Cross::new(at, 4, colour.stroke_width(2)))?,
    }
    Ok(())
}

/// The range of an axis and its position on the picture.
struct Span {
    scale: Scale,
    /// Start, on the scale's own measure: a logarithm for decades and doublings.
    from: f64,
    to: f64,
    /// Origin of the labels: the least value for doublings.
    anchor: f64,
    pixels: (i32, i32),
}

impl Span {
    fn of(scale: Scale, values: impl Iterator<Item = f64>, pixels: (i32, i32)) -> Self {
        let counted = values.map(|value| count(scale, value)).filter(|value| value.is_finite());
        let (least, most) =
            counted.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        if least > most {
            return Self { scale, from: 0.0, to: 1.0, anchor: 0.0, pixels };
        }
        let (from, to) = match scale {
            Scale::Linear => (0.0, most.max(f64::MIN_POSITIVE) * 1.04),
            Scale::Decades => (least.floor(), most.ceil()),
            Scale::Doublings => (least - 0.2, most + 0.2),
        };
        let anchor = if scale == Scale::Doublings { least } else { 0.0 };
        Self { scale, from, to: if to > from { to } else { from + 1.0 }, anchor, pixels }
    }

    fn pixel(&self, value: f64) -> i32 {
        let share = (count(self.scale, value) - self.from) / (self.to - self.from);
        let length = f64::from(self.pixels.1 - self.pixels.0);
        self.pixels.0 + (length * share.clamp(0.0, 1.0)).round() as i32 // within the picture
    }

    /// Labelled positions.
    fn ticks(&self) -> Vec<(f64, String)> {
        let step = match self.scale {
            Scale::Linear => round_step((self.to - self.from) / 8.0),
            _ => ((self.to - self.from) / MOST_TICKS as f64).ceil().max(1.0),
        };
        let first = ((self.from - self.anchor) / step).ceil() as i64; // a few dozen at most
        let place = |number: i64| self.anchor + number as f64 * step;
        let places = (first..).map(place).take_while(|&at| at <= self.to + step * 1e-9);
        let value = |at: f64| match self.scale {
            Scale::Linear => at,
            Scale::Decades => 10_f64.powf(at),
            Scale::Doublings => at.exp2(),
        };
        places.map(|at| (value(at), label(value(at)))).collect()
    }
}

fn count(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Linear => value,
        Scale::Decades => value.log10(),
        Scale::Doublings => value.log2(),
    }
}

/// The least of 1, 2 or 5 times a power of ten that is at least `least`.
fn round_step(least: f64) -> f64 {
    let decade = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|digit| digit * decade)
        .find(|&step| step >= least)
        .unwrap_or(10.0 * decade)
}

/// The label of a number on an axis.
#[expect(clippy::cast_sign_loss, reason = "numbers from 1,000 on are not negative")]
fn label(value: f64) -> String {
    if value >= 999.5 {
        return short_count(value.round() as u64);
    }
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_report::exhibit::Point;

    #[test]
    fn axes_have_round_numbers() {
        let labels = |scale, values: &[f64]| -> Vec<String> {
            let span = Span::of(scale, values.iter().copied(), (0, 100));
            span.ticks().into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(labels(Scale::Linear, &[3.0, 30.0]), ["0", "5", "10", "15", "20", "25", "30"]);
        assert_eq!(labels(Scale::Decades, &[2.0, 30_000.0]), ["1", "10", "100", "1 k", "10 k", "100 k"]);
        assert_eq!(labels(Scale::Decades, &[0.02, 0.5]), ["0.01", "0.1", "1"]);
        assert_eq!(labels(Scale::Doublings, &[1.0, 8.0]), ["1", "2", "4", "8"]);
        assert_eq!(labels(Scale::Doublings, &[5e5, 2e6]), ["500 k", "1 M", "2 M"]);
        assert_eq!(labels(Scale::Linear, &[]).first().map(String::as_str), Some("0"));
    }

    #[test]
    fn a_chart_is_a_picture() {
        let mut chart = Chart::new("c", "A < B", ("x", Scale::Linear), ("y", Scale::Decades));
        for mark in [Mark::Line, Mark::Dashes, Mark::Dotted, Mark::Dots] {
            let points = vec![Point::exact(1, 10.0), Point::exact(2, 200.0)];
            chart.series.push(Series::new(format!("{mark:?}"), mark, 0, points));
        }
        let pictures = render(&crate::report::tests::sample("c"), &[chart]).unwrap();
        assert_eq!(pictures[0].0, "c.svg");
        let document = &pictures[0].1;
        assert!(document.starts_with("<svg") && document.trim_end().ends_with("</svg>"));
        assert!(document.contains("A &lt; B") && document.contains("Dashes") && document.contains("100"));
    }

    #[test]
    fn series_of_one_colour_can_be_told_apart() {
        let mut chart = Chart::new("c", "C", ("x", Scale::Linear), ("y", Scale::Linear));
        for name in ["a", "b"] {
            chart.series.push(Series::new(
                name,
                Mark::Dotted,
                0,
                vec![Point::exact(1, 1.0), Point::exact(2, 2.0)],
            ));
        }
        let pictures = render(&crate::report::tests::sample("c"), &[chart]).unwrap();
        // Discs for the first series and squares for the second: two points each, and two in the legend.
        assert_eq!(pictures[0].1.matches("<circle").count(), 4);
        assert_eq!(pictures[0].1.matches("<polygon").count(), 4);
    }

    #[test]
    fn a_legend_of_many_series_has_room() {
        let mut chart = Chart::new("c", "C", ("x", Scale::Linear), ("y", Scale::Linear));
        chart.series =
            (0..30).map(|n| Series::new(n.to_string(), Mark::Line, n, vec![Point::exact(1, 1.0)])).collect();
        let pictures = render(&crate::report::tests::sample("c"), &[chart]).unwrap();
        assert!(pictures[0].1.contains(r#"height="896""#), "{}", &pictures[0].1[..120]);
    }
}

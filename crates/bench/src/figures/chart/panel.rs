//! One pair of axes with its series, named where their lines end.

use super::axes::Span;
use super::colours::colour_of;
use super::{labels, length};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use scalebricks_report::exhibit::{Chart, Mark, Series};
use scalebricks_report::picture::{Area, DrawError, FAINT, INK, TRACK, bold, style};

/// Size of names and of ticks.
const NAME: u32 = 12;
const TICK: u32 = 12;
/// Room for ticks at the left, for the unit above, for ticks and the label below.
const LEFT: i32 = 58;
const ABOVE: i32 = 40;
const BELOW: i32 = 52;
/// Length of the sample of a line before its name, and the way to it.
const SAMPLE: i32 = 22;
const WAY: i32 = 14;
/// A name has at most this share of the panel, per cent.
const NAMES_PERCENT: i32 = 34;
/// Pixels for a tick's label, which bound how many there are.
const TICK_ROOM: i32 = 52;

/// Where a panel is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) left: i32,
    pub(super) right: i32,
    pub(super) top: i32,
    pub(super) bottom: i32,
}

/// The series of a panel.
pub(super) struct Panel<'a> {
    chart: &'a Chart,
    title: &'a str,
    members: Vec<Member<'a>>,
}

struct Member<'a> {
    series: &'a Series,
    /// Its name without the panel's title.
    name: &'a str,
    colour: RGBColor,
    /// Place in the panel, which selects the shape of its points.
    number: usize,
    /// Earlier series of the same colour and mark, which selects the dash pattern.
    again: usize,
}

impl<'a> Panel<'a> {
    pub(super) fn new(chart: &'a Chart, title: &'a str, series: &[&'a Series]) -> Self {
        let mut members: Vec<Member<'a>> = Vec::new();
        for (number, &series) in series.iter().enumerate() {
            let rest = series.name.strip_prefix(title).and_then(|rest| rest.strip_prefix(", "));
            let name = if title.is_empty() { &series.name } else { rest.unwrap_or(&series.name) };
            let colour = colour_of(&series.name, series.colour);
            let alike = |other: &&Member<'_>| other.colour == colour && other.series.mark == series.mark;
            let again = members.iter().filter(alike).count();
            members.push(Member { series, name, colour, number, again });
        }
        Self { chart, title, members }
    }

    /// Height that its names need.
    pub(super) fn height(&self, width: i32) -> i32 {
        let room = self.room(width);
        ABOVE + BELOW + self.members.iter().map(|member| member.height(room)).sum::<i32>()
    }

    /// Width of the names.
    fn room(&self, width: i32) -> i32 {
        let widest = self.members.iter().map(|member| labels::width(member.name, NAME)).max().unwrap_or(0);
        // Some letters are wider than an ordinary mixture.
        (widest + 10).clamp(40, width * NAMES_PERCENT / 100 - SAMPLE - WAY - 6)
    }

    pub(super) fn draw(&self, area: &Area<'_>, place: Place) -> Result<(), DrawError> {
        let room = self.room(place.right - place.left);
        let frame = Place {
            left: place.left + LEFT,
            right: place.right - room - SAMPLE - WAY - 6,
            top: place.top + ABOVE,
            bottom: place.bottom - BELOW,
        };
        // All panels of a chart have the same axes.
        let all = || self.chart.series.iter().flat_map(|series| &series.points);
        let x = Span::of(&self.chart.x, all().map(|point| point.x), (frame.left, frame.right));
        let y = Span::of(&self.chart.y, all().map(|point| point.y), (frame.bottom, frame.top));
        area.draw_text(self.title, &bold(style(15, INK, HPos::Left)), (place.left, place.top + 8))?;
        self.draw_axes(area, frame, &x, &y)?;
        let mut ends = Vec::new();
        for member in &self.members {
            let points =
                member.series.points.iter().filter(|point| point.x.is_finite() && point.y.is_finite());
            let points: Vec<(i32, i32)> = points.map(|point| (x.pixel(point.x), y.pixel(point.y))).collect();
            member.draw(area, &points)?;
            ends.push(points.last().copied());
        }
        self.draw_names(area, frame, room, &ends)
    }

    fn draw_axes(&self, area: &Area<'_>, frame: Place, x: &Span, y: &Span) -> Result<(), DrawError> {
        let grid = |from, to| PathElement::new([from, to], TRACK.stroke_width(1));
        let fit = |pixels: i32, each: i32| usize::try_from(pixels / each).unwrap_or(1).max(2);
        for (value, label) in x.ticks(fit(frame.right - frame.left, TICK_ROOM)) {
            let at = x.pixel(value);
            area.draw(&grid((at, frame.top), (at, frame.bottom)))?;
            area.draw_text(&label, &style(TICK, INK, HPos::Center), (at, frame.bottom + 14))?;
        }
        for (value, label) in y.ticks(fit(frame.bottom - frame.top, 24)) {
            let at = y.pixel(value);
            area.draw(&grid((frame.left, at), (frame.right, at)))?;
            area.draw_text(&label, &style(TICK, INK, HPos::Right), (frame.left - 8, at))?;
        }
        let corner = [(frame.left, frame.top), (frame.left, frame.bottom), (frame.right, frame.bottom)];
        area.draw(&PathElement::new(corner, FAINT.stroke_width(1)))?;
        let middle = frame.left.midpoint(frame.right);
        area.draw_text(
            x.label(&self.chart.x),
            &style(TICK, FAINT, HPos::Center),
            (middle, frame.bottom + 34),
        )?;
        let unit = (frame.left - LEFT, frame.top - 12);
        area.draw_text(y.label(&self.chart.y), &style(TICK, FAINT, HPos::Left), unit)?;
        Ok(())
    }

    /// Names where lines end, moved apart, each with a sample of its line.
    fn draw_names(
        &self,
        area: &Area<'_>,
        frame: Place,
        room: i32,
        ends: &[Option<(i32, i32)>],
    ) -> Result<(), DrawError> {
        let best: Vec<i32> = ends.iter().map(|end| end.map_or(frame.bottom, |end| end.1)).collect();
        let heights: Vec<i32> = self.members.iter().map(|member| member.height(room)).collect();
        let middles = labels::apart(&best, &heights, frame.top - 8, frame.bottom + 8);
        for ((member, end), middle) in self.members.iter().zip(ends).zip(middles) {
            let sample = frame.right + WAY;
            if let Some(end) = *end {
                area.draw(&PathElement::new([end, (sample, middle)], TRACK.stroke_width(1)))?;
            }
            member.draw_sample(area, [(sample, middle), (sample + SAMPLE, middle)])?;
            let lines = labels::wrap(member.name, NAME, room);
            let first = middle - labels::LINE * (length(lines.len()) - 1) / 2;
            for (number, line) in (0..).zip(&lines) {
                let at = (sample + SAMPLE + 6, first + labels::LINE * number);
                area.draw_text(line, &style(NAME, INK, HPos::Left), at)?;
            }
        }
        Ok(())
    }
}

impl Member<'_> {
    fn height(&self, room: i32) -> i32 {
        labels::LINE * length(labels::wrap(self.name, NAME, room).len()) + 2
    }

    fn draw(&self, area: &Area<'_>, points: &[(i32, i32)]) -> Result<(), DrawError> {
        self.draw_line(area, points)?;
        if matches!(self.series.mark, Mark::Dots | Mark::Dotted) {
            points.iter().try_for_each(|&point| draw_point(area, point, self.number, self.colour))?;
        }
        Ok(())
    }

    fn draw_sample(&self, area: &Area<'_>, ends: [(i32, i32); 2]) -> Result<(), DrawError> {
        self.draw_line(area, &ends)?;
        if matches!(self.series.mark, Mark::Dots | Mark::Dotted) {
            let middle = (ends[0].0.midpoint(ends[1].0), ends[0].1);
            draw_point(area, middle, self.number, self.colour)?;
        }
        Ok(())
    }

    fn draw_line(&self, area: &Area<'_>, points: &[(i32, i32)]) -> Result<(), DrawError> {
        let pen = self.colour.stroke_width(2);
        let (dash, gap) = [(8, 5), (2, 4), (14, 4), (5, 9)][self.again % 4];
        match (self.series.mark, self.again) {
            (Mark::Dots, _) => {}
            (Mark::Line | Mark::Dotted, 0) => area.draw(&PathElement::new(points.to_vec(), pen))?,
            _ => area.draw(&DashedPathElement::new(points.iter().copied(), dash, gap, pen))?,
        }
        Ok(())
    }
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

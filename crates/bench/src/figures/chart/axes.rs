//! Axes: the range of values, its place on the picture, and labelled positions.

use scalebricks_console::quantity::{count, short_count};
use scalebricks_report::exhibit::{Axis, Scale};

/// Most labels of an axis whose ticks have the same distance.
const MOST_TICKS: usize = 12;

/// A logarithmic axis shorter than this many decades also has ticks at two and five times the powers of ten.
const FINE_DECADES: f64 = 2.6;

/// The range of an axis and its position on the picture.
pub(super) struct Span {
    scale: Scale,
    /// Whether values are nanoseconds, which become micro- and milliseconds.
    is_time: bool,
    /// Start, on the scale's own measure: a logarithm for decades and doublings.
    from: f64,
    to: f64,
    /// Origin of the labels: the least value for doublings.
    anchor: f64,
    pixels: (i32, i32),
}

impl Span {
    pub(super) fn of(axis: &Axis, values: impl Iterator<Item = f64>, pixels: (i32, i32)) -> Self {
        let scale = axis.scale;
        let is_time = axis.label.rsplit([' ', ',']).next() == Some("ns");
        let measured = values.map(|value| measure(scale, value)).filter(|value| value.is_finite());
        let (least, most) =
            measured.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        if least > most {
            return Self { scale, is_time, from: 0.0, to: 1.0, anchor: 0.0, pixels };
        }
        let room = (most - least).max(0.1) * 0.04;
        let (from, to) = match scale {
            Scale::Linear => (0.0, most.max(f64::MIN_POSITIVE) * 1.04),
            Scale::Decades | Scale::Doublings => (least - room, most + room),
        };
        let anchor = if scale == Scale::Doublings { least } else { 0.0 };
        Self { scale, is_time, from, to: if to > from { to } else { from + 1.0 }, anchor, pixels }
    }

    /// The axis' label, without a unit that each tick has.
    pub(super) fn label<'a>(&self, axis: &'a Axis) -> &'a str {
        match axis.label.strip_suffix("ns") {
            Some("") if self.is_time => "time",
            Some(quantity) if self.is_time => quantity.trim_end_matches([' ', ',']),
            _ => &axis.label,
        }
    }

    pub(super) fn pixel(&self, value: f64) -> i32 {
        let share = (measure(self.scale, value) - self.from) / (self.to - self.from);
        let length = f64::from(self.pixels.1 - self.pixels.0);
        self.pixels.0 + (length * share.clamp(0.0, 1.0)).round() as i32 // within the picture
    }

    /// Labelled positions, at most `most` if they have the same distance.
    pub(super) fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        let values = match self.scale {
            Scale::Decades => self.decades(most),
            Scale::Linear => self.regular(round_step((self.to - self.from) / most.min(8) as f64), |at| at),
            Scale::Doublings => {
                let step = ((self.to - self.from) / most.min(MOST_TICKS) as f64).ceil().max(1.0);
                self.regular(step, f64::exp2)
            }
        };
        values.into_iter().map(|value| (value, self.tick(value))).collect()
    }

    fn regular(&self, step: f64, value: impl Fn(f64) -> f64) -> Vec<f64> {
        // A few dozen at most.
        let first = ((self.from - self.anchor) / step).ceil() as i64;
        let last = ((self.to - self.anchor) / step + 1e-9).floor() as i64;
        (first..=last).map(|number| value(self.anchor + number as f64 * step)).collect()
    }

    fn decades(&self, most: usize) -> Vec<f64> {
        let digits: &[f64] = if self.to - self.from < FINE_DECADES { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let (first, last) = (self.from.floor() as i32, self.to.ceil() as i32); // decades of measured figures
        let all =
            (first..=last).flat_map(|decade| digits.iter().map(move |digit| digit * 10_f64.powi(decade)));
        let inside: Vec<f64> = all.filter(|value| (self.from..=self.to).contains(&value.log10())).collect();
        let step = inside.len().div_ceil(most.max(1)).max(1);
        inside.into_iter().step_by(step).collect()
    }

    #[expect(clippy::cast_sign_loss, reason = "the cast is of a number from 1,000 to 10,000")]
    fn tick(&self, value: f64) -> String {
        if self.is_time {
            return time(value);
        }
        // Powers of two up to some thousands are known by all their digits.
        if self.scale == Scale::Doublings && (1_000.0..10_000.0).contains(&value) {
            return count(value.round() as u64);
        }
        number(value)
    }
}

fn measure(scale: Scale, value: f64) -> f64 {
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

/// Nanoseconds in the unit that gives the fewest digits.
fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns >= 999.5e6 => (ns / 1e9, "s"),
        ns if ns >= 999.5e3 => (ns / 1e6, "ms"),
        ns if ns >= 999.5 => (ns / 1e3, "µs"),
        ns => (ns, "ns"),
    };
    if ns == 0.0 { "0".to_owned() } else { format!("{} {unit}", number(value)) }
}

/// A number on an axis.
#[expect(clippy::cast_sign_loss, reason = "numbers from 1,000 on are not negative")]
fn number(value: f64) -> String {
    if value >= 999.5 {
        return short_count(value.round() as u64);
    }
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(label: &str, scale: Scale, values: &[f64]) -> Vec<String> {
        let span = Span::of(&Axis { label: label.to_owned(), scale }, values.iter().copied(), (0, 100));
        span.ticks(MOST_TICKS).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(labels("", Scale::Linear, &[3.0, 30.0]), ["0", "5", "10", "15", "20", "25", "30"]);
        assert_eq!(labels("", Scale::Decades, &[2.0, 30_000.0]), ["10", "100", "1 k", "10 k"]);
        assert_eq!(labels("", Scale::Decades, &[0.02, 0.5]), ["0.02", "0.05", "0.1", "0.2", "0.5"]);
        assert_eq!(labels("", Scale::Doublings, &[1.0, 8.0]), ["1", "2", "4", "8"]);
        assert_eq!(labels("", Scale::Doublings, &[512.0, 2048.0]), ["512", "1,024", "2,048"]);
        assert_eq!(labels("", Scale::Doublings, &[5e5, 2e6]), ["500 k", "1 M", "2 M"]);
        assert_eq!(labels("", Scale::Linear, &[]).first().map(String::as_str), Some("0"));
    }

    #[test]
    fn a_million_nanoseconds_is_a_millisecond() {
        assert_eq!(
            labels("ns", Scale::Decades, &[100.0, 2e6]),
            ["100 ns", "1 µs", "10 µs", "100 µs", "1 ms"]
        );
        assert_eq!(labels("delay, ns", Scale::Linear, &[2e9]).last().map(String::as_str), Some("2 s"));
        assert_eq!(labels("columns", Scale::Decades, &[100.0, 2e6])[1], "1 k");
        for (label, shown) in [("ns", "time"), ("delay, ns", "delay"), ("columns", "columns")] {
            let axis = Axis { label: label.to_owned(), scale: Scale::Linear };
            assert_eq!(Span::of(&axis, [1.0].into_iter(), (0, 1)).label(&axis), shown);
        }
    }

    /// All of the picture is used: no empty decade above or below.
    #[test]
    fn measured_values_fill_the_axis() {
        let axis = Axis { label: String::new(), scale: Scale::Decades };
        let span = Span::of(&axis, [70.0, 1_100.0].into_iter(), (0, 1_000));
        assert!(span.pixel(70.0) < 60 && span.pixel(1_100.0) > 940);
        assert_eq!((span.pixel(0.0), span.pixel(1e9)), (0, 1_000), "others stay inside");
    }
}

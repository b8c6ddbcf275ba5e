//! Common parts of pictures.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use scalebricks_console::OutputError;

/// The drawing area.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Width in pixels.
pub const WIDTH: i32 = 1_000;

/// Background colour, which makes pictures readable on white and dark pages.
const CARD: RGBColor = RGBColor(0xfa, 0xfa, 0xf8);
/// Grid lines and bar tracks.
pub const TRACK: RGBColor = RGBColor(0xec, 0xec, 0xe8);
/// Text.
pub const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
/// Secondary text and lines.
pub const FAINT: RGBColor = RGBColor(0x6b, 0x72, 0x79);
/// The colour of this project.
pub const OURS: RGBColor = RGBColor(0x0b, 0x6e, 0x99);
/// The colour of other structures.
const OTHERS: RGBColor = RGBColor(0x9a, 0xa7, 0xb4);

/// The drawing library failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the picture: {0}")]
pub struct DrawError(String);

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for DrawError {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self(error.to_string())
    }
}

impl From<DrawError> for OutputError {
    fn from(error: DrawError) -> Self {
        Self::Draw(error.into())
    }
}

/// An SVG document of [`WIDTH`] times `height` pixels with what `draw` paints on an empty background.
///
/// # Errors
/// [`DrawError`] if the drawing library refuses.
pub fn document(
    height: i32,
    draw: impl FnOnce(&Area<'_>) -> Result<(), DrawError>,
) -> Result<String, DrawError> {
    let mut document = String::new();
    {
        let size = (WIDTH.cast_unsigned(), height.cast_unsigned());
        let area = SVGBackend::with_string(&mut document, size).into_drawing_area();
        area.fill(&CARD)?;
        draw(&area)?;
        area.present()?;
    }
    Ok(document)
}

/// A bar on a track from `left` to `right`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// Where the track begins.
    pub left: i32,
    /// Where it ends.
    pub right: i32,
    /// How far down its middle is.
    pub middle: i32,
    /// Half of its height.
    pub half: i32,
    /// Whether it has the colour of this project.
    pub is_ours: bool,
}

impl Bar {
    /// Draws it with the length `value / most` of the track.
    ///
    /// # Errors
    /// [`DrawError`] if the drawing library refuses.
    pub fn draw(self, area: &Area<'_>, value: f64, most: f64) -> Result<(), DrawError> {
        let share = if most > 0.0 { value / most } else { 0.0 };
        // At least one pixel, so that a tiny figure is not mistaken for a missing one.
        let end = self.left + ((f64::from(self.right - self.left) * share) as i32).max(1);
        let part = |to: i32, colour: RGBColor| {
            let corners = [(self.left, self.middle - self.half), (to, self.middle + self.half)];
            Rectangle::new(corners, colour.filled())
        };
        area.draw(&part(self.right, TRACK))?;
        area.draw(&part(end, if self.is_ours { OURS } else { OTHERS }))?;
        Ok(())
    }
}

/// A text style of this size, vertically centred on its point.
pub fn style(size: u32, colour: RGBColor, horizontal: HPos) -> TextStyle<'static> {
    let plain = TextStyle::from(("sans-serif", size).into_font());
    TextStyle { color: colour.to_backend_color(), ..plain }.pos(Pos::new(horizontal, VPos::Center))
}

/// The bold variant of a text style.
pub fn bold(mut text: TextStyle<'static>) -> TextStyle<'static> {
    text.font = text.font.style(FontStyle::Bold);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The widths of the rectangles in a document.
    fn widths(document: &str) -> Vec<&str> {
        let rectangles = document.lines().filter(|line| line.starts_with("<rect"));
        rectangles.map(|line| line.split(r#"width=""#).nth(1).unwrap().split('"').next().unwrap()).collect()
    }

    #[test]
    fn bars_are_shares_of_their_track_and_never_nothing() {
        let bar = Bar { left: 100, right: 300, middle: 20, half: 5, is_ours: true };
        let document = document(40, |area| {
            for (value, most) in [(3.0, 4.0), (1e-9, 4.0), (0.0, 0.0)] {
                bar.draw(area, value, most)?;
            }
            Ok(())
        });
        assert_eq!(widths(&document.unwrap()), ["1000", "200", "150", "200", "1", "200", "1"]);
    }
}

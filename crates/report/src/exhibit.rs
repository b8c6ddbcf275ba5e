//! Content of pages besides rows: charts, tables and sentences.

use crate::stats::Summary;
use crate::stored;
use serde::{Deserialize, Serialize};

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Linear from zero.
    Linear,
    /// Logarithmic to base ten.
    Decades,
    /// Logarithmic to base two.
    Doublings,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// The quantity with its unit.
    pub label: String,
    /// The scale.
    pub scale: Scale,
}

/// The style of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// A line.
    Line,
    /// A dashed line.
    Dashes,
    /// A line with a dot at each point.
    Dotted,
    /// Dots only.
    Dots,
}

/// A point with the range of its measurements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Horizontal position.
    #[serde(deserialize_with = "stored::f64_or_nan")]
    pub x: f64,
    /// Vertical position.
    #[serde(deserialize_with = "stored::f64_or_nan")]
    pub y: f64,
    /// Minimum and maximum.
    pub spread: Option<(f64, f64)>,
}

impl Point {
    /// A measured point, its figures divided by `unit`.
    pub fn measured(x: f64, figures: Summary, unit: f64) -> Self {
        Self { x, y: figures.median / unit, spread: Some((figures.min / unit, figures.max / unit)) }
    }

    /// A point without a range.
    pub fn exact(x: impl Into<f64>, y: f64) -> Self {
        Self { x: x.into(), y, spread: None }
    }
}

/// Points drawn alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its style.
    pub mark: Mark,
    /// Index of its colour. Related series share a colour.
    pub colour: usize,
    /// The points from left to right.
    pub points: Vec<Point>,
}

impl Series {
    /// A series.
    pub fn new(name: impl Into<String>, mark: Mark, colour: usize, points: Vec<Point>) -> Self {
        Self { name: name.into(), mark, colour, points }
    }
}

/// A chart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// Name of its files, without extension.
    pub name: String,
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series.
    pub series: Vec<Series>,
}

impl Chart {
    /// A chart without series.
    pub fn new(name: &str, title: &str, x: (&str, Scale), y: (&str, Scale)) -> Self {
        let axis = |(label, scale): (&str, Scale)| Axis { label: label.to_owned(), scale };
        Self { name: name.to_owned(), title: title.to_owned(), x: axis(x), y: axis(y), series: Vec::new() }
    }

    /// Its points as CSV: series, x, y, minimum, maximum.
    pub fn csv(&self) -> String {
        let mut lines = vec![["series", "x", "y", "min", "max"].map(str::to_owned)];
        for series in &self.series {
            lines.extend(series.points.iter().map(|point| {
                let [least, most] =
                    point.spread.map_or_else(Default::default, |(a, b)| [a, b].map(|n| n.to_string()));
                [series.name.clone(), point.x.to_string(), point.y.to_string(), least, most]
            }));
        }
        csv_of(lines)
    }
}

/// A table of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageTable {
    /// Name of its place in the page, and of its file before `.table.csv`.
    pub name: String,
    /// Column heads.
    pub heads: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
    /// Number of key columns if the tables of several processors are joined; 0 if each processor has its own
    /// table.
    #[serde(default)]
    pub keys: usize,
}

impl PageTable {
    /// A table without rows.
    pub fn new(name: &str, heads: &[&str]) -> Self {
        let heads = heads.iter().map(|&head| head.to_owned()).collect();
        Self { name: name.to_owned(), heads, rows: Vec::new(), keys: 0 }
    }

    /// Makes the first `keys` columns the key columns. The other columns appear once per processor, side by
    /// side.
    #[must_use]
    pub const fn side_by_side(mut self, keys: usize) -> Self {
        self.keys = keys;
        self
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = format!("|{}\n", "---|".repeat(self.heads.len()));
        line(&self.heads) + &rule + &self.rows.iter().map(|row| line(row)).collect::<String>()
    }

    /// As CSV with the cells as printed.
    pub fn csv(&self) -> String {
        csv_of(std::iter::once(&self.heads).chain(&self.rows))
    }
}

fn csv_of<L: IntoIterator<Item: AsRef<[u8]>>>(lines: impl IntoIterator<Item = L>) -> String {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    let written = lines.into_iter().try_for_each(|line| writer.write_record(line));
    // Writing to memory succeeds, and all cells are UTF-8.
    debug_assert!(written.is_ok());
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// A sentence that states what a table or chart shows, with numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conclusion {
    /// Name of its place in the page.
    pub name: String,
    /// The sentence, in Markdown.
    pub sentence: String,
}

/// The content that benchmarks add to pages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Exhibits {
    /// Charts.
    pub charts: Vec<Chart>,
    /// Tables.
    pub sheets: Vec<PageTable>,
    /// Conclusions.
    pub conclusions: Vec<Conclusion>,
}

impl Exhibits {
    /// Appends the content of another benchmark.
    pub fn extend(&mut self, other: Self) {
        self.charts.extend(other.charts);
        self.sheets.extend(other.sheets);
        self.conclusions.extend(other.conclusions);
    }

    /// The data files: name and content.
    pub fn csv(&self) -> Vec<(String, String)> {
        let charts = self.charts.iter().map(|chart| (format!("{}.csv", chart.name), chart.csv()));
        charts
            .chain(self.sheets.iter().map(|sheet| (format!("{}.table.csv", sheet.name), sheet.csv())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_are_quoted() {
        let mut chart = Chart::new("c", "C", ("x", Scale::Linear), ("y", Scale::Linear));
        let spread = Some((1.0, 3.0));
        let points = vec![Point { x: 1.0, y: 2.0, spread }, Point::exact(2, 4.5)];
        chart.series.push(Series::new("a, \"b\"", Mark::Line, 0, points));
        assert_eq!(chart.csv(), "series,x,y,min,max\n\"a, \"\"b\"\"\",1,2,1,3\n\"a, \"\"b\"\"\",2,4.5,,\n");
    }

    #[test]
    fn sheets_are_markdown() {
        let mut sheet = PageTable::new("s", &["a", "b"]);
        sheet.rows.push(vec!["1".to_owned(), "2,5".to_owned()]);
        assert_eq!(sheet.markdown(), "| a | b |\n|---|---|\n| 1 | 2,5 |\n");
        assert_eq!(sheet.csv(), "a,b\n1,\"2,5\"\n");
        let exhibits = Exhibits { sheets: vec![sheet], ..Exhibits::default() };
        assert_eq!(exhibits.csv()[0].0, "s.table.csv");
    }
}

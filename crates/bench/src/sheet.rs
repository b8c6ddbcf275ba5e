//! Tables and charts of pages, declared by their columns and series.

use scalebricks_report::exhibit::{Chart, Mark, PageTable, Point, Scale, Series};

/// A page table with one row per item, to which columns are added one by one.
#[derive(Debug)]
pub struct Sheet<T> {
    table: PageTable,
    items: Vec<T>,
}

impl<T> Sheet<T> {
    /// A table of these items without columns.
    pub fn new(name: &str, items: impl IntoIterator<Item = T>) -> Self {
        let items: Vec<T> = items.into_iter().collect();
        let rows = items.iter().map(|_| Vec::new()).collect();
        Self { table: PageTable { rows, ..PageTable::new(name, &[]) }, items }
    }

    /// Adds a column: its head, and the cell of each item.
    #[must_use]
    pub fn column<C: ToString>(mut self, head: impl Into<String>, cell: impl Fn(&T) -> C) -> Self {
        self.table.heads.push(head.into());
        for (row, item) in self.table.rows.iter_mut().zip(&self.items) {
            row.push(cell(item).to_string());
        }
        self
    }

    /// Makes the columns so far the key columns of [`PageTable::side_by_side`].
    #[must_use]
    pub const fn keys(mut self) -> Self {
        self.table.keys = self.table.heads.len();
        self
    }

    /// Leaves out rows whose cells from column `from` on are all empty.
    #[must_use]
    pub fn without_empty(mut self, from: usize) -> Self {
        self.table.rows.retain(|row| row[from..].iter().any(|cell| !cell.is_empty()));
        self
    }
}

impl<T> From<Sheet<T>> for PageTable {
    fn from(sheet: Sheet<T>) -> Self {
        sheet.table
    }
}

/// A chart whose points are joined to series by name, in the order in which names first occur.
pub fn chart(
    name: &str,
    title: &str,
    x: (&str, Scale),
    y: (&str, Scale),
    points: impl IntoIterator<Item = (String, Point)>,
) -> Chart {
    let mut chart = Chart::new(name, title, x, y);
    for (name, point) in points {
        if let Some(series) = chart.series.iter_mut().find(|series| series.name == name) {
            series.points.push(point);
        } else {
            let colour = chart.series.len();
            chart.series.push(Series::new(name, Mark::Dotted, colour, vec![point]));
        }
    }
    chart
}

/// A number with its noun, in the plural unless it is 1.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_a_row_and_points_of_one_name_are_a_series() {
        let sheet = Sheet::new("s", [1, 0]).column("n", |n| *n).keys().column("twice", |n| match n {
            0 => String::new(),
            n => (2 * n).to_string(),
        });
        let table = PageTable::from(sheet.without_empty(1));
        assert_eq!(
            (table.heads, table.rows, table.keys),
            (vec!["n".into(), "twice".into()], vec![vec!["1".into(), "2".into()]], 1)
        );
        let points = [("a", 1), ("b", 1), ("a", 2)].map(|(name, x)| (name.to_owned(), Point::exact(x, 1.0)));
        let chart = chart("c", "C", ("x", Scale::Linear), ("y", Scale::Linear), points);
        assert_eq!(chart.series.iter().map(|series| series.points.len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((counted(1, "thread"), counted(2, "thread")), ("1 thread".into(), "2 threads".into()));
    }
}

//! Measurements in turn, A B C A B C …: a disturbance of the machine then meets all of them.

use crate::error::BenchError;
use crate::row::{Metric, Subject};
use crate::session::Session;
use crate::stats::Summary;

/// What one run found.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// A figure for each row of the turn.
    pub figures: Vec<f64>,
    /// Bytes of the table, if only the run knows.
    pub table_bytes: Option<u64>,
}

impl From<f64> for Found {
    fn from(figure: f64) -> Self {
        Self { figures: vec![figure], table_bytes: None }
    }
}

/// Makes one run.
pub type Measure<'a, S> = Box<dyn FnMut(&mut S) -> Result<Found, BenchError> + 'a>;

/// Something measured in turn with others. `S` is what all turns work on.
pub struct Turn<'a, S> {
    rows: Vec<(Subject, Metric)>,
    measure: Measure<'a, S>,
}

impl<'a, S> Turn<'a, S> {
    /// One that finds one figure a run.
    pub fn new(
        subject: Subject,
        metric: Metric,
        measure: impl FnMut(&mut S) -> Result<Found, BenchError> + 'a,
    ) -> Self {
        Self::several(vec![(subject, metric)], measure)
    }

    /// One that finds several figures a run.
    pub fn several(
        rows: Vec<(Subject, Metric)>,
        measure: impl FnMut(&mut S) -> Result<Found, BenchError> + 'a,
    ) -> Self {
        Self { rows, measure: Box::new(measure) }
    }
}

/// Makes all runs of all turns, round by round, and keeps what they found.
///
/// # Errors
/// That of the first run that fails; Ctrl-C between two runs.
pub fn alternate<S>(
    session: &mut Session<'_>,
    state: &mut S,
    turns: Vec<Turn<'_, S>>,
) -> Result<(), BenchError> {
    let runs = session.options().runs();
    let bar = session.progress(turns.len() * runs);
    let mut turns: Vec<_> =
        turns.into_iter().map(|turn| (vec![Vec::with_capacity(runs); turn.rows.len()], turn)).collect();
    for _ in 0..runs {
        for (figures, turn) in &mut turns {
            session.check()?;
            let found = (turn.measure)(state)?;
            for ((figures, figure), row) in figures.iter_mut().zip(found.figures).zip(&mut turn.rows) {
                figures.push(figure);
                row.0.table_bytes = found.table_bytes.or(row.0.table_bytes);
            }
            bar.add(1);
        }
    }
    bar.finish();
    for (figures, turn) in turns {
        for (figures, (subject, metric)) in figures.iter().zip(turn.rows) {
            session.add(subject, metric, Summary::of(figures));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use scalebricks_console::{Console, Interrupt};

    #[test]
    fn turns_alternate_and_every_figure_is_kept() {
        let (options, console, interrupt) = (Options::default(), Console::new(true), Interrupt::default());
        let mut session = Session::new("test", &options, &console, &interrupt);
        let turn = |name: &'static str, step: usize| {
            let subject = session.subject(name, 1);
            let rows = vec![(subject.clone(), Metric::InsertRate), (subject, Metric::DeleteRate)];
            Turn::several(rows, move |order: &mut Vec<&str>| {
                order.push(name);
                let figure = (order.len() * step) as f64;
                Ok(Found { figures: vec![figure, -figure], table_bytes: Some(9) })
            })
        };
        let (turns, mut order) = (vec![turn("a", 1), turn("b", 10)], Vec::new());
        alternate(&mut session, &mut order, turns).unwrap();
        assert_eq!(order, ["a", "b"].repeat(5));
        let rows = session.rows();
        assert_eq!(rows.len(), 4);
        assert_eq!((rows[0].median, rows[0].min, rows[0].max, rows[0].runs), (5.0, 1.0, 9.0, 5));
        assert_eq!((rows[3].metric, rows[3].median), (Metric::DeleteRate, -60.0));
        assert!(rows.iter().all(|row| row.subject.table_bytes == Some(9)));
    }
}

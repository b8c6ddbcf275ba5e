//! What we ask of the table ourselves, in one place: rows that other parts have left, beside what the paper says of it.

use super::queries::HASHED;
use super::reconstruction::RECONSTRUCTION;
use super::{millions, paper};
use crate::error::BenchError;
use crate::figures::exhibit::Sheet;
use crate::row::{Metric, Row};
use crate::session::Session;
use crate::table::figure;
use scalebricks_console::quantity::short_count;

/// Lookups may lose so much beside half a million updates a second, in percent.
const MOST_LOST: f64 = 5.0;

/// One line of the table: what it is called, what rows it is of, and what the paper says.
struct Goal {
    what: &'static str,
    metric: Metric,
    is_of: fn(&Row) -> bool,
    paper: fn(&Row) -> String,
}

const GOALS: [Goal; 9] = [
    Goal {
        what: "lookups, batched, one core",
        metric: Metric::LookupRate,
        is_of: |row| row.subject.variant.as_deref() == Some(HASHED) && row.subject.keys >= 1_000_000,
        paper: |row| paper::lookups("othello", row.subject.keys).to_owned(),
    },
    Goal {
        what: "build, table alone",
        metric: Metric::BuildRate,
        is_of: |row| row.subject.variant.as_deref() == Some("table alone") && row.subject.threads == Some(1),
        paper: |_| paper::BUILD.to_owned(),
    },
    Goal {
        what: "build, with control structure",
        metric: Metric::BuildRate,
        is_of: |row| {
            row.subject.variant.as_deref() == Some("with control structure") && row.subject.threads == Some(1)
        },
        paper: |_| paper::BUILD.to_owned(),
    },
    Goal {
        what: "alter",
        metric: Metric::UpdateRate,
        is_of: |row| matches!(row.subject.variant.as_deref(), Some("single" | "batched")),
        paper: |_| paper::UPDATES.to_owned(),
    },
    Goal {
        what: "add, half to full, reconstructions included",
        metric: Metric::InsertRate,
        is_of: |row| row.subject.variant.as_deref().is_some_and(|variant| variant.ends_with("half to full")),
        paper: |_| paper::UPDATES.to_owned(),
    },
    Goal {
        what: "ranges made anew on that way",
        metric: Metric::Reseeded,
        is_of: |_| true,
        paper: |_| paper::RECONSTRUCTION.to_owned(),
    },
    Goal {
        what: "one range made anew, median",
        metric: Metric::LatencyP50,
        is_of: |row| row.subject.variant.as_deref() == Some(RECONSTRUCTION),
        paper: |_| paper::RECONSTRUCTION.to_owned(),
    },
    Goal {
        what: "one range made anew, at most",
        metric: Metric::LatencyMax,
        is_of: |row| row.subject.variant.as_deref() == Some(RECONSTRUCTION),
        paper: |_| paper::RECONSTRUCTION.to_owned(),
    },
    Goal {
        what: "lookups lost",
        metric: Metric::Loss,
        is_of: |_| true,
        paper: |_| paper::NOT_GIVEN.to_owned(),
    },
];

/// Collects.
///
/// # Errors
/// None; the other parts have theirs.
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let heads = ["what", "names", "how", "paper", "here", ""];
    let mut sheet = Sheet::new("concise-goals", &heads);
    for goal in GOALS {
        let is_default = |row: &&Row| {
            let of = &row.subject;
            of.structure == "othello"
                && of.format == Some("sharded")
                && of.value_bits.is_none_or(|bits| bits == 2)
                && (of.keys >= 1_000_000 || session.options().quick)
        };
        let rows = session.rows().iter().filter(|row| row.metric == goal.metric);
        for row in rows.filter(is_default).filter(|row| (goal.is_of)(row)) {
            sheet.rows.push(line(&goal, row));
        }
    }
    session.tabulate(sheet);
    Ok(())
}

fn line(goal: &Goal, row: &Row) -> Vec<String> {
    let how = match goal.metric {
        Metric::Loss => row.subject.variant.clone().unwrap_or_default(),
        Metric::UpdateRate | Metric::InsertRate | Metric::Reseeded => {
            format!("{} at a time", row.subject.batch.unwrap_or(1))
        }
        _ => String::new(),
    };
    let (here, note) = match goal.metric {
        Metric::Loss => {
            let kept = if row.median < MOST_LOST { "within" } else { "beyond" };
            let wanted = row.subject.variant.as_deref().is_some_and(|variant| variant.contains("500 k"));
            let note = if wanted { format!(", {kept} the goal of {MOST_LOST:.0} %") } else { String::new() };
            (format!("{:.1} %", row.median), format!("({:.1} to {:.1}){note}", row.min, row.max))
        }
        Metric::Reseeded => (format!("{:.0}", row.median), String::new()),
        Metric::LatencyP50 | Metric::LatencyMax => (figure(row, row.median), String::new()),
        _ => (format!("{} M/s", millions(&row.summary())), String::new()),
    };
    vec![goal.what.to_owned(), short_count(row.subject.keys), how, (goal.paper)(row), here, note]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::row::Subject;
    use crate::stats::Summary;
    use scalebricks_console::{Console, Interrupt};

    #[test]
    fn rows_of_other_parts_are_found() {
        let (options, console, interrupt) = (Options::default(), Console::new(true), Interrupt::default());
        let mut session = Session::new("concise", &options, &console, &interrupt);
        let subject = Subject {
            format: Some("sharded"),
            variant: Some("beside 500 k updates a second".to_owned()),
            value_bits: Some(2),
            ..session.subject("othello", 1_000_000)
        };
        session.add(subject.clone(), Metric::Loss, Summary::exact(2.5));
        let hashed = Subject { variant: Some(HASHED.to_owned()), ..subject.clone() };
        session.add(hashed.clone(), Metric::LookupRate, Summary::exact(3e8));
        session.add(Subject { keys: 10, ..hashed }, Metric::LookupRate, Summary::exact(3e8));
        session.add(Subject { structure: "setsep".to_owned(), ..subject }, Metric::Loss, Summary::exact(9.0));
        run(&mut session).unwrap();
        let (_, exhibits) = session.finish();
        let rows = &exhibits.sheets[0].rows;
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert!(rows[0][4].starts_with("300 M/s") && rows[1][5].contains("within the goal"), "{rows:?}");
    }
}

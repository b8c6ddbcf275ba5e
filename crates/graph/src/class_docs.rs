//! Documentation of element classes, as Markdown.

use crate::spec::{Access, PortArity, PortKind, PortSpec, RUN_COUNTERS, RUN_DROPS, Spec};
use std::fmt::{self, Display, Formatter};

/// A page about classes, each list in the given order.
#[derive(Debug)]
pub struct Page<'a> {
    /// Classes that configurations name.
    pub classes: &'a [&'static Spec],
    /// Classes that only programs create.
    pub program_only: &'a [&'static Spec],
}

impl Display for Page<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Elements\n")?;
        writeln!(f, "Every element counts:\n")?;
        let counters = RUN_COUNTERS.iter().map(|counter| (counter.name, counter.doc));
        table(f, ["counter", "meaning"], counters.map(|(name, doc)| [format!("`{name}`"), doc.to_owned()]))?;
        writeln!(
            f,
            "\nThe runner drops packets for these reasons, counted at the element that sent them:\n"
        )?;
        let drops = RUN_DROPS.iter().map(|drop| [format!("`{}`", drop.name), drop.doc.to_owned()]);
        table(f, ["reason", "meaning"], drops)?;
        self.classes.iter().try_for_each(|spec| write!(f, "\n{}", Section(spec)))?;
        if self.program_only.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n# Elements of programs\n\nPrograms wire these; configurations cannot name them.")?;
        self.program_only.iter().try_for_each(|spec| write!(f, "\n{}", Section(spec)))
    }
}

/// The section about one class.
#[derive(Debug)]
pub struct Section(pub &'static Spec);

impl Display for Section {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let spec = self.0;
        writeln!(f, "## {}\n", spec.class)?;
        writeln!(f, "{}", lines(spec.doc))?;
        if !spec.example.is_empty() {
            writeln!(f, "\nExample: `{}({})`.", spec.class, spec.example.join(", "))?;
        }
        for (side, ports) in [("input", spec.inputs), ("output", spec.outputs)] {
            let port = |(at, port): (usize, &PortSpec)| {
                [number(at, port.many), port.name.to_owned(), flow(port.flow).to_owned(), port.doc.to_owned()]
            };
            section(f, [side, "name", "packets are", "meaning"], ports.iter().enumerate().map(port))?;
        }
        let params = spec.params.iter().map(|param| {
            let default =
                param.default.map_or_else(|| "required".to_owned(), |default| format!("`{default}`"));
            [
                format!("`{}`", param.name.to_ascii_uppercase()),
                param.kind.to_owned(),
                default,
                lines(param.doc),
            ]
        });
        section(f, ["parameter", "type", "default", "meaning"], params)?;
        let reads = spec.reads.iter().map(|column| {
            [column.name.to_owned(), "reads".to_owned(), column.on.unwrap_or("all inputs").to_owned()]
        });
        let writes = spec.writes.iter().map(|column| {
            [column.name.to_owned(), "writes".to_owned(), column.on.unwrap_or("all outputs").to_owned()]
        });
        section(f, ["column", "access", "where"], reads.chain(writes))?;
        let drops = spec.drops.iter().map(|drop| [format!("`{}`", drop.name), drop.doc.to_owned()]);
        section(f, ["drop reason", "meaning"], drops)?;
        let counters =
            spec.counters.iter().map(|counter| [format!("`{}`", counter.name), counter.doc.to_owned()]);
        section(f, ["counter", "meaning"], counters)?;
        let handlers = spec.handlers.iter().map(|handler| {
            let access = match handler.access {
                Access::Read => "read",
                Access::Write => "write",
            };
            [format!("`{}`", handler.name), access.to_owned(), handler.doc.to_owned()]
        });
        section(f, ["handler", "access", "meaning"], handlers)
    }
}

const fn flow(flow: PortKind) -> &'static str {
    match flow {
        PortKind::Push => "pushed",
        PortKind::Pull => "pulled",
        PortKind::Agnostic => "pushed or pulled",
    }
}

fn number(at: usize, many: PortArity) -> String {
    match many {
        PortArity::One => at.to_string(),
        PortArity::Optional => format!("{at}, optional"),
        PortArity::OneOrMore => format!("{at} and more"),
        PortArity::ZeroOrMore => format!("{at} and more, optional"),
    }
}

/// Joins the lines of a comment.
fn lines(doc: &[&str]) -> String {
    let lines: Vec<&str> = doc.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

/// A table after an empty line, if it has rows.
fn section<const N: usize>(
    f: &mut Formatter<'_>,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> fmt::Result {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    writeln!(f)?;
    table(f, head, rows)
}

fn table<const N: usize>(
    f: &mut Formatter<'_>,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> fmt::Result {
    writeln!(f, "| {} |", head.join(" | "))?;
    writeln!(f, "|{}", "---|".repeat(N))?;
    rows.map(|row| row.map(|cell| cell.replace('|', "\\|")))
        .try_for_each(|row| writeln!(f, "| {} |", row.join(" | ")))
}

#[cfg(test)]
mod tests {
    #![allow(dead_code, reason = "what the sample declares is only printed")]

    use super::*;
    use crate::column::Column;

    #[derive(Clone, Copy)]
    struct Label;
    impl Column for Label {
        const NAME: &'static str = "label";
        const POISON: Self = Self;
    }

    crate::element! {
        /// Does this
        /// and that.
        struct Sample as "Sample" {}
        inputs { push "in": "All.", }
        outputs { agnostic "good" [Optional]: "Some.", pull "bad" [OneOrMore]: "Others.", }
        params SampleParams {
            /// How many
            /// of them.
            count: u8 = 3,
            /// Which.
            which: String,
        }
        example { "3", "a", }
        reads { Label, }
        writes { Label on "good", }
        drops { BAD = "bad": "Bad | worse.", }
        counters { SEEN = "seen": "Seen.", }
        handlers { read COUNT = "count": "How many.", write SET = "count": "Sets it.", }
    }

    #[test]
    fn a_section_lists_all_that_the_class_declares() {
        let Sample {} = Sample {};
        let expected = "\
## Sample

Does this and that.

Example: `Sample(3, a)`.

| input | name | packets are | meaning |
|---|---|---|---|
| 0 | in | pushed | All. |

| output | name | packets are | meaning |
|---|---|---|---|
| 0, optional | good | pushed or pulled | Some. |
| 1 and more | bad | pulled | Others. |

| parameter | type | default | meaning |
|---|---|---|---|
| `COUNT` | a number below 256 | `3` | How many of them. |
| `WHICH` | text | required | Which. |

| column | access | where |
|---|---|---|
| label | reads | all inputs |
| label | writes | good |

| drop reason | meaning |
|---|---|
| `bad` | Bad \\| worse. |

| counter | meaning |
|---|---|
| `seen` | Seen. |

| handler | access | meaning |
|---|---|---|
| `count` | read | How many. |
| `count` | write | Sets it. |
";
        assert_eq!(Section(Sample::SPEC).to_string(), expected);
        let page = Page { classes: &[Sample::SPEC], program_only: &[] }.to_string();
        assert!(
            page.ends_with(expected) && page.contains("| `graph_loop` |") && page.contains("| `packets` |")
        );
    }
}

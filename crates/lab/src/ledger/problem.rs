//! The errors of packets, one line per kind of error.

use super::frame::FrameError;
use scalebricks_elements::gateway::{DropReason, OutputPort};
use scalebricks_types::NodeId;
use std::fmt;
use std::mem::discriminant;

/// Kinds of problems that are described. Problems of further kinds are only counted.
pub const MAX_KINDS: usize = 16;

/// Packets named per kind.
const MAX_PACKETS: usize = 5;

/// An error in a packet's path or content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Violation {
    #[error("left at {seen}, not at {expected}")]
    Node { expected: NodeId, seen: NodeId },
    #[error("left at the {seen:?} port, not at the {expected:?} port")]
    Port { expected: OutputPort, seen: OutputPort },
    #[error("was never seen again")]
    Lost,
    #[error("left more than once")]
    Twice,
    #[error("was dropped more than once, last as {0}")]
    DroppedTwice(DropReason),
    #[error("left and was dropped as {0}")]
    LeftAndDropped(DropReason),
    #[error("was dropped as {0}, which nothing in it calls for")]
    WronglyDropped(DropReason),
    #[error("left, but should have been dropped: {0}")]
    ShouldHaveBeenDropped(&'static str),
    #[error("was never put in")]
    Unknown,
    #[error("was answered with ICMP, but not dropped as {}", DropReason::FragmentationNeeded)]
    AnsweredOnly,
    #[error("only some of its fragments left")]
    FragmentMissing,
    #[error("left changed: {0}")]
    Frame(#[from] FrameError),
}

impl Violation {
    /// Whether both are reported in one line: the same kind and reason, with any values.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::DroppedTwice(a), Self::DroppedTwice(b))
            | (Self::LeftAndDropped(a), Self::LeftAndDropped(b))
            | (Self::WronglyDropped(a), Self::WronglyDropped(b)) => a == b,
            (Self::ShouldHaveBeenDropped(a), Self::ShouldHaveBeenDropped(b)) => a == b,
            (Self::Frame(a), Self::Frame(b)) => discriminant(a) == discriminant(b),
            _ => discriminant(self) == discriminant(other),
        }
    }
}

/// One kind of problem.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Problem {
    /// That of the packet with the lowest number.
    violation: Violation,
    count: u64,
    /// The lowest numbers of its packets, ascending.
    packets: Vec<u64>,
}

impl Problem {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        if other.packets.first() < self.packets.first() {
            self.violation = other.violation;
        }
        self.packets.extend_from_slice(&other.packets);
        self.packets.sort_unstable();
        self.packets.dedup();
        self.packets.truncate(MAX_PACKETS);
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, more)) = self.packets.split_first() else { return Ok(()) };
        write!(f, "packet {first} {}", self.violation)?;
        let others = self.count - 1;
        if others == 0 {
            return Ok(());
        }
        write!(f, "; {others} more like it")?;
        for (n, packet) in more.iter().enumerate() {
            write!(f, "{} {packet}", if n == 0 { ": packet" } else { "," })?;
        }
        if (more.len() as u64) < others && !more.is_empty() { f.write_str(", …") } else { Ok(()) }
    }
}

/// All problems of a run. Their text does not depend on the order in which they are added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    kinds: Vec<Problem>,
    /// Problems of kinds that are not listed.
    unlisted: u64,
}

impl Problems {
    /// Whether there are none.
    #[cfg(test)]
    pub const fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// One line per kind, in the order of their first packets.
    pub fn lines(&self) -> Vec<String> {
        let mut kinds: Vec<&Problem> = self.kinds.iter().collect();
        kinds.sort_by_key(|problem| problem.packets.first());
        let mut lines: Vec<String> = kinds.iter().map(ToString::to_string).collect();
        if self.unlisted > 0 {
            lines.push(format!("{} more problems of other kinds", self.unlisted));
        }
        lines
    }

    /// Adds all problems of another part of the run.
    pub fn merge(&mut self, other: &Self) {
        other.kinds.iter().for_each(|problem| self.add_problem(problem));
        self.unlisted += other.unlisted;
    }

    /// Adds a problem of a packet.
    pub(super) fn add(&mut self, packet: u64, violation: &Violation) {
        self.add_problem(&Problem { violation: *violation, count: 1, packets: vec![packet] });
    }

    fn add_problem(&mut self, problem: &Problem) {
        if let Some(known) = self.kinds.iter_mut().find(|known| known.violation.is_like(&problem.violation)) {
            known.add(problem);
        } else if self.kinds.len() < MAX_KINDS {
            self.kinds.push(problem.clone());
        } else {
            self.unlisted += problem.count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(problems: &[(u64, Violation)]) -> Problems {
        let mut all = Problems::default();
        for (packet, violation) in problems {
            all.add(*packet, violation);
        }
        all
    }

    #[test]
    fn one_line_per_kind_names_the_first_packets() {
        let dropped = Violation::WronglyDropped(DropReason::ForThisNode);
        let numbers = [31_704, 31_706, 31_698, 31_697, 31_699, 31_703, 31_705];
        let problems = all(&numbers.map(|number| (number, dropped)));
        assert_eq!(
            problems.lines(),
            ["packet 31697 was dropped as for_this_node, which nothing in it calls for; \
              6 more like it: packet 31698, 31699, 31703, 31704, …"]
        );
        let few = all(&[(9, Violation::Lost), (4, Violation::Lost), (1, Violation::Twice)]);
        let lines =
            ["packet 1 left more than once", "packet 4 was never seen again; 1 more like it: packet 9"];
        assert_eq!(few.lines(), lines);
        let again = all(&[(3, Violation::Twice), (3, Violation::Twice)]);
        assert_eq!(again.lines(), ["packet 3 left more than once; 1 more like it"]);
    }

    #[test]
    fn kinds_differ_by_reason_but_not_by_value() {
        let teid = |teid| Violation::Frame(FrameError::Teid(teid));
        let problems = all(&[(2, teid(7)), (1, teid(8)), (3, Violation::Frame(FrameError::Inner))]);
        assert_eq!(problems.lines().len(), 2);
        assert!(
            problems.lines()[0].contains("TEID 0x00000008"),
            "of the first packet: {:?}",
            problems.lines()
        );
        let reasons = [DropReason::NonIp, DropReason::Truncated, DropReason::NonIp];
        assert_eq!(all(&reasons.map(|reason| (1, Violation::WronglyDropped(reason)))).lines().len(), 2);
    }

    #[test]
    fn text_is_independent_of_order_and_parts_and_kinds_are_bounded() {
        let some: Vec<(u64, Violation)> = DropReason::ALL
            .iter()
            .zip(1..)
            .map(|(reason, n)| (n, Violation::WronglyDropped(*reason)))
            .collect();
        let listed = &some[..MAX_KINDS];
        let mut backwards = listed.to_vec();
        backwards.reverse();
        assert_eq!(all(listed).lines(), all(&backwards).lines());
        let mut parts = all(&listed[7..]);
        parts.merge(&all(&listed[..9]));
        assert_eq!(parts.lines().len(), MAX_KINDS);
        assert!(parts.lines()[7].contains("1 more like it"), "{:?}", parts.lines());
        let lines = all(&some).lines();
        assert_eq!(lines.len(), MAX_KINDS + 1);
        assert_eq!(lines[MAX_KINDS], format!("{} more problems of other kinds", some.len() - MAX_KINDS));
    }
}

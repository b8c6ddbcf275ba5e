//! Rules of the firewall.
//!
//! ```text
//! rules  = { rule ( newline | ";" ) }
//! rule   = [ "inside" | "outside" ] ( "allow" | "deny" | "reject" ) [ filter ]   # a comment
//! ```
//!
//! A rule is about flows that begin inside, outside, or, without a side, at either. The first rule that matches a flow's
//! first packet decides. Without one, flows from inside are allowed and flows from outside denied. Filters are those of
//! [`filter`](crate::filter); one without text matches all packets.

use crate::filter::{Expression, Packet, Program};
use scalebricks_wire::IpPacket;
use std::fmt;

/// Most rules.
pub const MOST_RULES: usize = 10_000;

/// Longest text of rules, bytes.
pub const MOST_BYTES: usize = 1 << 20;

/// One of the two sides of the firewall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Side {
    /// The protected networks: input 0.
    #[default]
    Inside,
    /// All others: input 1.
    Outside,
}

impl Side {
    /// Its input.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The other side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Inside => Self::Outside,
            Self::Outside => Self::Inside,
        }
    }
}

/// What happens to a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// It begins.
    Allow,
    /// Its packets are dropped.
    Deny,
    /// Its packets go to the element that answers them with an error.
    Reject,
}

/// What decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decision {
    /// What happens.
    pub action: Action,
    /// The rule, from 0; behind the last rule, the default of inside and that of outside.
    pub rule: u16,
}

/// Why a text has no valid rules: `2:9: expected …`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {problem}")]
pub struct RuleError {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in bytes.
    pub column: usize,
    /// What is wrong.
    pub problem: RuleProblem,
}

/// What is wrong with a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleProblem {
    /// The action is missing or unknown.
    #[error("expected `allow`, `deny` or `reject`, not `{0}`")]
    Action(String),
    /// The filter is wrong.
    #[error("{0}")]
    Filter(crate::filter::Problem),
    /// There are too many rules.
    #[error("more than {MOST_RULES} rules")]
    TooMany,
    /// The text is too long.
    #[error("more than {MOST_BYTES} bytes of rules")]
    TooLong,
    /// The filters of one side need too many comparisons.
    #[error("{0}")]
    Program(#[from] crate::filter::TooLong),
}

#[derive(Debug, Clone)]
struct Rule {
    from: Option<Side>,
    action: Action,
    filter: Expression,
    text: String,
}

/// The rules of one side, for one IP version.
#[derive(Debug, Clone)]
struct Compiled {
    v4: Program,
    v6: Program,
    /// The number of each filter's rule.
    numbers: Vec<u16>,
}

/// An ordered list of rules.
#[derive(Debug, Clone)]
pub struct Rules {
    rules: Vec<Rule>,
    /// By side.
    sides: [Compiled; 2],
}

impl Rules {
    /// Reads rules.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        Self::of([text])
    }

    /// Reads several texts. The line in an error is the number of the text, if each has one line.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, RuleError> {
        let (mut rules, mut number, mut bytes) = (Vec::new(), 0, 0);
        for line in texts.into_iter().flat_map(str::lines) {
            number += 1;
            bytes += line.len() + 1;
            let at_line = |column, problem| RuleError { line: number, column, problem };
            if bytes > MOST_BYTES {
                return Err(at_line(1, RuleProblem::TooLong));
            }
            let code = line.split_once('#').map_or(line, |(code, _)| code);
            let mut at = 0;
            for part in code.split(';') {
                if let Some(rule) = rule(part).map_err(|(offset, what)| at_line(at + offset + 1, what))? {
                    if rules.len() == MOST_RULES {
                        return Err(at_line(at + 1, RuleProblem::TooMany));
                    }
                    rules.push(rule);
                }
                at += part.len() + 1;
            }
        }
        Self::compiled(rules)
    }

    /// These rules and, behind them, others.
    ///
    /// # Errors
    /// [`RuleError`] if there are too many.
    pub fn followed_by(&self, others: Self) -> Result<Self, RuleError> {
        let rules: Vec<Rule> = self.rules.iter().cloned().chain(others.rules).collect();
        if rules.len() > MOST_RULES {
            return Err(RuleError { line: 1, column: 1, problem: RuleProblem::TooMany });
        }
        Self::compiled(rules)
    }

    fn compiled(rules: Vec<Rule>) -> Result<Self, RuleError> {
        let whole =
            |problem: crate::filter::TooLong| RuleError { line: 1, column: 1, problem: problem.into() };
        let of = |side| compile(&rules, side).map_err(whole);
        let sides = [of(Side::Inside)?, of(Side::Outside)?];
        Ok(Self { rules, sides })
    }

    /// The decision about a flow that begins at `side` with this packet, which is whole.
    ///
    /// Cost: at most one comparison per primitive of the side's rules.
    pub fn decide(&self, side: Side, packet: &IpPacket<'_>) -> Decision {
        let compiled = &self.sides[side.index()];
        let (bytes, transport) = (packet.bytes(), packet.l4());
        let first = if packet.summary.is_ipv4() {
            compiled.v4.first(Packet { header: bytes, transport })
        } else {
            let mut header = [0; 40];
            if let Some(fixed) = bytes.first_chunk() {
                header = *fixed;
            }
            header[6] = packet.summary.protocol;
            compiled.v6.first(Packet { header: &header, transport })
        };
        match first.and_then(|first| compiled.numbers.get(first)) {
            Some(rule) => Decision { action: self.rules[usize::from(*rule)].action, rule: *rule },
            None => self.default_of(side),
        }
    }

    fn default_of(&self, side: Side) -> Decision {
        let action = if side == Side::Inside { Action::Allow } else { Action::Deny };
        Decision { action, rule: (self.rules.len() + side.index()) as u16 } // below MOST_RULES + 2
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are only the defaults.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The texts of all rules and the two defaults, by number.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let defaults = ["inside allow (default)", "outside deny (default)"];
        self.rules.iter().map(|rule| rule.text.as_str()).chain(defaults)
    }
}

impl fmt::Display for Rules {
    /// One rule per line, without comments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rules.iter().try_for_each(|rule| writeln!(f, "{}", rule.text))
    }
}

/// The rules of a side.
fn compile(rules: &[Rule], side: Side) -> Result<Compiled, crate::filter::TooLong> {
    let own = |rule: &&Rule| rule.from.is_none_or(|from| from == side);
    let filters: Vec<Expression> = rules.iter().filter(own).map(|rule| rule.filter.clone()).collect();
    let numbers = rules.iter().zip(0..).filter(|(rule, _)| own(rule)).map(|(_, number)| number).collect();
    Ok(Compiled { v4: Program::new(&filters)?, v6: Program::for_ipv6(&filters)?, numbers })
}

/// Cuts the first word off, and returns it with its offset.
fn word<'a>(text: &'a str, at: &mut usize) -> (usize, &'a str) {
    let rest = text.get(*at..).unwrap_or_default();
    let start = *at + rest.len() - rest.trim_start().len();
    let rest = text.get(start..).unwrap_or_default();
    let end = start + rest.find(char::is_whitespace).unwrap_or(rest.len());
    *at = end;
    (start, text.get(start..end).unwrap_or_default())
}

/// A rule, or nothing in an empty text. Errors have an offset.
fn rule(text: &str) -> Result<Option<Rule>, (usize, RuleProblem)> {
    let mut at = 0;
    let (mut start, mut first) = word(text, &mut at);
    if first.is_empty() {
        return Ok(None);
    }
    let from = match first {
        "inside" => Some(Side::Inside),
        "outside" => Some(Side::Outside),
        _ => None,
    };
    if from.is_some() {
        (start, first) = word(text, &mut at);
    }
    let action = match first {
        "allow" => Action::Allow,
        "deny" => Action::Deny,
        "reject" => Action::Reject,
        other => return Err((start, RuleProblem::Action(other.to_owned()))),
    };
    let filter = text.get(at..).unwrap_or_default();
    let pattern = if filter.trim().is_empty() { "all" } else { filter };
    let filter =
        Expression::parse(pattern).map_err(|error| (at + error.at, RuleProblem::Filter(error.problem)))?;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(Some(Rule { from, action, filter, text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_line_and_column() {
        let refused = |text: &str| Rules::parse(text).unwrap_err().to_string();
        assert_eq!(
            refused("allow tcp\n\n  outside permit udp"),
            "3:11: expected `allow`, `deny` or `reject`, not `permit`"
        );
        assert_eq!(refused("outside"), "1:8: expected `allow`, `deny` or `reject`, not ``");
        assert_eq!(refused("deny udp; allow port x # why"), "1:22: expected a port number behind `port`");
        assert_eq!(refused(&"allow\n".repeat(MOST_RULES + 1)), "10001:1: more than 10000 rules");
        assert_eq!(refused(&" ".repeat(MOST_BYTES)), "1:1: more than 1048576 bytes of rules");
        let many = (0..700).map(|at| {
            format!(
                "allow {}\n",
                (0..100)
                    .map(|port| format!("port {}", 100 * at % 65_000 + port))
                    .collect::<Vec<_>>()
                    .join(" or ")
            )
        });
        assert_eq!(refused(&many.collect::<String>()), "1:1: the filters need more than 65536 comparisons");
    }

    #[test]
    fn rules_are_shown_without_comments() {
        let rules = Rules::parse("# all\n inside  deny udp # no\n\nallow;reject tcp opt syn").unwrap();
        assert_eq!(rules.to_string(), "inside deny udp\nallow\nreject tcp opt syn\n");
        assert_eq!((rules.len(), rules.texts().count()), (3, 5));
        assert!(Rules::parse("").unwrap().is_empty());
    }
}

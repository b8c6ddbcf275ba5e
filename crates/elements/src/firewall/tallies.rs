//! Counters per rule.

use super::rules::Rules;
use std::collections::HashMap;
use std::fmt::Write;

/// What a rule has decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Packets of its flows, or packets that it denied.
    pub(crate) packets: u64,
    /// Octets of these IP packets.
    pub(crate) bytes: u64,
    /// Flows that it allowed.
    pub(crate) flows: u64,
}

/// A counter per rule, the two defaults, and flows that go on although the rules deny them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tallies(Vec<Tally>);

impl Tallies {
    pub(crate) fn new(rules: &Rules) -> Self {
        Self(vec![Tally::default(); rules.len() + 3])
    }

    /// The number of flows that go on although the rules deny them.
    pub(crate) fn kept(&self) -> u16 {
        (self.0.len() - 1) as u16 // below MOST_RULES + 3
    }

    pub(crate) fn packet(&mut self, rule: u16, bytes: u64) {
        if let Some(tally) = self.0.get_mut(usize::from(rule)) {
            tally.packets += 1;
            tally.bytes += bytes;
        }
    }

    pub(crate) fn flow(&mut self, rule: u16) {
        if let Some(tally) = self.0.get_mut(usize::from(rule)) {
            tally.flows += 1;
        }
    }

    /// Goes on with the counters of equal rules among others.
    pub(crate) fn succeed(&mut self, own: &Rules, before: &Self, of: &Rules) {
        let mut old: HashMap<&str, Vec<Tally>> = HashMap::new();
        for (text, tally) in of.texts().zip(&before.0) {
            old.entry(text).or_default().insert(0, *tally);
        }
        for (text, tally) in own.texts().zip(&mut self.0) {
            if let Some(before) = old.get_mut(text).and_then(Vec::pop) {
                *tally = before;
            }
        }
        if let (Some(own), Some(before)) = (self.0.last_mut(), before.0.last()) {
            *own = *before;
        }
    }

    /// A line per rule: number, packets, bytes, flows, and the rule.
    pub(crate) fn render(&self, rules: &Rules) -> String {
        let mut out = String::new();
        for ((number, text), tally) in
            rules.texts().chain(["kept (denied by later rules)"]).enumerate().zip(&self.0)
        {
            let Tally { packets, bytes, flows } = tally;
            let _ = writeln!(out, "{number}\t{packets}\t{bytes}\t{flows}\t{text}");
        }
        out.truncate(out.trim_end().len());
        out
    }
}

//! Batches of calls: each call is judged on its own.

use super::Partition;
use super::effects::{Effects, Void};
use super::plan::{Plan, gpt_ops};
use super::requests::CallState;
use super::verdict::{Judged, Verdict};
use crate::record::{Call, CallId};
use scalebricks_types::Delta;
use std::collections::HashSet;

/// A call that is executed, and its changes that do nothing.
struct Executed {
    id: CallId,
    voids: Vec<(u32, Void)>,
    /// The call finds no room.
    is_void: bool,
    /// The number of its first change in the entry.
    first: u32,
}

impl Partition {
    /// Executes the calls that are new, and returns the verdicts of all.
    pub(super) fn calls(&mut self, calls: Vec<Call>) -> Effects {
        let (mut new, mut judged, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        let mut first = 0;
        for call in calls {
            let changes = call.changes.len() as u32; // an entry has fewer
            if seen.insert(call.id) {
                match self.requests.admit(call.id, call.oldest) {
                    CallState::New => new.push((first, call)),
                    CallState::Known(verdict) => judged.push((call.id, verdict)),
                    CallState::Forgotten(why) => judged.push((call.id, Verdict::void(self.position, why))),
                }
            }
            first += changes;
        }
        let (plan, executed, gpt) = self.fit(&new);
        let mut effects = self.carry_out(plan, gpt);
        effects.calls = judged;
        for Executed { id, voids, is_void, first } in executed {
            effects.voids.extend(voids.iter().map(|(number, why)| (first + number, *why)));
            let verdict = if is_void {
                Verdict::void(self.position, Void::NoRoom)
            } else {
                Verdict::done(self.position, voids)
            };
            self.requests.judged(id, verdict.clone());
            effects.calls.push(Judged::from((id, verdict)));
        }
        effects
    }

    /// Plans all calls that find room, and gives the GPT their bits. Together if they all do, which costs least; else one after the
    /// other, and each that finds none is left out.
    fn fit(&mut self, calls: &[(u32, Call)]) -> (Plan, Vec<Executed>, Option<Delta>) {
        let mut plan = Plan::default();
        let planned = calls.iter().map(|(first, call)| {
            let voids = self.plan(&mut plan, &call.changes);
            Executed { id: call.id, voids, is_void: false, first: *first }
        });
        let executed = planned.collect();
        match self.gpt.batch_to(self.position, &gpt_ops(plan.steps())) {
            Ok(gpt) => (plan, executed, gpt),
            Err(_) => self.fit_each(calls),
        }
    }

    fn fit_each(&mut self, calls: &[(u32, Call)]) -> (Plan, Vec<Executed>, Option<Delta>) {
        let (mut plan, mut executed) = (Plan::default(), Vec::new());
        let before = self.gpt.position(self.id).unwrap_or_default();
        for (first, call) in calls {
            let (len, closures) = (plan.steps().len(), plan.closures.clone());
            let mut voids = self.plan(&mut plan, &call.changes);
            let is_void = self.gpt.step_to(self.position, &gpt_ops(&plan.steps()[len..])).is_err();
            if is_void {
                plan.take_back(len);
                plan.closures = closures;
                voids.clear();
            }
            executed.push(Executed { id: call.id, voids, is_void, first: *first });
        }
        // Batches of one position have no deltas that follow each other: all bits go out.
        let has_moved = self.gpt.position(self.id).is_some_and(|at| at > before);
        let whole = self.gpt.export_partition(self.id).filter(|_| has_moved);
        (plan, executed, whole.map(|whole| Delta { previous: before, ..whole }))
    }
}

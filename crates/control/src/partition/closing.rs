//! Closed tenures in a partition's log: keys that are pinned in one go to the heirs of their flows, and so do those that a later
//! entry pins there, as it was accepted before the tenure was closed.

use super::plan::{Plan, Step};
use super::{Partition, Void};
use crate::record::{Closure, Closures, Session};
use scalebricks_types::{FlowKey, KeyHash};

impl Partition {
    /// The tenures of nodes that the log has closed.
    pub const fn closures(&self) -> &Closures {
        &self.closures
    }

    /// A session at the node that its pin leads to, by the log and the entry so far.
    pub(super) fn led(&self, plan: &Plan, session: Session) -> Session {
        let closures = plan.closures.as_ref().unwrap_or(&self.closures);
        let pin = closures.lead(session.flow(), (session.node, session.epoch), |heir| self.is_node(heir));
        session.at(pin)
    }

    /// Plans the closure of a tenure, in the order of hashes.
    ///
    /// Cost: visits all keys of the partition, if any is pinned to the node, and a hash per heir for each key that moves.
    pub(super) fn plan_close(&self, plan: &mut Plan, closure: &Closure) -> Result<(), Void> {
        if !closure.heirs.nodes().iter().any(|&heir| self.is_node(heir)) {
            return Err(Void::NoSuchNode);
        }
        let closures = plan.closures.get_or_insert_with(|| self.closures.clone());
        if !closures.add(closure.clone()) {
            return Err(Void::Applied);
        }
        for (hash, key, session) in self.pinned_in(plan, closure) {
            let after = Some(self.led(plan, session));
            plan.add(Step { key, hash, before: Some(session), after });
        }
        Ok(())
    }

    /// The keys that are pinned in a tenure, by the log and the entry so far, in the order of their hashes.
    fn pinned_in(&self, plan: &Plan, closure: &Closure) -> Vec<(KeyHash, FlowKey, Session)> {
        let is_in = |session: &Session| session.node == closure.node && session.epoch < closure.epoch;
        let mut pinned = Vec::new();
        if self.keys_of(closure.node) > 0 {
            let held = self.sessions.iter().filter(|held| is_in(&held.session));
            let untouched = held.filter(|held| !plan.has_touched(held.hash));
            pinned.extend(untouched.map(|held| (held.hash, held.key, held.session)));
        }
        let newest = plan.newest_of_each().filter_map(|step| Some((step.hash, step.key, step.after?)));
        pinned.extend(newest.filter(|(.., session)| is_in(session)));
        pinned.sort_unstable_by_key(|(hash, ..)| hash.get());
        pinned
    }
}

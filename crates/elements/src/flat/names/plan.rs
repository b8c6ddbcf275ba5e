//! Reduces a change to one step per name, before anything is changed.

use super::super::action::{Action, ActionId, MAX_ACTIONS};
use super::super::name::FlatName;
use super::{NameError, NameOp, NameTable};
use scalebricks_types::KeyHash;
use std::collections::{HashMap, HashSet};

/// The change of one name.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: FlatName,
    pub(super) hash: KeyHash,
    pub(super) before: Option<ActionId>,
    pub(super) after: Option<Action>,
}

/// Steps for distinct names, each of which changes something.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// Number of actions not yet in use.
    pub(super) new_actions: usize,
}

/// The plan for operations executed in order.
pub(super) fn of_ops(table: &NameTable, ops: &[NameOp]) -> Result<Plan, NameError> {
    // Each name's action after the operations so far, and the last operation about it.
    let mut after: HashMap<&FlatName, (Option<Action>, usize)> = HashMap::with_capacity(ops.len());
    for (op, change) in ops.iter().enumerate() {
        let name = change.name();
        let now = after.get(name).map_or_else(|| table.get(name), |&(action, _)| action);
        let action = match *change {
            NameOp::Add(..) if now.is_some() => return Err(NameError::Exists { op }),
            NameOp::Alter(..) | NameOp::Remove(_) if now.is_none() => return Err(NameError::Missing { op }),
            NameOp::Add(_, action) | NameOp::Alter(_, action) => Some(action),
            NameOp::Remove(_) => None,
        };
        check(table, op, name, action)?;
        after.insert(name, (action, op));
    }
    let mut steps: Vec<(usize, Step)> =
        after.into_iter().filter_map(|(name, (action, op))| Some((op, step(table, name, action)?))).collect();
    // Map order is arbitrary; sorting makes equal operations build equal tables.
    steps.sort_unstable_by_key(|(op, _)| *op);
    finish(table, steps)
}

/// The plan that changes the table to a list.
pub(super) fn of_list(table: &NameTable, list: &[(FlatName, Action)]) -> Result<Plan, NameError> {
    let mut listed: HashSet<&FlatName> = HashSet::with_capacity(list.len());
    let mut steps = Vec::new();
    for (op, (name, action)) in list.iter().enumerate() {
        if !listed.insert(name) {
            return Err(NameError::Exists { op });
        }
        check(table, op, name, Some(*action))?;
        steps.extend(step(table, name, Some(*action)).map(|step| (op, step)));
    }
    let gone = table.names.keys().filter(|name| !listed.contains(name));
    let mut gone: Vec<Step> = gone.filter_map(|name| step(table, name, None)).collect();
    gone.sort_unstable_by_key(|step| step.hash);
    steps.extend(gone.into_iter().map(|step| (list.len(), step)));
    finish(table, steps)
}

fn check(table: &NameTable, op: usize, name: &FlatName, action: Option<Action>) -> Result<(), NameError> {
    let config = &table.config;
    if !name.is_of(config.kind) {
        return Err(NameError::Kind { op, kind: config.kind.word() });
    }
    let in_port = match name {
        FlatName::Tuple(tuple) => tuple.in_port(),
        _ => None,
    };
    let ports = action.and_then(|action| action.port()).into_iter().chain(in_port);
    match ports.into_iter().find(|port| port.index() >= config.ports) {
        Some(port) => Err(NameError::NoSuchPort { op, port, ports: config.ports }),
        None => Ok(()),
    }
}

/// The step for a name; `None` if it does not change.
fn step(table: &NameTable, name: &FlatName, after: Option<Action>) -> Option<Step> {
    let before = table.names.get(name).copied();
    let now = before.and_then(|id| table.interner.action(id));
    (now != after).then(|| Step { name: name.clone(), hash: name.hash(&table.config.hasher), before, after })
}

/// Checks that no two names have the same hash, and that there are enough IDs.
fn finish(table: &NameTable, steps: Vec<(usize, Step)>) -> Result<Plan, NameError> {
    let mut hashes = HashSet::new();
    let mut uses: HashMap<ActionId, u64> = HashMap::new();
    let mut new: HashSet<Action> = HashSet::new();
    let mut kept: HashSet<Action> = HashSet::new();
    for (op, step) in &steps {
        if step.before.is_none() && (table.control.get(step.hash).is_some() || !hashes.insert(step.hash)) {
            return Err(NameError::Collision { op: *op });
        }
        if let Some(id) = step.before {
            *uses.entry(id).or_default() += 1;
        }
        if let Some(action) = step.after {
            if table.interner.has(&action) {
                kept.insert(action)
            } else {
                new.insert(action)
            };
        }
    }
    let gone = uses.iter().filter(|&(&id, &names)| {
        table.interner.names(id) == names
            && table.interner.action(id).is_some_and(|action| !kept.contains(&action))
    });
    let actions = table.interner.live() + new.len() - gone.count();
    if actions > MAX_ACTIONS {
        return Err(NameError::TooManyActions(actions));
    }
    Ok(Plan { steps: steps.into_iter().map(|(_, step)| step).collect(), new_actions: new.len() })
}

//! The newest conditions of a node, shared between threads.

use super::machine::Condition;
use scalebricks_admin::model::ReasonView;
use scalebricks_control::membership::Unfitness;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Why a node is unfit, as last observed.
#[derive(Debug, Default)]
pub struct HealthView(Mutex<Arc<[Condition]>>);

impl HealthView {
    /// Why the node is unfit now.
    pub fn conditions(&self) -> Arc<[Condition]> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner)) // replaced whole
    }

    /// Replaces the conditions, and logs the differences.
    pub fn set(&self, conditions: Vec<Condition>) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_in = |reason: Unfitness, list: &[Condition]| list.iter().any(|one| one.reason == reason);
        for came in conditions.iter().filter(|one| !is_in(one.reason, &held)) {
            tracing::warn!(reason = came.reason.name(), "the node is unfit: {}", came.detail);
        }
        for gone in held.iter().filter(|one| !is_in(one.reason, &conditions)) {
            tracing::info!(reason = gone.reason.name(), "no longer a reason to be unfit: {}", gone.detail);
        }
        if **held != *conditions {
            *held = conditions.into();
        }
    }

    /// The conditions for the admin interface. `now` is the time since the process's start.
    pub fn reasons(&self, now: Duration) -> Vec<ReasonView> {
        let view = |one: &Condition| ReasonView {
            reason: one.reason.name().to_owned(),
            meaning: one.reason.meaning().to_owned(),
            since_s: Some(now.saturating_sub(one.since).as_secs_f64()),
            detail: one.detail.clone(),
        };
        self.conditions().iter().map(view).collect()
    }
}

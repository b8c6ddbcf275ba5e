//! How many flows fit in the memory of a cluster: measured by filling the real tables, and by the paper's formula.

use crate::demo::config::{CAPACITY_BUDGET_BYTES, DemoConfig};
use crate::demo::report::result::FlowCapacity;
use scalebricks_apps::gateway::Architecture;
use scalebricks_apps::gateway::FlowTablesError;
use scalebricks_apps::gateway::flow_tables::capacity::{capacity, capacity_by_formula};

/// Fills the tables of one architecture until a node's 16 MiB are used. Takes a second or so.
///
/// # Errors
/// [`FlowTablesError`] if the tables could not be made at all.
pub fn measure(config: &DemoConfig, architecture: Architecture) -> Result<FlowCapacity, FlowTablesError> {
    let filled = capacity(&config.layout(architecture), CAPACITY_BUDGET_BYTES)?;
    let formula = capacity_by_formula(architecture, config.size, CAPACITY_BUDGET_BYTES);
    #[expect(clippy::cast_sign_loss, reason = "a count of flows is not negative")]
    Ok(FlowCapacity { measured: filled.flows, formula: formula as u64 })
}

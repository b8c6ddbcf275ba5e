//! Requests and answers of a switch, as JSON.

use crate::model::NodeState;
use scalebricks_apps::switch::PortCounts;
use scalebricks_apps::switch::counts::counters;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

/// Counters of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortView {
    /// Its name.
    pub name: String,
    /// The counters of its elements.
    #[serde(flatten)]
    pub counters: PortCounters,
    /// Frames dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
}

impl PortView {
    /// The counters of the port with this name.
    pub fn new(name: &str, counts: &PortCounts) -> Self {
        Self {
            name: name.to_owned(),
            counters: PortCounters(owned(counts.counters())),
            dropped: owned(counts.drops()),
        }
    }
}

fn owned<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> BTreeMap<String, u64> {
    counts.map(|(name, count)| (name.to_owned(), count)).collect()
}

/// The counters of a port's elements, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounters(BTreeMap<String, u64>);

impl PortCounters {
    /// A counter by its name; 0 if it does not exist.
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }
}

impl PartialSchema for PortCounters {
    fn schema() -> RefOr<Schema> {
        let counter = || {
            ObjectBuilder::new()
                .schema_type(Type::Integer)
                .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
                .minimum(Some(0))
        };
        let object = counters().fold(ObjectBuilder::new(), |object, spec| {
            object.property(spec.name, counter().description(Some(spec.doc))).required(spec.name)
        });
        object.into()
    }
}

impl ToSchema for PortCounters {}

/// Status of a switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SwitchView {
    /// The program's version.
    pub version: String,
    /// The kind of names.
    pub kind: String,
    /// Its state.
    pub state: NodeState,
    /// Whether it forwards and has all its names.
    pub is_ready: bool,
    /// Seconds since its start.
    pub uptime_s: f64,
    /// The source of names: `file` or `log`.
    pub source: String,
    /// The last applied entry of the log, if names come from a log.
    pub position: Option<u64>,
    /// Why the log cannot be read now, if so; the switch uses the names read before.
    pub fault: Option<String>,
    /// How often all names were read again because the log had lost applied entries.
    #[serde(default)]
    pub log_reloads: u64,
    /// Number of names.
    pub names: u64,
    /// Number of different actions.
    pub actions: u64,
    /// Bits of an action's number in a slot.
    pub value_bits: u8,
    /// Bits of a checksum in a slot.
    pub check_bits: u8,
    /// Memory for lookups, bytes.
    pub table_bytes: u64,
    /// Memory of the control side without the names, bytes.
    pub control_bytes: u64,
    /// How often the table was reshaped.
    pub reshaped: u64,
    /// Frames dropped because their VLAN is none of the ports of their device.
    pub other_vlan: u64,
    /// Counters of its ports.
    pub ports: Vec<PortView>,
}

/// An operation on a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Add the name.
    Add,
    /// Change its action.
    Alter,
    /// Remove the name.
    Remove,
}

/// A change of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeView {
    /// The operation.
    pub op: Change,
    /// The name.
    pub name: String,
    /// The action, unless the name is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}

/// The result of changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedView {
    /// Number of added names.
    pub added: u64,
    /// Number of names whose action changed.
    pub altered: u64,
    /// Number of removed names.
    pub removed: u64,
    /// The position in the log, if names come from a log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
}

/// A name to look up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LookupView {
    /// The name.
    pub name: String,
}

/// The result of looking up a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundView {
    /// The name in the switch's notation.
    pub name: String,
    /// Its action, if the switch has the name.
    pub action: Option<String>,
    /// The answer of the table, which decides how frames are forwarded.
    pub answer: Option<String>,
    /// Whether the table detects that it does not hold the name.
    pub is_alien: bool,
}

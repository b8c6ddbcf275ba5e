//! What a switch says of itself, as JSON.

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
    /// What its elements count.
    #[serde(flatten)]
    pub counters: PortCounters,
    /// Frames dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
}

impl PortView {
    /// The counters of a port of this name.
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

/// The counters that the elements of a port declare, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounters(BTreeMap<String, u64>);

impl PortCounters {
    /// A counter; 0 if there is none of that name.
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

/// What a switch is, and how it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SwitchView {
    /// The program's version.
    pub version: String,
    /// What names are.
    pub kind: String,
    /// What it is at.
    pub state: NodeState,
    /// Whether it forwards by all its names.
    pub is_ready: bool,
    /// Time since it started.
    pub uptime_s: f64,
    /// Where names come from: `file` or `log`.
    pub source: String,
    /// The log's entry that was applied last, if names come from a log.
    pub position: Option<u64>,
    /// Why the log cannot be read now, if it cannot; frames go by the names read before.
    pub fault: Option<String>,
    /// How often all names were read again, as the log had lost entries that were applied.
    #[serde(default)]
    pub log_reloads: u64,
    /// Names.
    pub names: u64,
    /// Different actions of names.
    pub actions: u64,
    /// Bits of an action's number in a slot.
    pub value_bits: u8,
    /// Bits of a checksum in a slot.
    pub check_bits: u8,
    /// Memory that lookups may touch.
    pub table_bytes: u64,
    /// Memory of the control side, names apart.
    pub control_bytes: u64,
    /// How often the table was given another shape.
    pub reshaped: u64,
    /// Frames dropped as they were of none of the VLANs of a device's ports.
    pub other_vlan: u64,
    /// Counters of its ports.
    pub ports: Vec<PortView>,
}

/// What is done with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It is added.
    Add,
    /// It gets another action.
    Alter,
    /// It is taken out.
    Remove,
}

/// A change, as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeView {
    /// What is done.
    pub op: Change,
    /// With which name.
    pub name: String,
    /// The action, unless it is taken out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}

/// What changes did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedView {
    /// Names that were not there.
    pub added: u64,
    /// Names with another action than before.
    pub altered: u64,
    /// Names that are gone.
    pub removed: u64,
    /// Where in the log, if names come from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
}

/// A name that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LookupView {
    /// The name.
    pub name: String,
}

/// What becomes of frames with a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundView {
    /// The name, as the switch writes it.
    pub name: String,
    /// Its action, if it is a name of the switch.
    pub action: Option<String>,
    /// What the table answers, by which frames are forwarded.
    pub answer: Option<String>,
    /// Whether the table knows that it is none of its names.
    pub is_alien: bool,
}

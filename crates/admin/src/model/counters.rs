//! The data plane's counters as JSON, with their schema. The fields are those of
//! [`COUNTERS`](scalebricks_apps::gateway::counters::COUNTERS).

use scalebricks_apps::gateway::NodeStats;
use scalebricks_apps::gateway::counters::{COUNTERS, CounterSpec};
use scalebricks_elements::gateway::DropReason;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

/// The data plane's counters, in packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCounters {
    /// In the order of [`COUNTERS`].
    values: [u64; COUNTERS.len()],
    /// Dropped packets, by reason; all reasons are present.
    pub dropped: BTreeMap<String, u64>,
}

/// Name and description of the field of drops.
const DROPPED: (&str, &str) = ("dropped", "Dropped packets, by reason; all reasons are present.");

impl Default for NodeCounters {
    fn default() -> Self {
        Self { values: [0; COUNTERS.len()], dropped: BTreeMap::new() }
    }
}

impl NodeCounters {
    /// All counters except drops.
    pub fn iter(&self) -> impl Iterator<Item = (&'static CounterSpec, u64)> + '_ {
        COUNTERS.iter().zip(self.values)
    }

    /// A counter by its name; 0 if it does not exist.
    pub fn get(&self, name: &str) -> u64 {
        self.iter().find(|(spec, _)| spec.name == name).map_or(0, |(_, value)| value)
    }

    /// The sum of all drops.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.values().sum()
    }
}

impl From<&NodeStats> for NodeCounters {
    fn from(stats: &NodeStats) -> Self {
        let mut values = [0; COUNTERS.len()];
        values.iter_mut().zip(stats.counters()).for_each(|(to, (_, value))| *to = value);
        let count = |&reason: &DropReason| (reason.name().to_owned(), stats.dropped.get(reason));
        Self { values, dropped: DropReason::ALL.iter().map(count).collect() }
    }
}

impl Serialize for NodeCounters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(COUNTERS.len() + 1))?;
        for (spec, value) in self.iter() {
            map.serialize_entry(spec.name, &value)?;
        }
        map.serialize_entry(DROPPED.0, &self.dropped)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for NodeCounters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Other fields may come from a newer version.
        #[derive(Deserialize)]
        struct Fields {
            dropped: BTreeMap<String, u64>,
            #[serde(flatten)]
            others: BTreeMap<String, serde_json::Value>,
        }
        let Fields { dropped, others } = Fields::deserialize(deserializer)?;
        let mut values = [0; COUNTERS.len()];
        for (value, spec) in values.iter_mut().zip(COUNTERS) {
            let field = others.get(spec.name).and_then(serde_json::Value::as_u64);
            *value = field.ok_or_else(|| serde::de::Error::missing_field(spec.name))?;
        }
        Ok(Self { values, dropped })
    }
}

/// A count.
fn integer() -> ObjectBuilder {
    let format = SchemaFormat::KnownFormat(KnownFormat::Int64);
    ObjectBuilder::new().schema_type(Type::Integer).format(Some(format)).minimum(Some(0))
}

impl PartialSchema for NodeCounters {
    fn schema() -> RefOr<Schema> {
        let mut all = ObjectBuilder::new().description(Some("The data plane's counters, in packets."));
        for spec in COUNTERS {
            all = all.property(spec.name, integer().description(Some(spec.doc))).required(spec.name);
        }
        let names = ObjectBuilder::new().schema_type(Type::String);
        let dropped = ObjectBuilder::new()
            .description(Some(DROPPED.1))
            .property_names(Some(names))
            .additional_properties(Some(integer()));
        all.property(DROPPED.0, dropped).required(DROPPED.0).into()
    }
}

impl ToSchema for NodeCounters {}

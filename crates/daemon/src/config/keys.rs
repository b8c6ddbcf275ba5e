//! The description of a file as a tree of keys, made from the schema of its sections.

use super::forms::{FORMS, Form, TEXT};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// Replacements of a wrong value that are tried: as many as the longest list of names has, or more.
pub(super) const CANDIDATES: usize = 4;

/// A key, or the whole file.
pub(super) struct Key {
    pub kind: Kind,
    /// Its documentation.
    #[cfg_attr(not(test), expect(dead_code, reason = "only in the reference, which a test writes"))]
    pub meaning: String,
    /// Its default; `None` if it has none, or if it depends on other keys.
    #[cfg_attr(not(test), expect(dead_code, reason = "only in the reference, which a test writes"))]
    pub default: Option<Value>,
    pub is_required: bool,
    /// Whether messages must not show its value.
    pub is_hidden: bool,
    /// Right values as TOML, [`CANDIDATES`] different ones if there are as many.
    pub candidates: Vec<String>,
}

/// What a value is.
pub(super) enum Kind {
    Table(BTreeMap<String, Key>),
    /// Values, or sections if they are tables.
    Array(Box<Key>),
    Bool,
    /// An integer: the smallest, the largest.
    Integer(i128, i128),
    /// A number: the smallest, the largest.
    Float(f64, f64),
    /// One of these names.
    Name(Vec<String>),
    Text(&'static Form),
    /// A place of a secret.
    Secret,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(_) => f.write_str("a section"),
            Self::Array(item) if matches!(item.kind, Self::Table(_)) => f.write_str("sections"),
            Self::Array(item) => write!(f, "a list, each {}", item.kind),
            Self::Bool => f.write_str("true or false"),
            Self::Integer(..) => write!(f, "an integer, {}", self.range()),
            Self::Float(..) => write!(f, "a number with a decimal point, {}", self.range()),
            Self::Name(names) => f.write_str(&one_of(names)),
            Self::Text(form) => f.write_str(form.what),
            Self::Secret => f.write_str("{ file = \"PATH\" } or { env = \"NAME\" }"),
        }
    }
}

impl Kind {
    /// The range of a number.
    pub(super) fn range(&self) -> String {
        match *self {
            Self::Integer(least, most) if most >= i128::from(u32::MAX) => format!("{least} or more"),
            Self::Integer(least, most) => format!("{least} to {most}"),
            Self::Float(least, most) => format!("{least} to {most}"),
            _ => String::new(),
        }
    }
}

/// `a, b or c`.
fn one_of(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    match &names[..] {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        names => names.join(""),
    }
}

impl Key {
    /// The keys of a file with these sections.
    pub(super) fn of<S: JsonSchema>() -> Self {
        let mut settings = SchemaSettings::draft2020_12();
        settings.inline_subschemas = true;
        let schema = settings.into_generator().into_root_schema_for::<S>();
        Self::new(schema.as_object().unwrap_or(&Map::new()), true)
    }

    fn new(schema: &Map<String, Value>, is_required: bool) -> Self {
        let schema = without_null(schema);
        let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
        let kind = kind(&schema);
        let given = schema.get("examples").and_then(Value::as_array);
        let candidates = match given {
            Some(examples) => examples.iter().map(Value::to_string).collect(),
            None => (0..CANDIDATES).map(|n| kind.candidate(n)).collect(),
        };
        Self {
            meaning: text("description").replace('\n', " "),
            default: schema.get("default").cloned(),
            is_required,
            is_hidden: schema.get("writeOnly").is_some() || matches!(kind, Kind::Secret),
            kind,
            candidates,
        }
    }
}

/// The schema of the value of an optional key.
fn without_null(schema: &Map<String, Value>) -> Map<String, Value> {
    let mut schema = schema.clone();
    let null = serde_json::json!({ "type": "null" });
    if let Some(Value::Array(any)) = schema.remove("anyOf") {
        for other in any.into_iter().filter(|other| *other != null) {
            let Value::Object(other) = other else { continue };
            for (name, value) in other {
                schema.entry(name).or_insert(value);
            }
        }
    }
    if let Some(Value::Array(types)) = schema.get("type").cloned() {
        let rest = types.into_iter().find(|other| other != "null");
        schema.insert("type".to_owned(), rest.unwrap_or_default());
    }
    schema
}

fn kind(schema: &Map<String, Value>) -> Kind {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    let names = names(schema);
    match schema.get("type").and_then(Value::as_str).unwrap_or_default() {
        _ if !names.is_empty() => Kind::Name(names),
        "object" if format == "secret" => Kind::Secret,
        "object" => {
            let required = schema.get("required").and_then(Value::as_array);
            let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|other| other == name));
            let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
            let fields = fields.filter_map(|(name, field)| {
                Some((name.clone(), Key::new(field.as_object()?, is_required(name))))
            });
            Kind::Table(fields.collect())
        }
        "array" => {
            let item = schema.get("items").and_then(Value::as_object).cloned().unwrap_or_default();
            Kind::Array(Box::new(Key::new(&item, true)))
        }
        "boolean" => Kind::Bool,
        "integer" => {
            let bound = |name| schema.get(name).and_then(integer);
            let most = match format {
                "uint8" => u8::MAX.into(),
                "uint16" => u16::MAX.into(),
                "uint32" => u32::MAX.into(),
                _ => i64::MAX.into(), // of TOML
            };
            Kind::Integer(bound("minimum").unwrap_or(0), bound("maximum").unwrap_or(most))
        }
        "number" => {
            let bound = |name| schema.get(name).and_then(Value::as_f64);
            Kind::Float(bound("minimum").unwrap_or(f64::MIN), bound("maximum").unwrap_or(f64::MAX))
        }
        _ => Kind::Text(FORMS.iter().find(|form| form.name == format).unwrap_or(&TEXT)),
    }
}

fn integer(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

/// The names of an enumeration: those without documentation are in `enum`, the others in `oneOf`.
fn names(schema: &Map<String, Value>) -> Vec<String> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let of = |schema: &Value| [list(schema.get("enum")), schema.get("const").cloned().into_iter().collect()];
    let all = list(schema.get("oneOf")).iter().flat_map(of).flatten().collect::<Vec<_>>();
    let all = list(schema.get("enum")).into_iter().chain(all);
    all.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

impl Kind {
    /// A right value as TOML, for each number another one, if there are as many.
    fn candidate(&self, n: usize) -> String {
        let quoted = |text: String| Value::String(text).to_string();
        match self {
            Self::Table(keys) => {
                let required = keys.iter().filter(|(_, key)| key.is_required);
                let fields = required.map(|(name, key)| format!("{name} = {}", key.candidate(n)));
                format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
            }
            Self::Array(_) => "[]".to_owned(),
            Self::Bool => n.is_multiple_of(2).to_string(),
            Self::Integer(least, most) => {
                // From both ends.
                let step = (n / 2) as i128;
                let value = if n.is_multiple_of(2) { most - step } else { least + step };
                value.clamp(*least, *most).to_string()
            }
            Self::Float(least, most) => format!("{:?}", if n.is_multiple_of(2) { least } else { most }),
            Self::Name(names) => quoted(names[n % names.len()].clone()),
            Self::Text(form) => quoted((form.candidate)(n)),
            Self::Secret => "{ file = \"x\" }".to_owned(),
        }
    }
}

impl Key {
    /// A right value as TOML, for each number another one, if there are as many.
    pub(super) fn candidate(&self, n: usize) -> &str {
        self.candidates.get(n % self.candidates.len().max(1)).map_or("false", String::as_str)
    }
}

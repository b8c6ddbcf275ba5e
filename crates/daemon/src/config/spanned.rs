//! A value, and its place in the text.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use std::borrow::Cow;
use std::ops::Range;

/// A value, and its place in the text: [`toml::Spanned`] with the schema of the value.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct Spanned<T>(toml::Spanned<T>);

impl<T> Spanned<T> {
    /// The place in the text.
    pub(crate) fn span(&self) -> Range<usize> {
        self.0.span()
    }

    /// The value.
    pub(crate) fn get_ref(&self) -> &T {
        self.0.get_ref()
    }

    /// The value.
    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: JsonSchema> JsonSchema for Spanned<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

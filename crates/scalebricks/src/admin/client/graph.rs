//! Asks a run of a graph of elements.

use super::{Client, ClientError};
use crate::admin::model::{ElementView, GraphView, HandlerValue, ReplacedView};
use hyper::Method;
use hyper::body::Bytes;
use std::fmt::Write;

/// Text as part of a path or a query: everything but letters, digits and `-._~` as `%` and two digits.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut all, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            all.push(char::from(byte));
        } else {
            let _never_fails = write!(all, "%{byte:02X}");
        }
        all
    })
}

fn handler_path(element: &str, handler: &str) -> String {
    format!("/v1/graph/{}/{}", encoded(element), encoded(handler))
}

impl Client {
    /// The elements of a graph, and what they have counted.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn graph(&self) -> Result<GraphView, ClientError> {
        self.json(Method::GET, "/v1/graph", Bytes::new())
    }

    /// An element, with its handlers.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn element(&self, name: &str) -> Result<ElementView, ClientError> {
        self.json(Method::GET, &format!("/v1/graph/{}", encoded(name)), Bytes::new())
    }

    /// What a read handler answers.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn read_handler(&self, element: &str, handler: &str, parameter: &str) -> Result<String, ClientError> {
        let mut path = handler_path(element, handler);
        if !parameter.is_empty() {
            path = format!("{path}?parameter={}", encoded(parameter));
        }
        self.json(Method::GET, &path, Bytes::new()).map(|HandlerValue { value }| value)
    }

    /// Gives a write handler a value.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn write_handler(&self, element: &str, handler: &str, value: &str) -> Result<(), ClientError> {
        let body = self.body(&HandlerValue { value: value.to_owned() })?;
        let taken = self.json::<HandlerValue>(Method::PUT, &handler_path(element, handler), body);
        taken.map(drop)
    }

    /// Has another configuration run; `file` is what its faults call it. Without a text, the file is read again that the run
    /// was started with.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn replace_graph(&self, with: Option<(&str, Vec<u8>)>) -> Result<ReplacedView, ClientError> {
        match with {
            None => self.json(Method::POST, "/v1/graph", Bytes::new()),
            Some((file, text)) => {
                let path = format!("/v1/graph?file={}", encoded(file));
                self.json_of(Method::PUT, &path, "text/plain", text.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_byte_by_byte() {
        assert_eq!(handler_path("a/b@3", "é?"), "/v1/graph/a%2Fb%403/%C3%A9%3F");
    }
}

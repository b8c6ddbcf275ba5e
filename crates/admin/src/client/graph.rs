//! Requests about a graph of elements.

use super::{Client, ClientError, JSON, encoded};
use crate::model::{ElementView, GraphView, HandlerAnswer, HandlerValue, ReplacedView};
use hyper::Method;
use hyper::body::Bytes;

fn handler_path(element: &str, handler: &str) -> String {
    format!("/v1/graph/{}/{}", encoded(element), encoded(handler))
}

/// The query with the given options.
fn query(worker: Option<usize>, parameter: &str) -> String {
    let worker = worker.map(|worker| format!("worker={worker}"));
    let parameter = (!parameter.is_empty()).then(|| format!("parameter={}", encoded(parameter)));
    let options: Vec<String> = worker.into_iter().chain(parameter).collect();
    if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) }
}

impl Client {
    /// The elements of a graph with their counters, on one worker or summed over all.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn graph(&self, worker: Option<usize>) -> Result<GraphView, ClientError> {
        self.get(&format!("/v1/graph{}", query(worker, "")))
    }

    /// An element, with its handlers.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn element(&self, name: &str, worker: Option<usize>) -> Result<ElementView, ClientError> {
        self.get(&format!("/v1/graph/{}{}", encoded(name), query(worker, "")))
    }

    /// Reads a handler.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn read_handler(
        &self,
        element: &str,
        handler: &str,
        parameter: &str,
        worker: Option<usize>,
    ) -> Result<HandlerAnswer, ClientError> {
        self.get(&format!("{}{}", handler_path(element, handler), query(worker, parameter)))
    }

    /// Writes a handler.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn write_handler(&self, element: &str, handler: &str, value: &str) -> Result<(), ClientError> {
        let body = self.body(&HandlerValue { value: value.to_owned() })?;
        let taken = self.json::<HandlerValue>(Method::PUT, &handler_path(element, handler), JSON, body);
        taken.map(drop)
    }

    /// Replaces the configuration by a text with a name for errors, or by the current content of the run's file.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn replace_graph(&self, with: Option<(&str, Vec<u8>)>) -> Result<ReplacedView, ClientError> {
        match with {
            None => self.json(Method::POST, "/v1/graph", JSON, Bytes::new()),
            Some((file, text)) => {
                let path = format!("/v1/graph?file={}", encoded(file));
                self.json(Method::PUT, &path, "text/plain", text.into())
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
        assert_eq!(
            (query(None, ""), query(Some(3), "a b")),
            (String::new(), "?worker=3&parameter=a%20b".into())
        );
    }
}

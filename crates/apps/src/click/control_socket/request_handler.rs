//! Serves a router's handlers to one client, by the names that clients use: `element.handler`, `number.handler`, or a
//! global handler.

use super::protocol::{Code, Handlers, Refusal};
use crate::directory::{Directory, RequestError};
use std::sync::Arc;

/// What a client may access.
#[derive(Debug)]
pub(super) struct RequestHandler {
    pub(super) directory: Arc<Directory>,
    pub(super) is_readonly: bool,
}

/// Translates an error to the protocol; `name` is the client's name for the handler.
fn refusal(name: &str, refused: &RequestError) -> Refusal {
    match refused {
        RequestError::NoElement(element) => {
            Refusal::new(Code::NoElement, format!("No element named '{element}'"))
        }
        RequestError::NoHandler { .. } => no_handler(name),
        RequestError::WriteOnly(_) => permission(name, "write-only"),
        RequestError::ReadOnly(_) => permission(name, "read-only"),
        _ => Refusal::new(Code::Handler, refused.to_string()),
    }
}

fn no_handler(name: &str) -> Refusal {
    Refusal::new(Code::NoHandler, format!("No handler named '{name}'"))
}

fn permission(name: &str, what: &str) -> Refusal {
    Refusal::new(Code::Permission, format!("Handler '{name}' {what}"))
}

/// The element and handler of a name; a global handler has no element.
fn parts(name: &str) -> (Option<&str>, &str) {
    match name.split_once('.') {
        Some(("" | "0", handler)) => (None, handler),
        Some((element, handler)) => (Some(element), handler),
        None => (None, name),
    }
}

/// The client's text, or an error if it is not UTF-8.
fn text(bytes: &[u8], what: &str) -> Result<String, Refusal> {
    let text = String::from_utf8(bytes.to_vec());
    text.map_err(|_| Refusal::new(Code::Handler, format!("the {what} not UTF-8")))
}

impl Handlers for RequestHandler {
    fn read(&mut self, name: &str, parameters: &[u8]) -> Result<Vec<u8>, Refusal> {
        let (element, handler) = parts(name);
        let Some(element) = element else {
            let known = self.directory.known();
            return known.global(handler).map(Into::into).ok_or_else(|| no_handler(name));
        };
        let answer = self.directory.read(element, handler, &text(parameters, "parameters are")?, None);
        answer.map(|answer| answer.text.into_bytes()).map_err(|refused| refusal(name, &refused))
    }

    fn write(&mut self, name: &str, data: &[u8]) -> Result<Option<String>, Refusal> {
        let (element, handler) = parts(name);
        let Some(element) = element else {
            let is_global = self.directory.known().global(handler).is_some();
            return Err(if is_global { permission(name, "read-only") } else { no_handler(name) });
        };
        if self.is_readonly && self.access(element, handler).is_ok_and(|(_, writes)| writes) {
            return Err(Refusal::new(Code::Permission, format!("Permission denied for '{name}'")));
        }
        let written = self.directory.write(element, handler, &text(data, "data is")?);
        written.map(|()| None).map_err(|refused| refusal(name, &refused))
    }

    fn check(&mut self, name: &str, is_write: bool) -> Result<(), Refusal> {
        let (element, handler) = parts(name);
        let (reads, writes) = match element {
            Some(element) => self.access(element, handler).map_err(|refused| refusal(name, &refused))?,
            None if self.directory.known().global(handler).is_some() => (true, false),
            None => return Err(no_handler(name)),
        };
        match (is_write, reads, writes) {
            (true, _, true) if self.is_readonly => {
                Err(Refusal::new(Code::Permission, format!("Permission denied for '{name}'")))
            }
            (true, _, true) | (false, true, _) => Ok(()),
            (true, ..) => Err(Refusal::new(Code::NoHandler, format!("Handler '{name}' not writable"))),
            (false, ..) => Err(Refusal::new(Code::NoHandler, format!("Handler '{name}' not readable"))),
        }
    }
}

impl RequestHandler {
    fn access(&self, element: &str, handler: &str) -> Result<(bool, bool), RequestError> {
        self.directory.known().element(element)?.access(handler)
    }
}

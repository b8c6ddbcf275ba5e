//! Asks a running switch.

use crate::client::{Client, ClientError};
use crate::model::switch::{ChangeView, ChangedView, FoundView, LookupView, SwitchView};
use hyper::Method;
use hyper::body::Bytes;
use std::io;

impl Client {
    /// What a switch is, and how it is.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn switch(&self) -> Result<SwitchView, ClientError> {
        self.get("/v1/switch")
    }

    /// Has names of a switch changed, one after another: all, or none.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn change_names(&self, changes: &[ChangeView]) -> Result<ChangedView, ClientError> {
        self.post("/v1/switch/names", &changes)
    }

    /// What becomes of frames with a name.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn look_name_up(&self, name: &str) -> Result<FoundView, ClientError> {
        self.post("/v1/switch/lookup", &LookupView { name: name.to_owned() })
    }

    /// All names of a switch as a file has them, handed to the sink as they come.
    ///
    /// # Errors
    /// [`ClientError`]; [`ClientError::Local`] for what the sink said.
    pub fn names(&self, sink: impl FnMut(&[u8]) -> io::Result<bool>) -> Result<(), ClientError> {
        self.stream(Method::GET, "/v1/switch/names", Bytes::new(), sink).map(drop)
    }
}

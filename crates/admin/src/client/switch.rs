//! Requests about a switch.

use crate::client::{Client, ClientError};
use crate::model::switch::{ChangeView, ChangedView, FoundView, LookupView, SwitchView};
use hyper::Method;
use hyper::body::Bytes;
use std::io;

impl Client {
    /// The status of a switch.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn switch(&self) -> Result<SwitchView, ClientError> {
        self.get("/v1/switch")
    }

    /// Changes names one after another: all, or none.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn change_names(&self, changes: &[ChangeView]) -> Result<ChangedView, ClientError> {
        self.post("/v1/switch/names", &changes)
    }

    /// The action for frames with a name.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn look_name_up(&self, name: &str) -> Result<FoundView, ClientError> {
        self.post("/v1/switch/lookup", &LookupView { name: name.to_owned() })
    }

    /// Passes all names, in the format of a names file, to the sink as they arrive.
    ///
    /// # Errors
    /// [`ClientError`]; [`ClientError::Local`] for errors of the sink.
    pub fn names(&self, sink: impl FnMut(&[u8]) -> io::Result<bool>) -> Result<(), ClientError> {
        self.stream(Method::GET, "/v1/switch/names", Bytes::new(), sink).map(drop)
    }
}

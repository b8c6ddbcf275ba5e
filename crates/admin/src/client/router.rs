//! Requests about a node of a cluster router.

use crate::client::{Client, ClientError};
use crate::model::router::{LinkView, NextHopView, RouterView, RoutesRequest, RoutesView};

impl Client {
    /// The status of a node.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn router(&self) -> Result<RouterView, ClientError> {
        self.get("/v1/router")
    }

    /// Routes, by prefix.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn routes(&self, asked: &RoutesRequest) -> Result<RoutesView, ClientError> {
        self.post("/v1/router/routes", asked)
    }

    /// The next hops of a node.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn next_hops(&self) -> Result<Vec<NextHopView>, ClientError> {
        self.get("/v1/router/next-hops")
    }

    /// The links of a node.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn links(&self) -> Result<Vec<LinkView>, ClientError> {
        self.get("/v1/router/links")
    }
}

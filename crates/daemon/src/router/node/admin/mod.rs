//! The admin interface of a running node: HTTP over its unix socket, optionally over TLS with a token, and its client
//! commands.

pub mod args;
mod commands;
mod routes;

pub use commands::{links, next_hops, routes, status};
pub use routes::openapi;

use super::running::Running;
use scalebricks_admin::server::{AdminServer, ServerError};
use std::sync::Arc;

/// Starts the admin server of a node.
///
/// # Errors
/// [`ServerError`].
pub fn serve(router: &Arc<Running>) -> Result<AdminServer, ServerError> {
    let listen = router.configuration.admin();
    let (router, limits) = (Arc::clone(router), listen.limits);
    AdminServer::serve(&listen, move || routes::router(Arc::clone(&router), limits))
}

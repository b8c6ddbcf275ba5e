//! The admin interface of a running switch: HTTP over its unix socket, optionally over TLS with a token, and its client
//! commands.

pub mod args;
mod commands;
mod routes;

pub use commands::{names, status};
pub use routes::openapi;

use super::running::Running;
use scalebricks_admin::server::{AdminServer, ServerError};
use std::sync::Arc;

/// Starts the admin server of a switch.
///
/// # Errors
/// [`ServerError`].
pub fn serve(switch: &Arc<Running>) -> Result<AdminServer, ServerError> {
    let listen = switch.configuration.admin();
    let (switch, limits) = (Arc::clone(switch), listen.limits);
    AdminServer::serve(&listen, move || routes::router(Arc::clone(&switch), limits))
}

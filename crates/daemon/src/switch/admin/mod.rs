//! The admin interface of a running switch: HTTP over its unix socket, optionally over TLS with a token, and its client
//! commands.

pub mod args;
mod commands;
mod routes;

pub use commands::{names, status};
pub use routes::openapi;

use super::load::Configuration;
use super::running::Running;
use scalebricks_admin::server::{AdminServer, Limits, Listen, ServerError};
use std::sync::Arc;

/// Bytes of a request: some thousands of changes.
const BODY_BYTES: usize = 1 << 20;

/// Starts to answer on the switch's socket, and at its address.
///
/// # Errors
/// [`ServerError`].
pub fn serve(switch: &Arc<Running>) -> Result<AdminServer, ServerError> {
    let listen = listen(&switch.configuration);
    let (switch, limits) = (Arc::clone(switch), listen.limits);
    AdminServer::serve(&listen, move || routes::router(Arc::clone(&switch), limits))
}

/// Where a switch answers; files are found beside its configuration.
pub(super) fn listen(configuration: &Configuration) -> Listen {
    let limits = Limits { body_bytes: BODY_BYTES, ..Limits::default() };
    let file = &configuration.file;
    let tcp = file.admin_tcp.as_ref().map(|tcp| tcp.at(|file| configuration.beside(file)));
    Listen { socket: configuration.beside(&file.admin), tcp, limits }
}

//! An engine in a process of its own: a server that serves any [`Engine`] over a socket of this machine, and a client that
//! is one.
//!
//! Processes that share a log on one machine need somebody who keeps it and outlives each of them. [`serve`] does that for
//! any engine; [`RemoteEngine`] is what the others hold. The form of the bytes is in [`codec`], the reasons are in
//! `docs/adr/0016-engine-process.md`.
//!
//! ```text
//! callers ─▶ commands ─▶ session ═══ socket ═══ connection ─▶ engine
//!    ▲                      │                       │
//!    └── replies, mailboxes ┘                       └── requests under way, streams with credit
//! ```
//!
//! **Pipelined.** Each call has a number, and answers come in any order, so one connection carries as many appends at once
//! as there are callers.
//!
//! **Bounded.** A stream sends only as many bytes as its reader has given it credit for, so that one who does not read holds
//! up nobody, neither at the server nor at the client. Requests are read from a connection only while few enough are under
//! way, see [`ServerOptions`].
//!
//! **Lost connections.** The client connects again by itself. Calls that were under way end in
//! [`AppendError::Unknown`](scalebricks_control::engine::AppendError::Unknown), [`SwapError::Unknown`] or `Unavailable`, since
//! nobody knows what became of them. Calls that come while there is no connection wait for one, for
//! [`ClientOptions::wait`]. Streams go on where they were: entries at the next position, records with what is newer and what
//! was deleted meanwhile; of messages some may be lost.
//!
//! **Hostile bytes** end in a typed error and a closed connection; nothing is reserved because a length says so. The socket
//! is protected by the rights of its file; a TCP port is open to all users of the machine.
//!
//! [`Engine`]: scalebricks_control::engine::Engine
//! [`SwapError::Unknown`]: scalebricks_control::engine::SwapError::Unknown

mod buffer;
mod client;
pub mod codec;
mod endpoint;
mod listener;
mod server;

pub use client::{ClientOptions, ConnectError, RemoteEngine};
pub use endpoint::{Endpoint, EndpointError};
pub use listener::{BindError, Listener};
pub use server::{Counts, Server, ServerOptions, serve};

use codec::Response;

/// What a message of a stream costs of its credit: its frame, if it is one that a reader has to fetch.
fn stream_cost(response: &Response, frame_len: usize) -> i64 {
    match response {
        Response::Entry { .. } | Response::Record { .. } | Response::Message { .. } => {
            i64::try_from(frame_len).unwrap_or(i64::MAX)
        }
        _ => 0,
    }
}

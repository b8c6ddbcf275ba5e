//! Click's `ControlSocket`: programs read and write handlers of a router that runs.
//!
//! | module | what it holds |
//! |---|---|
//! | [`protocol`] | the conversation, without sockets |
//! | `request_handler` | the handlers of a router for one client: those of the [directory](crate::directory) |
//! | `listen` | sockets, a thread for each and for each client |
//!
//! Bounds: 16 clients a socket, 64 KiB a line, 1 MiB of data, a second for the worker to answer.

mod listen;
pub mod protocol;
mod request_handler;

pub(super) use listen::Prepared;
pub use listen::{ControlServer, ListenAddress};

use scalebricks_click::{Declaration, Errors};
use scalebricks_graph::args::{ArgError, Args, Param};
use scalebricks_graph::{Spec, element};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Its arguments are wrong.
    #[error("in the configuration\n{0}")]
    Wrong(#[from] Errors),
    /// It cannot be listened to.
    #[error("control socket at {place}: {error}")]
    Listen {
        /// Where.
        place: ListenAddress,
        /// What the system says.
        error: io::Error,
    },
    /// A thread cannot be started.
    #[error("starting a thread: {0}")]
    Thread(io::Error),
}

element! {
    /// Listens for Click's control protocol, version 1.3, by which handlers are read and written:
    /// `ControlSocket(TCP, 7777)`, `ControlSocket(UNIX, /run/router.sock)`. A TCP port is that of the loopback address
    /// unless `LOCALHOST` is `false`.
    #[derive(Debug)]
    pub struct ControlSocket as "ControlSocket" {}
    params ControlSocketParams {
        /// `TCP` or `UNIX`.
        kind: String,
        /// The port, or the file of the socket.
        place: String,
        /// Whether writes are refused.
        readonly: bool = false,
        /// Whether a TCP port is listened to on the loopback address only. Click's default is `false`.
        localhost: bool = true,
        /// Not used.
        verbose: bool = false,
        /// Not used: a socket that cannot be opened ends the run.
        retries: u32 = 0,
        /// Not used.
        retry_warnings: bool = true,
    }
}

/// What a control socket is told.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Config {
    place: ListenAddress,
    is_readonly: bool,
}

/// Reads the arguments of an element.
fn config(texts: &[String]) -> Result<Config, ArgError> {
    let mut args = Args::new(texts, ControlSocket::SPEC)?;
    let params = <ControlSocketParams as scalebricks_graph::args::Params>::parse(&mut args)?;
    args.finish()?;
    let ControlSocketParams { kind, place, readonly: is_readonly, localhost, .. } = params;
    let place = match kind.to_ascii_uppercase().as_str() {
        "TCP" => {
            let port = u16::read(&place).ok_or(ArgError::Value {
                param: "place".to_owned(),
                text: place,
                kind: u16::KIND,
            })?;
            let address = if localhost { [127, 0, 0, 1] } else { [0, 0, 0, 0] };
            ListenAddress::Tcp(SocketAddr::from((address, port)))
        }
        "UNIX" => ListenAddress::Unix(PathBuf::from(place)),
        _ => return Err(ArgError::Refused(format!("{kind} is neither TCP nor UNIX"))),
    };
    Ok(Config { place, is_readonly })
}

/// What is wrong with the arguments of an element of this class.
pub(super) fn wrong_arguments(element: &Declaration, texts: &[String]) -> Option<ArgError> {
    if element.class == ControlSocket::SPEC.class { config(texts).err() } else { None }
}

/// What the class is.
pub(super) const SPEC: &Spec = ControlSocket::SPEC;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Result<Config, ArgError> {
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        config(&texts)
    }

    #[test]
    fn a_tcp_port_is_that_of_the_loopback_address_unless_told_otherwise() {
        let place = |texts: &[&str]| read(texts).unwrap().place.to_string();
        assert_eq!(place(&["TCP", "7777"]), "127.0.0.1:7777");
        assert_eq!(place(&["\"tcp\"", "7777", "LOCALHOST false"]), "0.0.0.0:7777");
        assert_eq!(place(&["unix", "/run/x.sock", "READONLY true"]), "/run/x.sock");
        assert!(read(&["unix", "/run/x.sock", "READONLY true"]).unwrap().is_readonly);
        for wrong in [&["TCP", "70000"][..], &["SCTP", "1"], &["TCP"], &["TCP", "1", "PROXY x"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}

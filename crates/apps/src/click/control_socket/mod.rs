//! Click's `ControlSocket`: programs read and write the handlers of a running router.
//!
//! | module | contents |
//! |---|---|
//! | [`protocol`] | the protocol, without sockets |
//! | `request_handler` | serves one client with the handlers of the [directory](crate::directory) |
//! | `listen` | sockets, with a thread for each and for each client |
//!
//! Limits: 16 clients per socket, 64 KiB per line, 1 MiB of data, one second for the worker to answer.

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

/// Why a control socket could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Its arguments are wrong.
    #[error("in the configuration\n{0}")]
    Wrong(#[from] Errors),
    /// Listening failed.
    #[error("control socket at {place}: {error}")]
    Listen {
        /// Its address.
        place: ListenAddress,
        /// The system's error.
        error: io::Error,
    },
    /// A thread cannot be started.
    #[error("starting a thread: {0}")]
    Thread(io::Error),
}

element! {
    /// Listens for Click's control protocol, version 1.3, which reads and writes handlers: `ControlSocket(TCP, 7777)`,
    /// `ControlSocket(UNIX, /run/router.sock)`. A TCP port is on the loopback address unless `LOCALHOST` is `false`.
    pub struct ControlSocket as "ControlSocket" {}
    params ControlSocketParams {
        /// `TCP` or `UNIX`.
        kind: String,
        /// The port, or the path of the socket.
        place: String,
        /// Whether writes are refused.
        readonly: bool = false,
        /// Whether a TCP port listens on the loopback address only. Click's default is `false`.
        localhost: bool = true,
        /// Not used.
        verbose: bool = false,
        /// Not used: a socket that cannot be opened ends the run.
        retries: u32 = 0,
        /// Not used.
        retry_warnings: bool = true,
    }
}

/// The configuration of a control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Config {
    place: ListenAddress,
    is_readonly: bool,
}

/// Parses the arguments of an element.
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

/// The error in the arguments of an element of this class, if any.
pub(super) fn wrong_arguments(element: &Declaration, texts: &[String]) -> Option<ArgError> {
    if element.class == ControlSocket::SPEC.class { config(texts).err() } else { None }
}

/// The class's specification.
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

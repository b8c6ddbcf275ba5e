//! Where an engine process listens: on this machine only.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Where an engine process is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket, reached from every network namespace of the machine: `unix:PATH`.
    Unix(PathBuf),
    /// A port of a loopback address: `tcp:127.0.0.1:PORT`, `tcp:[::1]:PORT`.
    Tcp(SocketAddr),
}

/// Why an endpoint is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Neither form.
    #[error("{0:?} is no endpoint: write unix:PATH, or tcp:127.0.0.1:PORT")]
    Form(String),
    /// A socket without a path.
    #[error("unix: without a path")]
    Path,
    /// An address that other machines reach.
    #[error(
        "{0} is no loopback address: an engine process serves the machine it runs on, without encryption or passwords. \
         For many machines there is the NATS JetStream engine"
    )]
    NotLoopback(SocketAddr),
}

impl Endpoint {
    /// Whether this machine alone reaches it.
    ///
    /// # Errors
    /// [`EndpointError::NotLoopback`], [`EndpointError::Path`].
    pub fn check(&self) -> Result<(), EndpointError> {
        match self {
            Self::Unix(path) if path.as_os_str().is_empty() => Err(EndpointError::Path),
            Self::Tcp(address) if !address.ip().to_canonical().is_loopback() => {
                Err(EndpointError::NotLoopback(*address))
            }
            Self::Unix(_) | Self::Tcp(_) => Ok(()),
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let form = || EndpointError::Form(text.to_owned());
        let endpoint = match text.split_once(':').ok_or_else(form)? {
            ("unix", path) => Self::Unix(path.into()),
            ("tcp", address) => Self::Tcp(address.parse().map_err(|_| form())?),
            _ => return Err(form()),
        };
        endpoint.check()?;
        Ok(endpoint)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_read_back() {
        for text in ["unix:/run/engine.sock", "unix:engine.sock", "tcp:127.0.0.1:7000", "tcp:[::1]:7000"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        for text in ["", "engine.sock", "tcp:localhost:1", "tcp:127.0.0.1", "udp:127.0.0.1:1"] {
            assert_eq!(text.parse::<Endpoint>(), Err(EndpointError::Form(text.to_owned())));
        }
        assert_eq!("unix:".parse::<Endpoint>(), Err(EndpointError::Path));
    }

    #[test]
    fn addresses_of_other_machines_are_refused() {
        for text in ["tcp:0.0.0.0:7000", "tcp:192.0.2.1:7000", "tcp:[::]:7000"] {
            let refused = text.parse::<Endpoint>().unwrap_err();
            assert!(refused.to_string().contains("JetStream"), "{refused}");
        }
        assert!("tcp:[::ffff:127.0.0.1]:7000".parse::<Endpoint>().is_ok());
    }
}

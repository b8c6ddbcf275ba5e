//! A connection to a node: the unix socket, or TLS.

use super::{ClientError, Target};
use crate::tls;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HeaderValue;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// A connection, and the headers of all its requests.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    token: Option<HeaderValue>,
}

impl Connection {
    pub(super) async fn open(target: &Target) -> Result<Self, ClientError> {
        match target {
            Target::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| failed(target, error))?;
                Self::over(stream, target, "localhost".to_owned(), None).await
            }
            Target::Tls { address, ca, token } => {
                let token = read_token(token)?;
                let connector = TlsConnector::from(Arc::new(trust(ca)?));
                let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let name = ServerName::try_from(host.clone())
                    .map_err(|error| failed(target, io::Error::new(ErrorKind::InvalidInput, error)))?;
                let stream = TcpStream::connect(address).await.map_err(|error| failed(target, error))?;
                let stream = connector.connect(name, stream).await.map_err(|error| failed(target, error))?;
                Self::over(stream, target, host, Some(token)).await
            }
        }
    }

    async fn over(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        target: &Target,
        host: String,
        token: Option<HeaderValue>,
    ) -> Result<Self, ClientError> {
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| failed(target, io::Error::other(error)))?;
        // Errors there also fail the request.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender, host, token })
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn token(&self) -> Option<&HeaderValue> {
        self.token.as_ref()
    }

    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        self.sender.send_request(request).await
    }
}

fn failed(target: &Target, error: io::Error) -> ClientError {
    let named = target.clone();
    match (error.kind(), target) {
        (ErrorKind::NotFound, Target::Unix(_)) => ClientError::NoSocket(named),
        (ErrorKind::ConnectionRefused, _) => ClientError::Refused(named),
        (ErrorKind::PermissionDenied, Target::Unix(_)) => ClientError::Forbidden(named),
        _ => ClientError::Connect { target: named, error },
    }
}

fn file(path: &Path, what: &impl ToString) -> ClientError {
    ClientError::File { path: path.to_owned(), what: what.to_string() }
}

fn read_token(path: &Path) -> Result<HeaderValue, ClientError> {
    let text = std::fs::read_to_string(path).map_err(|error| file(path, &error))?;
    let header = format!("Bearer {}", text.trim_end_matches(['\r', '\n']));
    let mut token = HeaderValue::try_from(header).map_err(|_| file(path, &"no token in the file"))?;
    token.set_sensitive(true);
    Ok(token)
}

/// TLS that trusts only these certificates.
fn trust(ca: &Path) -> Result<ClientConfig, ClientError> {
    let trusted = tls::trust(ca).map_err(|error| ClientError::File { path: error.path, what: error.what })?;
    Ok(trusted.with_no_client_auth())
}

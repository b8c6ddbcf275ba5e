//! TLS, and the token that every request over TLS must contain.

use super::{ServerError, TcpListen};
use crate::model::Problem;
use crate::tls;
use crate::trace::hex;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use rustls::ServerConfig;
use rustls::crypto::ring;
use scalebricks_cluster::secret;
use std::io;
use std::path::Path;
use std::sync::Arc;
use subtle::ConstantTimeEq;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Fewest characters of a token: 16 hexadecimal digits are 64 bits, too many to guess over a network.
const SHORTEST_TOKEN: usize = 16;

/// Most characters of a token, within the limit on a request's headers.
const LONGEST_TOKEN: usize = 4096;

/// Accepts TLS connections.
#[derive(Clone)]
pub(crate) struct Acceptor {
    tls: TlsAcceptor,
    token: Token,
}

/// A secret. It is never printed, and compared in constant time.
#[derive(Clone)]
pub(crate) struct Token(Arc<str>);

impl Acceptor {
    pub(crate) fn new(listen: &TcpListen) -> Result<Self, ServerError> {
        let token = Token::read(&listen.token)?;
        let bad = |error: tls::TlsFileError| ServerError::File { path: error.path, what: error.what };
        let chain = tls::certificates(&listen.certificate).map_err(bad)?;
        let key = tls::key(&listen.key).map_err(bad)?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| ServerError::Certificate(error.to_string()))?;
        Ok(Self { tls: TlsAcceptor::from(Arc::new(config)), token })
    }

    pub(crate) fn token(&self) -> Token {
        self.token.clone()
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.tls.accept(stream).await
    }
}

impl Token {
    /// Reads the token in a file, without the line end.
    pub(crate) fn read(path: &Path) -> Result<Self, ServerError> {
        let bad = |what: String| ServerError::File { path: path.to_owned(), what };
        let bytes = secret::read(path, LONGEST_TOKEN).map_err(bad)?;
        let token = String::from_utf8(bytes).ok().filter(|token| {
            token.len() >= SHORTEST_TOKEN && token.bytes().all(|byte| byte.is_ascii_graphic())
        });
        let form = format!("a token is {SHORTEST_TOKEN} or more ASCII characters without spaces");
        token.map(|token| Self(token.into())).ok_or_else(|| bad(form))
    }

    /// A new one of 128 bits, and its text.
    pub(crate) fn draw() -> Result<(Self, String), ServerError> {
        let mut bytes = [0; 16];
        let drawn = ring::default_provider().secure_random.fill(&mut bytes);
        drawn.map_err(|_| ServerError::Thread(io::Error::other("the system gives no random numbers")))?;
        let text = hex(&bytes);
        Ok((Self(text.as_str().into()), text))
    }

    fn is_in(&self, request: &Request) -> bool {
        let mut given = request.headers().get_all(header::AUTHORIZATION).into_iter();
        let (Some(given), None) = (given.next(), given.next()) else { return false };
        let Some((scheme, given)) = given.as_bytes().split_at_checked(b"Bearer ".len()) else { return false };
        scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(given.ct_eq(self.0.as_bytes()))
    }
}

/// Refuses requests without the token.
pub(crate) fn guard(router: Router, token: Token) -> Router {
    router.layer(middleware::from_fn(move |request: Request, next: Next| {
        let is_let_in = token.is_in(&request);
        async move { if is_let_in { next.run(request).await } else { refused() } }
    }))
}

fn refused() -> Response {
    let problem =
        Problem { error: "requests at this address need the token: Authorization: Bearer …".to_owned() };
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], Json(problem)).into_response()
}

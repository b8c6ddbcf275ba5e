//! One request to a process and its answer, for the blocking client and for servers that ask many processes at once.

use super::connect::Connection;
use super::{ClientError, Target};
use crate::model::FlowsProblem;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode, header};
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout;

/// Asks one process. It opens a connection for each request.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    target: Target,
    patience: Duration,
    /// Longest answer that is read.
    most_bytes: usize,
}

impl Asker {
    pub(crate) const fn new(target: Target, patience: Duration, most_bytes: usize) -> Self {
        Self { target, patience, most_bytes }
    }

    pub(crate) const fn target(&self) -> &Target {
        &self.target
    }

    /// The status and the body of the answer, whatever the status is.
    pub(crate) async fn exchange(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        self.in_time(async {
            let mut connection = Connection::open(&self.target).await?;
            let answer = self.send(&mut connection, method, path, kind, body).await?;
            let code = answer.status();
            Ok((code, self.read(answer.into_body()).await?))
        })
        .await
    }

    /// The beginning of an answer with a success status. Its body may take longer than the patience, and needs the
    /// connection.
    pub(super) async fn open(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Bytes,
    ) -> Result<(Connection, Response<Incoming>), ClientError> {
        self.in_time(async {
            let mut connection = Connection::open(&self.target).await?;
            let answer = self.send(&mut connection, method, path, kind, body).await?;
            let code = answer.status();
            if code.is_success() {
                return Ok((connection, answer));
            }
            Err(self.refusal(code, &self.read(answer.into_body()).await?))
        })
        .await
    }

    async fn send(
        &self,
        connection: &mut Connection,
        method: Method,
        path: &str,
        kind: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, connection.host())
            .header(header::CONTENT_TYPE, kind);
        if let Some(token) = connection.token() {
            request = request.header(header::AUTHORIZATION, token);
        }
        let request = request.body(Full::new(body)).map_err(|error| self.protocol(&error))?;
        connection.send(request).await.map_err(|error| self.protocol(&error))
    }

    /// The error of an answer without a success status.
    pub(crate) fn refusal(&self, code: StatusCode, body: &[u8]) -> ClientError {
        let problem = serde_json::from_slice::<FlowsProblem>(body).unwrap_or_else(|_| {
            let said = format!("{code} {}", String::from_utf8_lossy(body).trim());
            FlowsProblem { error: said.trim().to_owned(), flows: Vec::new() }
        });
        match code {
            StatusCode::UNAUTHORIZED => ClientError::Token(self.target.clone()),
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::REQUEST_TIMEOUT => {
                ClientError::NotReady(problem.error)
            }
            _ if !problem.flows.is_empty() => ClientError::Flows(problem),
            _ => ClientError::Refusal(problem.error),
        }
    }

    async fn read(&self, body: Incoming) -> Result<Bytes, ClientError> {
        let whole = Limited::new(body, self.most_bytes).collect().await;
        whole.map(http_body_util::Collected::to_bytes).map_err(|error| self.protocol(&error))
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
        let late = |_| ClientError::TimedOut(self.target.clone(), self.patience.as_secs());
        timeout(self.patience, work).await.map_err(late)?
    }

    pub(crate) fn protocol(&self, what: &impl ToString) -> ClientError {
        ClientError::Protocol { target: self.target.clone(), what: what.to_string() }
    }
}

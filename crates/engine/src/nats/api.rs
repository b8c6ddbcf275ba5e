//! Requests to JetStream's API: JSON, answered by a stream's leader unless a request is *direct*.

use super::connection::{Connection, Failure};
use super::message::Stored;
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Timeout of a single attempt: dead leaders do not answer.
const ATTEMPT: Duration = Duration::from_secs(1);

/// Messages per request.
const BATCH: usize = 256;

/// Codes of JetStream's errors.
pub(super) mod code {
    pub const NO_PEERS: u64 = 10005;
    pub const NOT_AVAILABLE: u64 = 10008;
    pub const NOT_LEADER: u64 = 10009;
    pub const NO_RESOURCES: u64 = 10023;
    pub const NO_MESSAGE: u64 = 10037;
    pub const NOT_ENABLED_FOR_ACCOUNT: u64 = 10039;
    pub const NO_STORAGE: u64 = 10047;
    pub const TOO_LONG: u64 = 10054;
    pub const OTHER_CONFIGURATION: u64 = 10058;
    pub const NO_STREAM: u64 = 10059;
    pub const WRONG_SEQUENCE: u64 = 10071;
    pub const NOT_ENABLED: u64 = 10076;
    pub const OFFLINE: u64 = 10118;
    pub const IN_PROCESS: u64 = 10158;
    pub const WRONG_SEQUENCE_CONSTANT: u64 = 10164;
    pub const TOO_MANY: u64 = 10167;
}

/// Why an API request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ApiError {
    /// The servers answered with an error code and a description.
    No(u64, String),
    /// No one answers requests of this kind.
    NoResponders,
    /// No answer came in time.
    Unavailable(String),
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::No(code, why) => write!(f, "{why} (error {code})"),
            Self::NoResponders => Failure::NoResponders.fmt(f),
            Self::Unavailable(why) => f.write_str(why),
        }
    }
}

/// First and last sequence of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// The oldest sequence; of an empty stream the next one.
    pub first: u64,
    /// The newest sequence.
    pub last: u64,
}

/// Code and description of an error answer.
pub(super) fn error_of(answer: &Value) -> Option<(u64, String)> {
    let error = answer.get("error")?;
    let number = |name: &str| error.get(name).and_then(Value::as_u64);
    let code = number("err_code").or_else(|| number("code")).unwrap_or(0);
    let why = error.get("description").and_then(Value::as_str).unwrap_or("an error without a description");
    Some((code, why.to_owned()))
}

/// The extent in an answer about a stream.
pub(super) fn extent_of(answer: &Value) -> Option<Extent> {
    let state = answer.get("state")?;
    let last = state.get("last_seq")?.as_u64()?;
    let first = state.get("first_seq")?.as_u64()?.max(1);
    Some(Extent { first, last })
}

impl Connection {
    /// Sends an idempotent request; repeats it while there is no leader, until the deadline.
    pub(super) async fn api(&self, what: &str, body: &Value, deadline: Instant) -> Result<Value, ApiError> {
        let body = Bytes::from(body.to_string());
        let mut pause = Duration::from_millis(10);
        loop {
            let attempt = deadline.min(Instant::now() + ATTEMPT);
            let error = match self.request(format!("$JS.API.{what}"), None, body.clone(), attempt).await {
                Ok(message) => match serde_json::from_slice::<Value>(&message.payload) {
                    Ok(answer) => match error_of(&answer) {
                        None => return Ok(answer),
                        Some((code::NOT_AVAILABLE | code::NOT_LEADER | code::OFFLINE, why)) => {
                            ApiError::Unavailable(why)
                        }
                        Some((code, why)) => return Err(ApiError::No(code, why)),
                    },
                    Err(error) => ApiError::Unavailable(format!("an invalid answer: {error}")),
                },
                Err(Failure::NoResponders) => ApiError::NoResponders,
                Err(failure) => ApiError::Unavailable(failure.to_string()),
            };
            if Instant::now() + pause >= deadline {
                return Err(error);
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    /// Extent of a stream by its leader; `None` if there is no such stream.
    pub(super) async fn extent(&self, stream: &str, deadline: Instant) -> Result<Option<Extent>, ApiError> {
        match self.api(&format!("STREAM.INFO.{stream}"), &json!({}), deadline).await {
            Ok(answer) => extent_of(&answer)
                .map(Some)
                .ok_or_else(|| ApiError::Unavailable("an answer without a state".to_owned())),
            Err(ApiError::No(code::NO_STREAM, _)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One message from the stream's leader, by `seq`, `last_by_subj`, or `next_by_subj` from a `seq` on.
    pub(super) async fn leader_get(
        &self,
        stream: &str,
        what: &Value,
        deadline: Instant,
    ) -> Result<Option<Stored>, ApiError> {
        match self.api(&format!("STREAM.MSG.GET.{stream}"), what, deadline).await {
            Ok(answer) => {
                let stored = answer.get("message").and_then(Stored::from_leader);
                stored
                    .map(Some)
                    .ok_or_else(|| ApiError::Unavailable("an answer without a message".to_owned()))
            }
            Err(ApiError::No(code::NO_MESSAGE | code::NO_STREAM, _)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Messages from a sequence on, optionally of one subject, in order, about `max_bytes`. Any replica answers,
    /// perhaps one that lags, so missing messages prove nothing. An answer that is cut off counts up to there.
    pub(super) async fn direct_get(
        &self,
        stream: &str,
        from: u64,
        subject: Option<&str>,
        max_bytes: usize,
        deadline: Instant,
    ) -> Vec<Stored> {
        let mut what = json!({ "seq": from, "batch": BATCH, "max_bytes": max_bytes.max(1) });
        if let Some(subject) = subject {
            what["next_by_subj"] = Value::from(subject);
        }
        let body = Bytes::from(what.to_string());
        let mut messages = Vec::new();
        let take = |message: async_nats::Message| {
            let is_last = message.status.is_some();
            messages.extend(Stored::from_direct(message).filter(|_| !is_last));
            is_last
        };
        let attempt = deadline.min(Instant::now() + ATTEMPT);
        // After an empty result, callers ask the leader.
        let _: Result<(), Failure> =
            self.request_many(format!("$JS.API.DIRECT.GET.{stream}"), body, attempt, take).await;
        messages
    }
}

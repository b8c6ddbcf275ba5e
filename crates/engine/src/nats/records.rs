//! The records: a stream with the newest message of each subject. Revisions are sequences, so none is reused.

use super::api::{ApiError, code, error_of};
use super::connection::{Connection, Failure, until};
use super::jetstream_core::JetStreamCore;
use super::message::{Stored, head};
use crate::keys::{check_key, check_swap, is_key};
use scalebricks_control::engine::{EngineError, Record, Revision, SwapError};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::Instant;

/// Note of a record with a value.
const SET: &str = "set";

/// Note of a deleted record. These messages are kept for watchers.
const DELETED: &str = "deleted";

/// Bytes of changes per request.
const READ_BYTES: usize = 256 << 10;

/// A message of the stream.
#[derive(Debug)]
pub(super) struct Change {
    stored: Stored,
    key: Option<String>,
}

impl Change {
    pub(super) fn revision(&self) -> u64 {
        self.stored.sequence
    }

    pub(super) fn into_record(self) -> Result<Record, EngineError> {
        let revision = Revision(self.stored.sequence);
        let damaged =
            |what| EngineError::Damaged(format!("revision {} in the stream of records: {what}", revision.0));
        let key = self.key.ok_or_else(|| damaged("its subject is unknown"))?;
        let value = match self.stored.open().map_err(damaged)? {
            (SET, body) => Some(Arc::from(&body[..])),
            (DELETED, _) => None,
            _ => return Err(damaged("neither a value nor a deletion")),
        };
        Ok(Record { key, revision, value })
    }
}

fn unavailable(error: &ApiError) -> EngineError {
    EngineError::Unavailable(error.to_string())
}

impl JetStreamCore {
    fn change(&self, stored: Stored) -> Change {
        let key = self.names.key(&stored.subject).filter(|key| is_key(key)).map(str::to_owned);
        Change { stored, key }
    }

    /// A record's newest version at the leader, deleted or not.
    async fn newest(&self, key: &str, deadline: Instant) -> Result<Option<Record>, EngineError> {
        let what = json!({ "last_by_subj": self.names.record(key) });
        let stored = self.connection.leader_get(&self.names.record_stream(), &what, deadline).await;
        stored
            .map_err(|error| unavailable(&error))?
            .map(|stored| self.change(stored).into_record())
            .transpose()
    }

    pub(super) async fn record(&self, key: &str) -> Result<Option<Record>, EngineError> {
        check_key(key)?;
        let newest = self.newest(key, self.deadline()).await?;
        Ok(newest.filter(|record| record.value.is_some()))
    }

    pub(super) async fn swap(
        &self,
        key: &str,
        expected: Option<Revision>,
        value: Option<Arc<[u8]>>,
    ) -> Result<Revision, SwapError> {
        check_swap(key, value.as_deref())?;
        let deadline = self.deadline();
        let subject = self.names.record(key);
        let (note, body) = match value {
            Some(value) => (SET, value),
            None => (DELETED, Arc::from([])),
        };
        let unknown = |failure: Failure| SwapError::Unknown(failure.to_string());
        let permit = self.connection.reserve(body.len(), deadline).await.map_err(unknown)?;
        // After a request without an answer, a conflict may be with that request: so it is repeated only if it was not
        // stored.
        let swapped = until(deadline, || async {
            let newest = match self.newest(key, deadline).await {
                Ok(newest) => newest,
                Err(error) => return Some(Err(SwapError::Unknown(error.to_string()))),
            };
            let revision = newest.as_ref().map(|record| record.revision);
            let existing = newest.filter(|record| record.value.is_some()).map(|record| record.revision);
            if existing != expected {
                return Some(Err(SwapError::Conflict(existing)));
            }
            let mut headers = head(&subject, note, &body);
            // A deleted record has a last message, too.
            let last = revision.map_or(0, |revision| revision.0);
            headers.insert("Nats-Expected-Last-Subject-Sequence", last.to_string());
            let sent = Connection::body(&body, &permit);
            match self.connection.request(subject.clone(), Some(headers), sent, deadline).await {
                Ok(message) => outcome(&message.payload),
                Err(Failure::NoResponders) => None,
                Err(failure) => Some(Err(SwapError::Unknown(failure.to_string()))),
            }
        });
        swapped.await.unwrap_or_else(|| Err(unknown(Failure::NoResponders)))
    }

    /// The newest revision of any record.
    pub(super) async fn newest_revision(&self, deadline: Instant) -> Result<u64, EngineError> {
        let extent = self.connection.extent(&self.names.record_stream(), deadline).await;
        Ok(extent.map_err(|error| unavailable(&error))?.map_or(0, |extent| extent.last))
    }

    /// Changes of records below a prefix from a revision on. A replica may return outdated versions, and returns the
    /// newer ones later; an empty result comes from the leader.
    pub(super) async fn changes(
        &self,
        prefix: &str,
        from: u64,
        deadline: Instant,
    ) -> Result<Vec<Change>, EngineError> {
        let (stream, subjects) = (self.names.record_stream(), self.names.records(prefix));
        let mut some = self.connection.direct_get(&stream, from, Some(&subjects), READ_BYTES, deadline).await;
        // A replica may have a damaged message: ask the leader.
        if some.is_empty() || some.iter().any(|stored| stored.open().is_err()) {
            let what = json!({ "seq": from, "next_by_subj": subjects });
            let stored = self.connection.leader_get(&stream, &what, deadline).await;
            some = stored.map_err(|error| unavailable(&error))?.into_iter().collect();
        }
        Ok(some.into_iter().map(|stored| self.change(stored)).collect())
    }
}

/// `None`: another writer was faster, or there is no room now; read the record again.
fn outcome(answer: &[u8]) -> Option<Result<Revision, SwapError>> {
    let answer: Value = match serde_json::from_slice(answer) {
        Ok(answer) => answer,
        Err(error) => return Some(Err(SwapError::Unknown(error.to_string()))),
    };
    match error_of(&answer) {
        Some((code::WRONG_SEQUENCE | code::WRONG_SEQUENCE_CONSTANT | code::TOO_MANY, _)) => None,
        Some((_, why)) => Some(Err(SwapError::Unknown(why))),
        None => match answer.get("seq").and_then(Value::as_u64) {
            Some(revision) => Some(Ok(Revision(revision))),
            None => Some(Err(SwapError::Unknown("an answer without a revision".to_owned()))),
        },
    }
}

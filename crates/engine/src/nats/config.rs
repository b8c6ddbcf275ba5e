//! Configurations of the streams: created if missing, otherwise compared, never changed.

use super::api::{ApiError, Extent, code, extent_of};
use super::connection::Connection;
use super::names::Names;
use super::options::OpenError;
use scalebricks_types::PartitionId;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Version of the format of messages.
const FORMAT: &str = "1";

/// Time for which the servers recognise a repeated batch by its name.
pub(super) const DUPLICATE_WINDOW: Duration = Duration::from_secs(60);

/// Settings that must be absent, as they would remove or change messages.
const NEVER: [&str; 8] = [
    "mirror",
    "sources",
    "subject_transform",
    "sealed",
    "allow_rollup_hdrs",
    "subject_delete_marker_ttl",
    "discard_new_per_subject",
    "no_ack",
];

fn common(name: &str, replicas: u8) -> Value {
    json!({
        "name": name,
        "retention": "limits",
        "storage": "file",
        "num_replicas": replicas,
        "discard": "new",
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msg_size": -1,
        "max_msgs_per_subject": -1,
        "deny_delete": true,
        "allow_direct": true,
        "metadata": { "scalebricks.format": FORMAT },
    })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A partition's log: a message's sequence is its position.
pub(super) fn log(names: &Names, partition: PartitionId, replicas: u8) -> Value {
    let mut config = common(&names.log_stream(partition), replicas);
    config["subjects"] = json!([names.log_subjects(partition)]);
    config["duplicate_window"] = json!(nanoseconds(DUPLICATE_WINDOW));
    config["republish"] = json!({ "src": ">", "dest": names.log_news(partition), "headers_only": true });
    config
}

/// The records: the newest message of each subject.
pub(super) fn records(names: &Names, replicas: u8) -> Value {
    let mut config = common(&names.record_stream(), replicas);
    config["subjects"] = json!([names.records("")]);
    config["max_msgs_per_subject"] = json!(1);
    config["republish"] =
        json!({ "src": names.records(""), "dest": names.record_news(""), "headers_only": true });
    config
}

/// The snapshots of all partitions in chunks, and the directory of complete ones.
pub(super) fn snapshots(names: &Names, replicas: u8) -> Value {
    let mut config = common(&names.snapshot_stream(), replicas);
    config["subjects"] = json!([names.0.clone() + ".chunk.*.*", names.0.clone() + ".snapshot.*.*"]);
    config
}

/// Differences between the wanted and the existing configuration.
fn differences(wanted: &Value, found: &Value) -> Vec<String> {
    let mut list = Vec::new();
    for (name, wanted) in wanted.as_object().into_iter().flatten() {
        let found = found.get(name).unwrap_or(&Value::Null);
        // The servers add keys to these.
        let is_same = match (name.as_str(), wanted, found) {
            ("metadata", Value::Object(wanted), found) => {
                wanted.iter().all(|(key, value)| found.get(key) == Some(value))
            }
            ("republish", Value::Object(wanted), found) => {
                wanted.iter().all(|(key, value)| found.get(key) == Some(value))
            }
            _ => wanted == found,
        };
        if !is_same {
            list.push(format!("{name} is {found}, not {wanted}"));
        }
    }
    for name in NEVER {
        match found.get(name) {
            None | Some(Value::Null | Value::Bool(false)) => {}
            Some(value) if value == 0 => {}
            Some(value) => list.push(format!("{name} is {value}")),
        }
    }
    list
}

impl Connection {
    /// Creates a stream if it is missing, otherwise compares it.
    pub(super) async fn ensure(&self, wanted: &Value, deadline: Instant) -> Result<Extent, OpenError> {
        let stream = wanted.get("name").and_then(Value::as_str).unwrap_or_default();
        let failed = |error: ApiError| match error {
            ApiError::No(code::NOT_ENABLED | code::NOT_ENABLED_FOR_ACCOUNT, why) => {
                OpenError::NoJetStream(why)
            }
            ApiError::No(..) => OpenError::Refused { stream: stream.to_owned(), why: error.to_string() },
            ApiError::NoResponders | ApiError::Unavailable(_) => OpenError::Unavailable(error.to_string()),
        };
        let info = format!("STREAM.INFO.{stream}");
        let answer = match self.api(&info, &json!({}), deadline).await {
            Err(ApiError::No(code::NO_STREAM, _)) => {
                match self.create(stream, wanted, deadline).await {
                    // Another process creates it at the same time, perhaps with another configuration.
                    Err(ApiError::No(code::OTHER_CONFIGURATION, _)) => {
                        self.api(&info, &json!({}), deadline).await
                    }
                    other => other,
                }
            }
            other => other,
        }
        .map_err(failed)?;
        let differences = differences(wanted, answer.get("config").unwrap_or(&Value::Null));
        if !differences.is_empty() {
            let differences = differences.join(", ");
            return Err(OpenError::Configuration { stream: stream.to_owned(), differences });
        }
        extent_of(&answer).ok_or_else(|| OpenError::Unavailable("an answer without a state".to_owned()))
    }

    /// Creates a stream; succeeds if the same stream exists. Retries a lack of room: servers that have just started do
    /// not know each other yet.
    async fn create(&self, stream: &str, wanted: &Value, deadline: Instant) -> Result<Value, ApiError> {
        loop {
            match self.api(&format!("STREAM.CREATE.{stream}"), wanted, deadline).await {
                Err(ApiError::No(code::NO_PEERS | code::NO_RESOURCES, _))
                    if Instant::now() + Duration::from_millis(500) < deadline =>
                {
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
                other => return other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_different_is_named() {
        let wanted = log(&Names("p".to_owned()), PartitionId(1), 3);
        let mut found = wanted.clone();
        found["metadata"]["_nats.ver"] = json!("2.15.2");
        assert_eq!(differences(&wanted, &found), Vec::<String>::new());
        found["num_replicas"] = json!(1);
        found["mirror"] = json!({ "name": "x" });
        let list = differences(&wanted, &found);
        assert_eq!(list, ["num_replicas is 1, not 3", "mirror is {\"name\":\"x\"}"]);
    }
}

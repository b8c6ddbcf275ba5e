//! State that the calls of one engine share.

use super::connection::Connection;
use super::log::Log;
use super::names::Names;
use super::options::{MESSAGE_BYTES, OLDEST_SERVER, OpenError, Options};
use super::{api, config};
use scalebricks_types::PartitionId;
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct JetStreamCore {
    pub options: Options,
    pub names: Names,
    pub connection: Connection,
    logs: Mutex<HashMap<PartitionId, Arc<Log>>>,
}

impl JetStreamCore {
    /// Connects, and checks that the servers are usable.
    pub(super) async fn connect(options: Options, runtime: &Handle) -> Result<Self, OpenError> {
        options.check()?;
        let deadline = Instant::now() + options.timeout;
        let connection = Connection::connect(&options, runtime, deadline).await?;
        let info = connection.client.server_info();
        if version(&info.version).is_none_or(|version| version < OLDEST_SERVER) {
            return Err(OpenError::Version(info.version));
        }
        if info.max_payload < MESSAGE_BYTES {
            return Err(OpenError::MaxPayload(info.max_payload));
        }
        has_jetstream(&connection, deadline).await?;
        let names = Names(options.prefix.clone());
        let (records, snapshots) =
            (config::records(&names, options.replicas), config::snapshots(&names, options.replicas));
        // Elections take time; starting servers and nodes together must not fail.
        let deadline = Instant::now() + 3 * options.timeout;
        let made =
            tokio::join!(connection.ensure(&records, deadline), connection.ensure(&snapshots, deadline));
        made.0.and(made.1)?;
        Ok(Self { options, names, connection, logs: Mutex::default() })
    }

    /// Deadline of a call that begins now.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.options.timeout
    }

    pub(super) fn log(&self, partition: PartitionId) -> Arc<Log> {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let log = logs.entry(partition).or_insert_with(|| {
            let stream = self.names.log_stream(partition);
            Arc::new(Log::new(partition, stream, self.options.lost_after))
        });
        Arc::clone(log)
    }
}

async fn has_jetstream(connection: &Connection, deadline: Instant) -> Result<(), OpenError> {
    use api::{ApiError, code};
    match connection.api("INFO", &json!({}), deadline).await {
        Ok(_) => Ok(()),
        Err(ApiError::No(code::NOT_ENABLED | code::NOT_ENABLED_FOR_ACCOUNT, why)) => {
            Err(OpenError::NoJetStream(why))
        }
        Err(ApiError::NoResponders) => Err(OpenError::NoJetStream("no one answers its requests".to_owned())),
        Err(error) => Err(OpenError::Unavailable(error.to_string())),
    }
}

/// Major and minor version.
fn version(text: &str) -> Option<(u64, u64)> {
    let mut parts = text.trim_start_matches('v').split(['.', '-', '+']).map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Some((major, minor)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version("2.15.2"), Some((2, 15)));
        assert_eq!(version("v2.16-beta.1"), Some((2, 16)));
        assert_eq!(version("3.0.0").map(|v| v < OLDEST_SERVER), Some(false));
        assert_eq!(version("2.9.22").map(|v| v < OLDEST_SERVER), Some(true));
        assert_eq!(version(""), None);
    }
}

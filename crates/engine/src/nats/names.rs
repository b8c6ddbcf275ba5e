//! Names of streams and subjects.

use scalebricks_control::engine::WriterId;
use scalebricks_types::PartitionId;

/// The names of one cluster; all begin with its prefix.
#[derive(Debug, Clone)]
pub(super) struct Names(pub String);

impl Names {
    pub(super) fn log_stream(&self, partition: PartitionId) -> String {
        format!("{}-log-{}", self.0, partition.0)
    }

    /// Each writer has its own subject, so that its newest batch is found by one request.
    pub(super) fn log_subject(&self, partition: PartitionId, writer: WriterId) -> String {
        format!("{}.log.{}.{:x}", self.0, partition.0, writer.0)
    }

    pub(super) fn log_subjects(&self, partition: PartitionId) -> String {
        format!("{}.log.{}.*", self.0, partition.0)
    }

    /// The writer of a subject of a partition's log.
    pub(super) fn writer(&self, partition: PartitionId, subject: &str) -> Option<WriterId> {
        let rest = subject.strip_prefix(&self.0)?.strip_prefix(".log.")?;
        let (number, writer) = rest.split_once('.')?;
        let is_ours = number.parse() == Ok(partition.0);
        u64::from_str_radix(writer, 16).ok().filter(|_| is_ours).map(WriterId)
    }

    /// Subject of notifications about new entries of a log.
    pub(super) fn log_news(&self, partition: PartitionId) -> String {
        format!("{}.news.log.{}.>", self.0, partition.0)
    }

    pub(super) fn record_stream(&self) -> String {
        format!("{}-records", self.0)
    }

    pub(super) fn record(&self, key: &str) -> String {
        format!("{}.record.{key}", self.0)
    }

    pub(super) fn records(&self, prefix: &str) -> String {
        format!("{}.record.{prefix}>", self.0)
    }

    /// The key of a record's subject.
    pub(super) fn key<'a>(&self, subject: &'a str) -> Option<&'a str> {
        subject.strip_prefix(&self.0)?.strip_prefix(".record.")
    }

    /// Subject of notifications about changed records below a prefix.
    pub(super) fn record_news(&self, prefix: &str) -> String {
        format!("{}.news.record.{prefix}>", self.0)
    }

    pub(super) fn snapshot_stream(&self) -> String {
        format!("{}-snapshots", self.0)
    }

    pub(super) fn chunks(&self, partition: PartitionId, id: &str) -> String {
        format!("{}.chunk.{}.{id}", self.0, partition.0)
    }

    /// Subject of the directory entry of a complete snapshot. Their text order is the order of positions.
    pub(super) fn directory(&self, partition: PartitionId, entry: &str) -> String {
        format!("{}.snapshot.{}.{entry}", self.0, partition.0)
    }

    pub(super) fn topic(&self, topic: &str) -> String {
        format!("{}.topic.{topic}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_names_its_writer() {
        let names = Names("p".to_owned());
        let subject = names.log_subject(PartitionId(7), WriterId(u64::MAX));
        assert_eq!(names.writer(PartitionId(7), &subject), Some(WriterId(u64::MAX)));
        assert_eq!(names.writer(PartitionId(8), &subject), None);
        assert_eq!(names.writer(PartitionId(7), "p.log.7.x"), None);
        assert_eq!(names.key(&names.record("a.b")), Some("a.b"));
    }
}

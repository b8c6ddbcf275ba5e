//! A switch that temporarily cannot read its log.

use super::shared::{DIRECTORY, KIND, ask, change, configure, follow, wait};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use scalebricks_admin::model::switch::Change;
use scalebricks_control::engine::{
    AppendError, Batch, BoxStream, Engine, EngineError, Entry, ReadError, Record, Revision, Snapshot,
    SwapError,
};
use scalebricks_daemon::switch::log::LogError;
use scalebricks_daemon::switch::running::ChangeError;
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_types::{PartitionId, Position};
use std::sync::Arc;
use tokio::sync::watch;

/// An engine that returns no snapshot and ends its streams while a flag is set.
#[derive(Debug)]
struct Flaky {
    engine: Arc<dyn Engine>,
    is_down: watch::Receiver<bool>,
}

impl Engine for Flaky {
    fn append(&self, partition: PartitionId, batch: Batch) -> BoxFuture<'_, Result<Position, AppendError>> {
        self.engine.append(partition, batch)
    }

    fn last(&self, partition: PartitionId) -> BoxFuture<'_, Result<Position, ReadError>> {
        self.engine.last(partition)
    }

    fn read(
        &self,
        partition: PartitionId,
        from: Position,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<Entry>, ReadError>> {
        self.engine.read(partition, from, max_bytes)
    }

    fn watch(&self, partition: PartitionId, from: Position) -> BoxStream<Result<Entry, ReadError>> {
        let mut is_down = self.is_down.clone();
        let down = async move {
            let _never = is_down.wait_for(|is_down| *is_down).await.map(drop);
        };
        Box::pin(
            self.engine
                .watch(partition, from)
                .take_until(Box::pin(down))
                .chain(stream::once(async move { Err(ReadError::Trimmed { partition, first: from }) })),
        )
    }

    fn trim(&self, partition: PartitionId, below: Position) -> BoxFuture<'_, Result<(), EngineError>> {
        self.engine.trim(partition, below)
    }

    fn put_snapshot(
        &self,
        partition: PartitionId,
        snapshot: Snapshot,
    ) -> BoxFuture<'_, Result<(), EngineError>> {
        self.engine.put_snapshot(partition, snapshot)
    }

    fn snapshot(&self, partition: PartitionId) -> BoxFuture<'_, Result<Option<Snapshot>, EngineError>> {
        if *self.is_down.borrow() {
            return Box::pin(async { Err(EngineError::Damaged("not today".to_owned())) });
        }
        self.engine.snapshot(partition)
    }

    fn record<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Record>, EngineError>> {
        self.engine.record(key)
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<Revision>,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<'a, Result<Revision, SwapError>> {
        self.engine.swap(key, expected, value)
    }

    fn watch_records(&self, prefix: &str) -> BoxStream<Result<Record, EngineError>> {
        self.engine.watch_records(prefix)
    }

    fn publish<'a>(&'a self, topic: &'a str, message: Arc<[u8]>) -> BoxFuture<'a, Result<(), EngineError>> {
        self.engine.publish(topic, message)
    }

    fn subscribe(&self, topic: &str) -> BoxFuture<'_, Result<BoxStream<Arc<[u8]>>, EngineError>> {
        self.engine.subscribe(topic)
    }
}

#[test]
fn whoever_asks_a_switch_that_cannot_read_its_log_is_told_and_it_reads_on_later() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = configure(folder.path(), KIND, DIRECTORY);
    let engine: Arc<dyn Engine> =
        Arc::new(EmbeddedLog::open(&folder.path().join("log"), Options::default()).unwrap());
    let (set_down, is_down) = watch::channel(false);
    let flaky: Arc<dyn Engine> = Arc::new(Flaky { engine: Arc::clone(&engine), is_down });
    let (sound, switch) = (follow(&configuration, &engine), follow(&configuration, &flaky));
    wait("both follow", || sound.has_all_names() && switch.has_all_names());
    assert_eq!((sound.view().fault, switch.view().fault), (None, None));
    ask(&switch, &[change(Change::Add, 1, "drop")]).unwrap();

    set_down.send(true).unwrap();
    // Requested from the start, and when the switch knows that the log is down.
    for n in 2..4 {
        let (told, answer) = std::sync::mpsc::channel();
        let asking = Arc::clone(&switch);
        std::thread::spawn(move || told.send(ask(&asking, &[change(Change::Add, n, "drop")])));
        let answer = answer.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
        let is_told =
            matches!(&answer, Err(ChangeError::Log(LogError::Unread(why))) if why.contains("not today"));
        assert!(is_told, "{answer:?}");
    }
    let view = switch.view();
    assert!(view.fault.as_ref().is_some_and(|fault| fault.contains("not today")), "{view:?}");
    let metrics = scalebricks_admin::metrics::render_switch(&view).unwrap();
    assert!(metrics.contains("scalebricks_switch_log_readable 0\n"), "{metrics}");
    assert_eq!(switch.list().len(), 1, "it forwards by what it has");

    // The log is trimmed past what it has read: only a snapshot remains.
    for n in 4..1_030 {
        ask(&sound, &[change(Change::Add, n, "forward rack1")]).unwrap();
    }
    let begins = || pollster::block_on(engine.read(PartitionId(0), Position(2), 1_000));
    wait("the log is trimmed", || matches!(begins(), Err(ReadError::Trimmed { .. })));
    set_down.send(false).unwrap();
    wait("it reads on", || switch.view().fault.is_none());
    wait("it has all", || switch.view().position == sound.view().position);
    assert!(switch.list() == sound.list() && switch.list().len() == 1_029, "other names"); // a thousand lines
    ask(&switch, &[change(Change::Remove, 2, "")]).unwrap();
}

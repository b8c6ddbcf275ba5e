//! The nodes of the dashboard: a task per node asks it again and again while a browser looks, and keeps its last
//! answers. So no node holds up another, and several browsers cost the nodes no more than one.

use crate::client::sockets::{Daemon, all_sockets};
use crate::client::{Asker, ClientError, JSON, Target};
use crate::model::{ClusterView, Stats, Status};
use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::sleep;

/// Time between two answers of a node.
const EVERY: Duration = Duration::from_secs(1);

/// Time between two looks for sockets of new nodes.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The nodes are asked for this long after a browser's last request.
const WATCHED: Duration = Duration::from_secs(10);

/// Longest answer of a node that is read.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// Most nodes; a cluster has 256 at most.
const MAX_NODES: usize = 256;

/// Whether an answer has the format that it should have.
pub(super) type Check = fn(&[u8]) -> serde_json::Result<()>;

/// Checks that an answer is one of this type of the model.
pub(super) fn is<T: DeserializeOwned>(answer: &[u8]) -> serde_json::Result<()> {
    serde_json::from_slice::<T>(answer).map(drop)
}

/// What a node is asked: its status, its counters, its view of the cluster.
const QUESTIONS: [(&str, Check); 3] =
    [("/v1/status", is::<Status>), ("/v1/stats", is::<Stats>), ("/v1/cluster", is::<ClusterView>)];

/// How the nodes are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// These.
    Named(Vec<Target>),
    /// All sockets of nodes in a directory, also those that appear later.
    Directory(PathBuf),
}

/// The nodes, and when a browser last asked for them.
#[derive(Debug)]
pub struct Nodes {
    source: Source,
    patience: Duration,
    every: Duration,
    all: Mutex<Vec<Arc<Polled>>>,
    asked: Mutex<Option<Instant>>,
    wake: Notify,
}

/// A node.
#[derive(Debug)]
pub(super) struct Polled {
    id: usize,
    asker: Asker,
    last: Mutex<Answers>,
}

/// The last answers of a node.
#[derive(Debug, Default)]
struct Answers {
    /// The status stays when the node ends.
    status: Option<Value>,
    stats: Option<Value>,
    cluster: Option<Value>,
    /// When it answered last.
    answered: Option<Instant>,
    /// Why it does not answer; none if it does, or was not asked yet.
    error: Option<String>,
    was_asked: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner) // replaced as a whole
}

impl Nodes {
    /// Nodes that have this long for an answer.
    pub fn new(source: Source, patience: Duration) -> Self {
        let (all, asked, wake) = (Mutex::default(), Mutex::default(), Notify::new());
        Self { source, patience, every: EVERY, all, asked, wake }
    }

    /// The same, asked at another interval than each second.
    #[must_use]
    pub const fn asked_every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// Asks the nodes for ever, while they are watched.
    pub(super) async fn poll(self: Arc<Self>) {
        loop {
            self.watched().await;
            let targets = match &self.source {
                Source::Named(targets) => targets.clone(),
                Source::Directory(directory) => {
                    let sockets = all_sockets(directory, Daemon::Node).unwrap_or_default();
                    sockets.into_iter().map(Target::Unix).collect()
                }
            };
            for node in self.add(targets) {
                tokio::spawn(Arc::clone(&self).poll_one(node));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Adds the targets that are not known; returns the new nodes.
    fn add(&self, targets: Vec<Target>) -> Vec<Arc<Polled>> {
        let mut all = lock(&self.all);
        let known = all.len();
        for target in targets {
            if all.len() < MAX_NODES && all.iter().all(|node| *node.asker.target() != target) {
                let asker = Asker::new(target, self.patience, MAX_ANSWER_BYTES);
                let node = Polled { id: all.len(), asker, last: Mutex::default() };
                all.push(Arc::new(node));
            }
        }
        all[known..].to_vec()
    }

    async fn poll_one(self: Arc<Self>, node: Arc<Polled>) {
        loop {
            node.ask().await;
            sleep(self.every).await;
            self.watched().await;
        }
    }

    /// Waits until a browser is looking.
    async fn watched(&self) {
        loop {
            let woken = self.wake.notified();
            if lock(&self.asked).is_some_and(|asked| asked.elapsed() < WATCHED) {
                return;
            }
            woken.await;
        }
    }

    /// Notes that a browser is looking.
    fn look(&self) -> Vec<Arc<Polled>> {
        *lock(&self.asked) = Some(Instant::now());
        self.wake.notify_waiters();
        lock(&self.all).clone()
    }

    /// The last answers of all nodes, without the counters of each worker; the cluster as the node knows it that is
    /// furthest.
    pub(super) fn overview(&self) -> Value {
        let all = self.look();
        let furthest = all
            .iter()
            .filter_map(|node| node.epoch())
            .max_by_key(|(is_whole, epoch, node)| (*is_whole, *epoch, std::cmp::Reverse(node.id)));
        let cluster = furthest.and_then(|(_, _, node)| lock(&node.last).cluster.clone());
        let nodes: Vec<Value> = all.iter().map(|node| node.view(false)).collect();
        json!({ "cluster": cluster, "nodes": nodes })
    }

    /// All answers of a node.
    pub(super) fn detail(&self, id: usize) -> Option<Value> {
        self.look().get(id).map(|node| node.view(true))
    }

    /// The node with this number here, which is not its number in the cluster.
    pub(super) fn get(&self, id: usize) -> Option<Arc<Polled>> {
        self.look().get(id).cloned()
    }

    /// The nodes that answer, those with a control plane first.
    pub(super) fn answering(&self) -> Vec<Arc<Polled>> {
        let mut all = self.look();
        all.retain(|node| lock(&node.last).is_answering());
        all.sort_by_key(|node| lock(&node.last).cluster.is_none());
        all
    }
}

impl Answers {
    fn is_answering(&self) -> bool {
        self.error.is_none() && self.answered.is_some()
    }
}

impl Polled {
    /// Asks the node everything, and keeps the answers or the error.
    async fn ask(&self) {
        let mut answers = [const { None }; QUESTIONS.len()];
        let mut error = None;
        for ((path, is_valid), answer) in QUESTIONS.iter().zip(&mut answers) {
            match self.pass_on(Method::GET, path, Bytes::new(), *is_valid).await {
                Ok((code, value)) if code.is_success() => *answer = Some(value),
                // A node whose flows come from a file has no cluster to show.
                Ok((StatusCode::NOT_IMPLEMENTED, _)) if path.ends_with("/cluster") => {}
                Ok((code, value)) => {
                    error = Some(self.asker.refusal(code, value.to_string().as_bytes()).to_string());
                }
                Err(failed) => error = Some(failed.to_string()),
            }
            if error.is_some() {
                break;
            }
        }
        let [status, stats, cluster] = answers;
        let mut last = lock(&self.last);
        if error.is_none() {
            last.answered = Some(Instant::now());
        }
        let status = status.or_else(|| last.status.take());
        *last = Answers { status, stats, cluster, error, was_asked: true, answered: last.answered };
    }

    /// Sends a request to the node. An answer with a success status must have the format of the model, so that the page
    /// can rely on it.
    pub(super) async fn pass_on(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        is_valid: Check,
    ) -> Result<(StatusCode, Value), ClientError> {
        let (code, body) = self.asker.exchange(method, path, JSON, body).await?;
        if code == StatusCode::UNAUTHORIZED {
            // Not to be confused with the token of the dashboard.
            return Err(self.asker.refusal(code, &body));
        }
        if code.is_success() {
            is_valid(&body).map_err(|error| self.asker.protocol(&error))?;
        }
        let value = serde_json::from_slice(&body).map_err(|error| self.asker.protocol(&error))?;
        Ok((code, value))
    }

    /// Whether its tables are whole, its epoch, and the node itself, if it has a control plane and answers.
    fn epoch(self: &Arc<Self>) -> Option<(bool, u64, &Arc<Self>)> {
        let last = lock(&self.last);
        let cluster = last.cluster.as_ref().filter(|_| last.is_answering())?;
        let is_whole = cluster.get("has_caught_up").and_then(Value::as_bool).unwrap_or_default();
        Some((is_whole, cluster.get("epoch")?.as_u64()?, self))
    }

    fn view(&self, is_whole: bool) -> Value {
        let last = lock(&self.last);
        let mut stats = last.stats.clone();
        if let Some(stats) = stats.as_mut().and_then(Value::as_object_mut).filter(|_| !is_whole) {
            stats.remove("workers");
        }
        let mut view = json!({
            "id": self.id,
            "target": self.asker.target().to_string(),
            "is_answering": last.is_answering(),
            "was_asked": last.was_asked,
            "error": last.error,
            "answered_s_ago": last.answered.map(|answered| answered.elapsed().as_secs_f64()),
            "status": last.status,
            "stats": stats,
        });
        if is_whole && let Some(view) = view.as_object_mut() {
            view.insert("cluster".to_owned(), json!(last.cluster));
        }
        view
    }
}

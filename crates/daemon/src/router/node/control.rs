//! The control side of a node: the log of routes, the sources of its routes, and the nodes that are alive.

use super::config::{Feeders, RouterFile};
use super::feeder::table::{self, Source};
use super::feeder::{FeederLog, SharedStatus, fpm};
use super::routes::connected::FeederKind;
use super::routes::{LOG, RoutesMachine, SharedRoutes};
use crate::error::ProcessError;
use crate::replica::{LogProgress, Replica};
use crate::runtime::periodic::Periodic;
use scalebricks_admin::runtime_thread::RuntimeThread;
use scalebricks_control::engine::Engine;
use scalebricks_types::NodeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often a node looks which nodes are alive. The data path itself avoids broken links at once.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The control side of a node; dropping it stops its threads.
#[derive(Debug)]
pub struct ControlSide {
    routes: SharedRoutes,
    feeders: Vec<SharedStatus>,
    statics: Option<Statics>,
    // Dropped in this order: what appends to the log, then the log.
    _alive: Periodic,
    _feeding: RuntimeThread,
    log: Arc<Replica<RoutesMachine>>,
}

/// A file of static routes.
struct Statics {
    path: PathBuf,
    source: watch::Sender<Source>,
}

impl std::fmt::Debug for Statics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Statics").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ControlSide {
    /// Starts to follow the log, to log this node's routes, and to look for dead nodes. `beside` resolves file names.
    ///
    /// # Errors
    /// [`ProcessError`]: the file of routes is wrong, an address is in use, or a thread cannot be started.
    pub fn start(
        engine: impl Future<Output = Arc<dyn Engine>> + Send + 'static,
        file: &RouterFile,
        beside: impl Fn(&Path) -> PathBuf,
        routes: SharedRoutes,
        alive: impl Fn() -> NodeSet + Send + 'static,
    ) -> Result<Self, ProcessError> {
        let (own, statics) = sources(file, beside)?;
        let listener = file.feeders.fpm.map(|at| fpm::listen(&at).map(|listener| (at, listener)));
        let listener = listener.transpose()?;
        let log = Arc::new(Replica::start(engine, LOG, RoutesMachine(routes.clone()))?);
        let progress = Arc::clone(&log);
        let feeder_log = FeederLog::new(log.appender(), move || progress.progress().has_caught_up);
        let (own_status, mut feeders) = (SharedStatus::new("connected"), Vec::new());
        feeders.push(own_status.clone());
        let statics_task = statics.as_ref().map(|statics| {
            let status = SharedStatus::new("static");
            feeders.push(status.clone());
            (statics.source.subscribe(), status)
        });
        let fpm_task = listener.map(|(at, listener)| {
            let status = SharedStatus::new("fpm");
            feeders.push(status.clone());
            (at, listener, status)
        });
        let (id, shared) = (file.id, routes.clone());
        let runtime = &mut tokio::runtime::Builder::new_current_thread();
        let feeding = RuntimeThread::start("feeders", runtime, move || async move {
            // The sender of the networks at ports stays here: they do not change.
            let (_keep, own) = watch::channel(own);
            let feed = |kind: FeederKind, source, status| {
                table::feed(kind.at(id), shared.clone(), feeder_log.clone(), source, status)
            };
            let connected = feed(FeederKind::Connected, own, own_status);
            let statics = async {
                if let Some((source, status)) = statics_task {
                    feed(FeederKind::Static, source, status).await;
                }
            };
            let speaker = async {
                if let Some((at, listener, status)) = fpm_task {
                    let feeder = FeederKind::Fpm.at(id);
                    fpm::feed(feeder, at, listener, shared.clone(), feeder_log.clone(), status).await;
                }
            };
            tokio::join!(connected, statics, speaker);
        });
        let feeding = feeding.map_err(ProcessError::Thread)?;
        let looked = routes.clone();
        let look = move || {
            let mut nodes = alive();
            nodes.insert(id);
            let before = looked.lock().rib.alive();
            let changed = looked.set_alive(nodes);
            if nodes != before {
                let state = looked.lock();
                let (walk_ms, routes) = (state.last_walk.as_millis(), state.rib.len());
                drop(state);
                let list = |set: NodeSet| {
                    set.iter().map(|node| node.get().to_string()).collect::<Vec<_>>().join(" ")
                };
                let (now, before) = (list(nodes), list(before));
                tracing::warn!(now, before, changed, routes, walk_ms, "other nodes are alive");
            }
        };
        let alive = Periodic::start("living-nodes", LOOK_EVERY, look).map_err(ProcessError::Thread)?;
        Ok(Self { routes, feeders, statics, _alive: alive, _feeding: feeding, log })
    }

    /// The routes.
    pub const fn routes(&self) -> &SharedRoutes {
        &self.routes
    }

    /// The state of the log.
    pub fn progress(&self) -> LogProgress {
        self.log.progress()
    }

    /// The sources of routes.
    pub fn feeders(&self) -> &[SharedStatus] {
        &self.feeders
    }

    /// Whether this node has the routes of the log, and the log has the networks at this node's ports.
    pub fn has_all_routes(&self) -> bool {
        let own = self.feeders.first().is_some_and(|status| status.lock().state == "complete");
        own && self.progress().has_caught_up
    }

    /// Reads the file of static routes again; only the difference is logged. `None` if there is no file.
    ///
    /// # Errors
    /// [`ProcessError`]; the routes are then unchanged.
    pub fn reload(&self) -> Result<Option<()>, ProcessError> {
        let Some(statics) = &self.statics else { return Ok(None) };
        statics.source.send_replace(table::statics(&statics.path)?.0);
        Ok(Some(()))
    }
}

/// The networks at ports, and the static routes.
fn sources(
    file: &RouterFile,
    beside: impl Fn(&Path) -> PathBuf,
) -> Result<(Source, Option<Statics>), ProcessError> {
    let Feeders { routes, .. } = &file.feeders;
    let statics = routes.as_deref().map(|path| {
        let path = beside(path);
        table::statics(&path).map(|(source, _)| Statics { source: watch::Sender::new(source), path })
    });
    Ok((table::connected(file.id, &file.ports), statics.transpose()?))
}

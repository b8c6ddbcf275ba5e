//! Live routes from FRR: zebra connects, and sends every route that it selects.
//!
//! zebra sends all of its routes after each connect, and no message says which is the last. So a start is complete when no
//! message came for [`Fpm::quiet`]; only then do the routes go that were not sent again (`Restart` and `Complete` in the
//! log, as in RFC 4724). This time must be longer than FRR's BGP needs to converge after a start. While nothing is
//! connected, the routes stay for [`Fpm::keep`].
//!
//! | state | routes in the log |
//! |---|---|
//! | waiting | those of an earlier session, until [`Fpm::keep`] is over |
//! | receiving | those, and what this session sent |
//! | complete | what this session sent |

use super::table::note;
use super::{FeederLog, RETRY, SharedStatus, ip_prefix};
use crate::error::ProcessError;
use crate::replica::LogError;
use crate::router::node::config::Fpm;
use crate::router::node::routes::SharedRoutes;
use crate::router::node::routes::connected::{Connected, Wanted};
use scalebricks_apps::router::feed::FeedPrefix;
use scalebricks_apps::router::feed::fpm::{FpmTable, Frames};
use scalebricks_control::routes::{FeederId, RouteRecord, difference};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;

/// Changed prefixes are logged after this time, or when there are so many. zebra sends a change as a withdrawal and an
/// announcement, which then are one change.
const GATHER: Duration = Duration::from_millis(20);
const GATHER_PREFIXES: usize = 16_384;

/// Listens at the address of a forwarding plane manager.
///
/// # Errors
/// [`ProcessError::Listen`].
pub(crate) fn listen(fpm: &Fpm) -> Result<std::net::TcpListener, ProcessError> {
    let bound = std::net::TcpListener::bind(fpm.listen)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    bound.map_err(|error| ProcessError::Listen { address: fpm.listen.to_string(), error })
}

/// Keeps the log at what a BGP speaker sends; never returns.
pub(crate) async fn feed(
    feeder: FeederId,
    fpm: Fpm,
    listener: std::net::TcpListener,
    routes: SharedRoutes,
    log: FeederLog,
    status: SharedStatus,
) {
    log.caught_up().await;
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "cannot listen for a BGP speaker");
            status.lock().fault = Some(error.to_string());
            return std::future::pending().await;
        }
    };
    let connected = routes.connected();
    let mut session = Session {
        feeder,
        fpm,
        routes,
        log,
        status,
        connected,
        table: FpmTable::default(),
        changed: BTreeSet::new(),
        is_complete: false,
        sessions: 0,
        bad_frames: 0,
    };
    let mut next = None;
    loop {
        let stream = match next.take() {
            Some(stream) => stream,
            None => session.wait(&listener).await,
        };
        next = session.serve(stream, &listener).await;
    }
}

/// A feeder and its present or last session.
struct Session {
    feeder: FeederId,
    fpm: Fpm,
    routes: SharedRoutes,
    log: FeederLog,
    status: SharedStatus,
    connected: watch::Receiver<Arc<Connected>>,
    /// What the session sent.
    table: FpmTable,
    /// Prefixes whose routes are not logged yet.
    changed: BTreeSet<FeedPrefix>,
    is_complete: bool,
    sessions: u64,
    bad_frames: u64,
}

impl Session {
    /// Waits for a connection. After [`Fpm::keep`] without one, the routes are withdrawn.
    async fn wait(&mut self, listener: &TcpListener) -> TcpStream {
        self.show("waiting for a connection");
        let until = Instant::now() + self.fpm.keep;
        let mut has_routes = true;
        loop {
            let accepted = if has_routes {
                timeout_at(until, listener.accept()).await
            } else {
                Ok(listener.accept().await)
            };
            match accepted {
                Ok(Ok((stream, peer))) => {
                    tracing::info!(%peer, "a BGP speaker connected");
                    return stream;
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot accept a BGP speaker");
                    tokio::time::sleep(RETRY).await;
                }
                Err(_) => {
                    has_routes = false;
                    if self.routes.lock().rib.of_feeder(self.feeder).next().is_some() {
                        tracing::warn!(
                            keep_s = self.fpm.keep.as_secs(),
                            "no BGP speaker connected again; withdrawing its routes"
                        );
                        self.table.clear();
                        self.log_surely(&[
                            RouteRecord::Restart(self.feeder),
                            RouteRecord::Complete(self.feeder),
                        ])
                        .await;
                    }
                }
            }
        }
    }

    /// Reads a session to its end, or until the speaker connects again: the old connection may be one that only this side
    /// still knows. Returns the new one.
    async fn serve(&mut self, mut stream: TcpStream, listener: &TcpListener) -> Option<TcpStream> {
        (self.is_complete, self.sessions) = (false, self.sessions + 1);
        self.table.clear();
        self.changed.clear();
        self.show("receiving");
        self.log_surely(&[RouteRecord::Restart(self.feeder)]).await;
        let (mut frames, mut buffer) = (Frames::default(), vec![0; READ_BYTES]);
        let mut last = Instant::now();
        loop {
            let quiet = last + self.fpm.quiet;
            tokio::select! {
                // Reading is cancel safe: bytes are taken only if the read is the branch that is done.
                read = stream.read(&mut buffer) => {
                    let problem = match read {
                        Ok(0) => Some("it closed the connection".to_owned()),
                        Ok(bytes) => {
                            last = Instant::now();
                            frames.add(&buffer[..bytes]);
                            self.take(&mut frames)
                        }
                        Err(error) => Some(error.to_string()),
                    };
                    let problem = match problem {
                        None => self.gather(&mut stream, &mut frames, &mut buffer).await,
                        problem => problem,
                    };
                    self.publish().await;
                    if let Some(why) = problem {
                        tracing::warn!(why, keep_s = self.fpm.keep.as_secs(), "the session with the BGP speaker ended");
                        return None;
                    }
                }
                () = tokio::time::sleep_until(quiet), if !self.is_complete => {
                    self.log_surely(&[RouteRecord::Complete(self.feeder)]).await;
                    self.is_complete = true;
                    self.compare().await;
                    self.show("complete");
                    tracing::info!(routes = self.table.len(), "the BGP speaker sent all of its routes");
                }
                Ok(()) = self.connected.changed() => self.compare().await,
                Ok((stream, peer)) = listener.accept() => {
                    tracing::warn!(%peer, "a BGP speaker connected while another session was open, which ends");
                    return Some(stream);
                }
            }
        }
    }

    /// Reads the complete frames; says why the session must end, if it must.
    fn take(&mut self, frames: &mut Frames) -> Option<String> {
        loop {
            match frames.next_frame() {
                Ok(Some(frame)) => self.table.read(frame, &mut self.changed),
                Ok(None) => return None,
                Err(error) => {
                    self.bad_frames += 1;
                    return Some(error.to_string());
                }
            }
        }
    }

    /// Reads on for a moment, so that many changes are one batch.
    async fn gather(
        &mut self,
        stream: &mut TcpStream,
        frames: &mut Frames,
        buffer: &mut [u8],
    ) -> Option<String> {
        let until = Instant::now() + GATHER;
        while self.changed.len() < GATHER_PREFIXES {
            match timeout_at(until, stream.read(buffer)).await {
                Err(_) => return None,
                Ok(Ok(0)) => return Some("it closed the connection".to_owned()),
                Ok(Err(error)) => return Some(error.to_string()),
                Ok(Ok(bytes)) => {
                    frames.add(&buffer[..bytes]);
                    let problem = self.take(frames);
                    if problem.is_some() {
                        return problem;
                    }
                }
            }
        }
        None
    }

    /// Logs the changed prefixes.
    async fn publish(&mut self) {
        let connected = self.connected.borrow().clone();
        let changed = std::mem::take(&mut self.changed);
        let mut wanted = Wanted::default();
        for prefix in &changed {
            self.want(&connected, *prefix, &mut wanted);
        }
        let records = changed.into_iter().map(|prefix| {
            let prefix = ip_prefix(prefix);
            match wanted.paths.remove(&prefix) {
                Some(paths) => RouteRecord::Announce(self.feeder, prefix, paths),
                None => RouteRecord::Withdraw(self.feeder, prefix),
            }
        });
        let records: Vec<RouteRecord> = records.collect();
        if let Err(error) = self.append(records).await {
            self.failed(&error).await;
            self.compare().await;
        }
        let state = if self.is_complete { "complete" } else { "receiving" };
        self.show(state);
    }

    fn want(&self, connected: &Connected, prefix: FeedPrefix, wanted: &mut Wanted) {
        let next_hops = self.table.next_hops(prefix).into_iter().map(|hop| (hop, self.fpm.preference));
        wanted.add(connected, ip_prefix(prefix), next_hops);
    }

    /// Compares all routes of the session with the log, after networks at ports came or went, or a batch was lost.
    async fn compare(&mut self) {
        loop {
            let connected = self.connected.borrow_and_update().clone();
            let mut wanted = Wanted::default();
            for prefix in self.table.prefixes() {
                self.want(&connected, prefix, &mut wanted);
            }
            note(&self.status, &wanted);
            let mut records = difference(&self.routes.lock().rib, self.feeder, &wanted.paths);
            if !self.is_complete {
                // Routes of an earlier session stay until this one is complete.
                records.retain(|record| matches!(record, RouteRecord::Announce(..)));
            }
            match self.append(records).await {
                Ok(()) => return,
                Err(error) => self.failed(&error).await,
            }
        }
    }

    /// Appends records until the log has them.
    async fn log_surely(&self, records: &[RouteRecord]) {
        while let Err(error) = self.append(records.to_vec()).await {
            self.failed(&error).await;
        }
    }

    async fn append(&self, records: Vec<RouteRecord>) -> Result<(), LogError> {
        let count = records.len() as u64;
        self.log.append(records).await?;
        let mut status = self.status.lock();
        status.logged += count;
        status.fault = None;
        Ok(())
    }

    async fn failed(&self, error: &LogError) {
        tracing::error!(%error, "cannot log the routes of a BGP speaker; trying again");
        self.status.lock().fault = Some(error.to_string());
        tokio::time::sleep(RETRY).await;
        self.log.caught_up().await;
    }

    fn show(&self, state: &str) {
        let mut status = self.status.lock();
        state.clone_into(&mut status.state);
        status.routes = self.table.len() as u64;
        let sessions = [("sessions", self.sessions), ("bad_frames", self.bad_frames)];
        status.counts = self.table.counts().all().into_iter().chain(sessions).collect();
        if let Some(error) = self.table.last_error() {
            status.last_error = Some(error.to_string());
        }
    }
}

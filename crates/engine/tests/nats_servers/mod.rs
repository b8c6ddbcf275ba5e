//! The JetStream engine keeps the guarantees of the interface on three real servers, also when they are killed.
//!
//! Needs a `nats-server`, found or built by `scripts/nats.sh path`. Without one everything here is skipped, unless
//! `REQUIRE_NATS=1`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "durations and counts, shown with --nocapture")]

mod cluster;
mod damage;
mod faults;
mod opening;

use cluster::Cluster;
use scalebricks_engine::conformance::Lab;
use scalebricks_engine::nats::JetStream;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// Servers for tests that do not kill them.
fn servers() -> Option<Arc<Cluster>> {
    static SERVERS: OnceLock<Option<Arc<Cluster>>> = OnceLock::new();
    SERVERS.get_or_init(|| Cluster::start(3).map(Arc::new)).clone()
}

/// A unique prefix.
fn prefix() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("lab-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

struct OnServers {
    cluster: Option<Arc<Cluster>>,
    prefix: String,
}

impl OnServers {
    fn new() -> Self {
        Self { cluster: servers(), prefix: prefix() }
    }
}

impl Lab for OnServers {
    type Engine = JetStream;

    async fn open(&self) -> JetStream {
        self.cluster.as_ref().unwrap().open_credulous(&self.prefix).await
    }
}

impl Drop for OnServers {
    fn drop(&mut self) {
        if let Some(cluster) = &self.cluster {
            cluster.remove_streams(&self.prefix);
        }
    }
}

fn unless_skipped(test: impl Future<Output = ()>) {
    if servers().is_some() {
        pollster::block_on(test);
    }
}

mod on_three_servers {
    scalebricks_engine::conformance_tests!(super::OnServers::new(), super::unless_skipped);
}

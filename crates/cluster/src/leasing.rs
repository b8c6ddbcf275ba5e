//! The lease of a node: renewed outside the actor, so that it holds while the actor is busy, and expires while it is stuck for
//! long. See [`scalebricks_control::lease`].

use super::event::Event;
use super::inbox::Granted;
use super::plane::{ControlPlane, PlaneState};
use super::view;
use scalebricks_control::engine::Engine;
use scalebricks_control::lease::{self, Deadlines, LeaseState, LeaseTimes, READ_EVERY};
use scalebricks_control::membership::View;
use scalebricks_elements::gateway::fabric::health::HEARING;
use scalebricks_elements::gateway::{FabricHealth, Lease};
use scalebricks_types::NodeId;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Time between two updates of the lease.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Configuration and state of a node's lease.
#[derive(Debug, Clone)]
pub struct Leasing {
    /// Durations of the lease.
    pub times: LeaseTimes,
    /// Its deadlines, shared with the workers.
    pub lease: Arc<Lease>,
    /// The workers' own probes, which carry grants as heartbeats do.
    pub fabric: Option<Arc<FabricHealth>>,
    /// The start of the workers' clock.
    pub start: Instant,
}

impl ControlPlane {
    /// Maintains this lease until the plane is dropped. Only the first call has an effect.
    pub async fn keep_lease(&self, leasing: Leasing) {
        if self.shared.lease.set(leasing.clone()).is_err() {
            return;
        }
        let _stops = self.events.send(Event::RebindAfter(leasing.times.rebind_after())).await;
        let (tell, reads) = mpsc::channel(1);
        let reading = ViewReader {
            engine: Arc::clone(&self.reading.engine),
            shared: Arc::downgrade(&self.shared),
            start: leasing.start,
            tell,
        };
        self.runtime.spawn(reading.run());
        let keeping = LeaseKeeper {
            me: self.shared.node,
            machine: lease::Lease::new(self.shared.node, leasing.times),
            leasing,
            shared: Arc::downgrade(&self.shared),
            reads,
            told: LeaseState::Expired,
        };
        self.runtime.spawn(keeping.run());
    }

    /// The state of the node's lease, and for how long the node may still forward. `None` without a lease.
    pub fn lease(&self) -> Option<(LeaseState, Duration)> {
        let leasing = self.shared.lease.get()?;
        let now = leasing.start.elapsed();
        let deadlines = leasing.deadlines();
        Some((deadlines.state(now), deadlines.forward_until.saturating_sub(now)))
    }
}

impl Leasing {
    fn deadlines(&self) -> Deadlines {
        let (claim_until, forward_until) = self.lease.deadlines();
        Deadlines { claim_until, forward_until }
    }

    /// Whether the node may answer for the partitions that it owns.
    pub(super) fn is_held(&self) -> bool {
        self.lease.may_claim(self.start.elapsed())
    }
}

/// Reads the view from the engine periodically.
struct ViewReader {
    engine: Arc<dyn Engine>,
    shared: Weak<PlaneState>,
    start: Instant,
    /// Views, with the times of their requests.
    tell: mpsc::Sender<(View, Duration)>,
}

impl ViewReader {
    async fn run(self) {
        while let Some(partitions) = self.shared.upgrade().map(|shared| shared.partitions) {
            let asked = self.start.elapsed();
            match tokio::time::timeout(READ_EVERY, view::read(&*self.engine, partitions)).await {
                Ok(Ok((_, view))) => {
                    if self.tell.send((view, asked)).await.is_err() {
                        return;
                    }
                }
                Ok(Err(error)) => tracing::debug!(%error, "cannot read the view to renew the lease"),
                Err(_) => {
                    tracing::debug!("cannot read the view to renew the lease: the engine does not answer");
                }
            }
            let next = asked + READ_EVERY;
            tokio::time::sleep(next.saturating_sub(self.start.elapsed())).await;
        }
    }
}

/// Renews the lease from received grants, and sets its deadlines.
struct LeaseKeeper {
    me: NodeId,
    machine: lease::Lease,
    leasing: Leasing,
    shared: Weak<PlaneState>,
    reads: mpsc::Receiver<(View, Duration)>,
    told: LeaseState,
}

impl LeaseKeeper {
    async fn run(mut self) {
        while let Some(shared) = self.shared.upgrade() {
            self.look(&shared);
            drop(shared);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn look(&mut self, shared: &PlaneState) {
        let now = self.leasing.start.elapsed();
        let life = shared.life.load(Ordering::Relaxed);
        let has_caught_up = life > 0 && shared.caught_up_in.load(Ordering::Relaxed) == life;
        if has_caught_up {
            self.leasing.lease.filled();
        }
        let view = shared.view.load();
        // The lease may have expired since the last call.
        let _noted = self.machine.deadlines(has_caught_up, now);
        self.machine.viewed(&view, life);
        if let Some(fabric) = &self.leasing.fabric {
            let members = view.members().filter(|(_, member)| member.is_alive);
            fabric.set_identity(life, view.epoch(), members.map(|(node, member)| (node, member.life)));
            for (by, at) in fabric.grants_to_me(now) {
                // The grant quotes a message that this node sent within that time, in this life.
                self.machine.granted(by, view.epoch(), at.saturating_sub(HEARING));
            }
        }
        for Granted { by, report, since } in shared.beats.granted(Instant::now()) {
            let since = since.saturating_duration_since(self.leasing.start);
            if report.grants.contains(self.me) {
                self.machine.granted(by, report.epoch, since);
            }
        }
        while let Ok((view, asked)) = self.reads.try_recv() {
            let _is_renewed = self.machine.read(&view, asked);
        }
        let deadlines = self.machine.deadlines(has_caught_up, now);
        self.leasing.lease.set(deadlines.claim_until, deadlines.forward_until);
        self.tell(deadlines.state(now));
    }

    /// Logs changes of the lease's state.
    fn tell(&mut self, state: LeaseState) {
        if state == self.told {
            return;
        }
        match state {
            LeaseState::Held => tracing::info!("the node has its lease"),
            LeaseState::ClaimsLapsed => tracing::warn!(
                "no contact with the log and half of the other members: the node claims no address now"
            ),
            LeaseState::Expired => tracing::error!(
                "no contact with the log and half of the other members: the lease has expired, the node forwards nothing"
            ),
        }
        self.told = state;
    }
}

//! A thread that turns a switch.

use super::running::Told;
use crate::daemon::workers::{Control, PUBLISH, Pause};
use crate::node::config::Idle;
use scalebricks_dataplane::flat::FlatSwitch;
use scalebricks_io::PacketBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A switch, and what its thread needs.
pub struct Worker<P> {
    /// The switch.
    pub switch: FlatSwitch<P>,
    /// What it tells of itself.
    pub told: Arc<Told>,
    /// When there is nothing to do.
    pub idle: Idle,
    /// The moment times are counted from, the same for all workers.
    pub start: Instant,
}

impl<P: PacketBuf> Worker<P> {
    /// Turns the switch until it is asked to stop.
    pub fn run(&mut self, control: &Control) {
        let (mut pause, mut told) = (Pause::new(self.idle), Duration::ZERO);
        while !control.is_stopping() {
            let now = self.start.elapsed();
            let moved = self.switch.turn(now);
            if now.saturating_sub(told) >= PUBLISH {
                told = now;
                self.told.tell(self.switch.counts());
            }
            pause.after(moved);
        }
        self.told.tell(self.switch.counts());
    }
}

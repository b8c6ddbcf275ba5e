//! A thread that turns a switch.

use super::running::Told;
use crate::node::config::Idle;
use crate::node::worker::{Control, stay_on};
use scalebricks_dataplane::flat::FlatSwitch;
use scalebricks_io::PacketBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Turns that found nothing until a worker sleeps; before, it lets others run.
const PATIENCE: u32 = 64;

/// How often a worker tells what it counted.
const PUBLISH: Duration = Duration::from_millis(50);

/// A switch, and what its thread needs.
pub struct Worker<P> {
    /// The switch.
    pub switch: FlatSwitch<P>,
    /// What it tells of itself.
    pub told: Arc<Told>,
    /// When there is nothing to do.
    pub idle: Idle,
    /// The core it stays on.
    pub core: Option<u16>,
    /// The moment times are counted from, the same for all workers.
    pub start: Instant,
}

impl<P: PacketBuf> Worker<P> {
    /// Turns the switch until it is asked to stop.
    pub fn run(&mut self, control: &Control) {
        if let Some(core) = self.core
            && let Err(error) = stay_on(core)
        {
            tracing::warn!(core, %error, "a worker is not bound to its core");
        }
        let (mut empty, mut told) = (0_u32, Duration::ZERO);
        while !control.is_stopping() {
            let now = self.start.elapsed();
            let moved = self.switch.turn(now);
            if now.saturating_sub(told) >= PUBLISH {
                told = now;
                self.told.tell(self.switch.counts());
            }
            if moved > 0 {
                empty = 0;
                continue;
            }
            empty = empty.saturating_add(1);
            match self.idle {
                Idle::Sleep { us } if empty > PATIENCE => {
                    std::thread::sleep(Duration::from_micros(us.into()));
                }
                Idle::Sleep { .. } => std::thread::yield_now(),
                Idle::Spin => std::hint::spin_loop(),
            }
        }
        self.told.tell(self.switch.counts());
    }
}

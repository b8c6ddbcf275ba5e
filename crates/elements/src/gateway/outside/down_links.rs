//! Which of a node's ports are known to be down.

use crate::gateway::role::PortRole;
use std::sync::atomic::{AtomicU8, Ordering};

/// One flag per port whose link is down: set by the link monitor, read by all workers once per burst.
#[derive(Debug, Default)]
pub struct DownLinks(AtomicU8);

impl DownLinks {
    /// Sets whether a port's link is down.
    pub fn set(&self, port: PortRole, is_down: bool) {
        let flag = 1 << port as u8;
        // No other data is published with it.
        if is_down {
            self.0.fetch_or(flag, Ordering::Relaxed);
        } else {
            self.0.fetch_and(!flag, Ordering::Relaxed);
        }
    }

    /// Whether a port's link is down. Cost: one load.
    #[inline(always)]
    pub fn is_down(&self, port: PortRole) -> bool {
        self.0.load(Ordering::Relaxed) & 1 << port as u8 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_has_a_flag_of_its_own() {
        let down = DownLinks::default();
        for port in PortRole::ALL {
            down.set(port, true);
            down.set(port, true);
            assert!(PortRole::ALL.into_iter().all(|other| down.is_down(other) == (other == port)));
            down.set(port, false);
        }
    }
}

//! What elements share that bring packets in or pass them on until they are stopped: a switch, a count, and a limit on it.

use crate::handler::boolean;
use scalebricks_graph::Supply;
use scalebricks_graph::element::HandlerError;
use std::time::Duration;

/// Whether packets go on, and how many have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gate {
    is_active: bool,
    /// What the configuration says.
    begins_active: bool,
    limit: Option<u64>,
    count: u64,
}

impl Gate {
    /// Open for `limit` packets, for any number if that is below 0.
    pub(crate) fn new(is_active: bool, limit: i64) -> Self {
        Self { is_active, begins_active: is_active, limit: u64::try_from(limit).ok(), count: 0 }
    }

    /// Whether it was started and not stopped.
    pub(crate) const fn is_active(&self) -> bool {
        self.is_active
    }

    /// Packets that may go on.
    pub(crate) fn left(&self) -> usize {
        match self.limit {
            _ if !self.is_active => 0,
            Some(limit) => usize::try_from(limit.saturating_sub(self.count)).unwrap_or(usize::MAX),
            None => usize::MAX,
        }
    }

    /// What a source with `STOP` still has: packets at any time, until its limit is reached.
    pub(crate) fn supply(&self, stop: bool) -> Option<Supply> {
        stop.then(|| if self.left() == 0 { Supply::Ended } else { Supply::At(Duration::ZERO) })
    }

    /// Packets that went on since the last reset.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Counts packets that went on.
    pub(crate) const fn pass(&mut self, packets: u64) {
        self.count += packets;
    }

    /// Goes on where another has stopped: with its count, and started or stopped as it was by then, unless the new configuration
    /// says something else than the one before.
    pub(crate) const fn take_over(&mut self, before: Self) {
        self.count = before.count;
        if self.begins_active == before.begins_active {
            self.is_active = before.is_active;
        }
    }

    /// Begins the count and the limit anew.
    pub(crate) const fn reset(&mut self) {
        self.count = 0;
    }

    /// Starts or stops it, as a handler says.
    pub(crate) fn set_active(&mut self, value: &str) -> Result<(), HandlerError> {
        self.is_active = boolean(value)?;
        Ok(())
    }
}

/// Declares an element with a [`Gate`]: a field `gate` and its handlers, beside the element's own. `reset` names the handler that
/// begins the count anew.
macro_rules! gated {
    (
        $(#[$($attribute:tt)*])*
        pub struct $name:ident $(<$packet:ident>)? as $class:literal { $($fields:tt)* }
        $(inputs $inputs:tt)?
        outputs $outputs:tt
        params $params:ident $given:tt
        $(example $example:tt)?
        $(drops $drops:tt)?
        $(counters $counters:tt)?
        handlers { reset $reset:tt, $($handlers:tt)* }
    ) => {
        scalebricks_graph::element! {
            $(#[$($attribute)*])*
            pub struct $name $(<$packet>)? as $class { gate: crate::gate::Gate, $($fields)* }
            $(inputs $inputs)?
            outputs $outputs
            params $params $given
            $(example $example)?
            $(drops $drops)?
            $(counters $counters)?
            handlers {
                read COUNT = crate::shared_names::handlers::COUNT,
                read ACTIVE = crate::shared_names::handlers::ACTIVE,
                write SET_ACTIVE = crate::shared_names::handlers::SET_ACTIVE,
                write RESET = $reset: "Sets `count` to 0, and so begins a limit anew.",
                $($handlers)*
            }
            hooks { Begin, }
        }

        impl $(<$packet>)? $name $(<$packet>)? {
            /// Answers one of the gate's handlers.
            fn read_gate(&self, handler: scalebricks_graph::HandlerId) -> String {
                if handler == Self::COUNT { self.gate.count().to_string() } else { self.gate.is_active().to_string() }
            }

            /// Gives one of the gate's handlers a value.
            fn write_gate(
                &mut self,
                handler: scalebricks_graph::HandlerId,
                value: &str,
            ) -> Result<(), scalebricks_graph::element::HandlerError> {
                if handler == Self::SET_ACTIVE {
                    return self.gate.set_active(value);
                }
                self.gate.reset();
                Ok(())
            }
        }
    };
}

pub(crate) use gated;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_leaves_what_was_not_counted() {
        let left = |limit, count| {
            let mut gate = Gate::new(true, limit);
            gate.pass(count);
            gate.left()
        };
        assert_eq!([left(-1, 5), left(0, 0), left(7, 5), left(7, 9)], [usize::MAX, 0, 2, 0]);
        assert_eq!(Gate::new(false, -1).left(), 0);
    }
}

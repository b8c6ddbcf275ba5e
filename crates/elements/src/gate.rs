//! Shared by elements that pass packets until they are stopped: an on/off switch, a count, and a limit.

use crate::handler::boolean;
use scalebricks_graph::Supply;
use scalebricks_graph::element::HandlerError;
use std::time::Duration;

/// Whether packets may pass, and how many have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gate {
    is_active: bool,
    /// The configured value.
    begins_active: bool,
    limit: Option<u64>,
    count: u64,
}

impl Gate {
    /// A gate for `limit` packets; a negative limit means no limit.
    pub(crate) fn new(is_active: bool, limit: i64) -> Self {
        Self { is_active, begins_active: is_active, limit: u64::try_from(limit).ok(), count: 0 }
    }

    /// Whether it is active.
    pub(crate) const fn is_active(&self) -> bool {
        self.is_active
    }

    /// Packets that may still pass.
    pub(crate) fn left(&self) -> usize {
        match self.limit {
            _ if !self.is_active => 0,
            Some(limit) => usize::try_from(limit.saturating_sub(self.count)).unwrap_or(usize::MAX),
            None => usize::MAX,
        }
    }

    /// What a source with `STOP` still has: packets at any time, until it reaches its limit.
    pub(crate) fn supply(&self, stop: bool) -> Option<Supply> {
        stop.then(|| if self.left() == 0 { Supply::Ended } else { Supply::At(Duration::ZERO) })
    }

    /// Packets passed since the last reset.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Counts passed packets.
    pub(crate) const fn pass(&mut self, packets: u64) {
        self.count += packets;
    }

    /// Continues from its predecessor: keeps its count, and its active state unless the new configuration changed the
    /// configured value.
    pub(crate) const fn take_over(&mut self, before: Self) {
        self.count = before.count;
        if self.begins_active == before.begins_active {
            self.is_active = before.is_active;
        }
    }

    /// Restarts the count and the limit.
    pub(crate) const fn reset(&mut self) {
        self.count = 0;
    }

    /// Starts or stops it from a handler's value.
    pub(crate) fn set_active(&mut self, value: &str) -> Result<(), HandlerError> {
        self.is_active = boolean(value)?;
        Ok(())
    }
}

/// Declares an element with a [`Gate`]: a field `gate` and its handlers, beside the element's own. `reset` names the
/// handler that resets the count.
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
        $(makes |$made_of:pat_param| $make:expr $(,)?)?
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
                write RESET = $reset: "Sets `count` to 0 and so restarts the limit.",
                $($handlers)*
            }
            hooks { Begin, }
            $(makes |$made_of| $make,)?
        }

        impl $(<$packet>)? $name $(<$packet>)? {
            /// Reads one of the gate's handlers.
            fn read_gate(&self, handler: scalebricks_graph::HandlerId) -> String {
                if handler == Self::COUNT { self.gate.count().to_string() } else { self.gate.is_active().to_string() }
            }

            /// Writes one of the gate's handlers.
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

//! The actions of a switch, and the table that maps a name's value to its action.

use arc_swap::ArcSwap;
use scalebricks_wire::MacAddr;
use std::fmt;
use std::sync::Arc;

/// Most ports of a switch.
pub const MAX_PORTS: usize = 256;

/// Most different actions of a switch: an ID has 16 bits.
pub const MAX_ACTIONS: usize = 1 << 16;

/// A port of a switch, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortNo(u16);

impl PortNo {
    /// The port of this number, below [`MAX_PORTS`].
    pub const fn new(number: usize) -> Option<Self> {
        if number < MAX_PORTS { Some(Self(number as u16)) } else { None }
    }

    /// Its number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Its number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PortNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {}", self.0)
    }
}

/// What the switch does with the frames of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// They leave by a port, unchanged.
    Forward(PortNo),
    /// They are routed: TTL decremented, new MAC addresses, sent by a port.
    Route {
        /// The port.
        port: PortNo,
        /// The MAC address of the next hop.
        next_hop: MacAddr,
        /// Their new source MAC address.
        source: MacAddr,
    },
    /// They are dropped.
    Drop,
    /// They leave by all ports except those of the group they came from.
    Flood,
}

impl Action {
    /// The one port it needs.
    pub const fn port(&self) -> Option<PortNo> {
        match *self {
            Self::Forward(port) | Self::Route { port, .. } => Some(port),
            Self::Drop | Self::Flood => None,
        }
    }
}

/// The number of an action: the value of names in Othello.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ActionId(pub(super) u16);

/// An action with an assigned number. A number always means the same action: it is first in use, later perhaps unused,
/// and never assigned again in the same generation of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumberedAction {
    pub(super) action: Action,
    pub(super) is_live: bool,
}

const _: () =
    assert!(size_of::<NumberedAction>() <= 20, "what `FibReader::lookup_batch` says a lookup costs");

/// A snapshot of all actions.
#[derive(Debug, Default)]
pub(super) struct Actions {
    pub(super) numbered: Box<[NumberedAction]>,
    /// Those in use.
    pub(super) live: Box<[ActionId]>,
}

/// The meaning of a value from Othello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// This action.
    Is(Action),
    /// No name has this value, so the name is not in the table.
    Nothing,
}

impl Actions {
    /// The meaning of a value that was looked up *after* these actions were loaded. `newest` has the current actions.
    ///
    /// A number that was unused before the lookup belongs to no name, as it is never assigned again. A number that was
    /// not yet assigned then, if it belongs to a name at all, was assigned in between, and the newest actions contain
    /// it, in use or not: it was in use at the lookup.
    #[inline]
    pub(super) fn meaning(&self, value: u16, newest: &ArcSwap<Self>) -> Meaning {
        match self.numbered.get(usize::from(value)) {
            Some(NumberedAction { action, is_live: true }) => Meaning::Is(*action),
            Some(_) => Meaning::Nothing,
            None => match newest.load().numbered.get(usize::from(value)) {
                Some(numbered) => Meaning::Is(numbered.action),
                None => Meaning::Nothing,
            },
        }
    }

    /// One of the actions in use, always the same for the same bits; `None` if there are none.
    #[inline]
    pub(super) fn any(&self, bits: u16) -> Option<Action> {
        let id = self.live.get((usize::from(bits) * self.live.len()) >> 16)?;
        self.numbered.get(usize::from(id.0)).map(|numbered| numbered.action)
    }
}

/// The actions of a table's generation, as its readers see them.
#[derive(Debug, Default)]
pub(super) struct LiveActions(pub(super) ArcSwap<Actions>);

impl LiveActions {
    pub(super) fn new(actions: Actions) -> Self {
        Self(ArcSwap::from(Arc::new(actions)))
    }
}

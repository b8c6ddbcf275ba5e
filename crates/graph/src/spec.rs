//! The specification of an element class, declared once by [`element!`](crate::element!) and read by the builder,
//! metrics, the command line and the documentation.

use crate::column::ColumnSpec;

/// Which side initiates the transfer of a packet over a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PortKind {
    /// The sender pushes the packet.
    Push,
    /// The receiver pulls the packet.
    Pull,
    /// Push or pull: all agnostic ports of an element adopt the kind that the rest of the graph requires.
    Agnostic,
}

/// How many ports one [`PortSpec`] represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PortArity {
    /// One, which must be connected.
    One,
    /// One, which may be unconnected. Packets sent to it are then dropped as `unconnected`.
    Optional,
    /// One or more, as many as are connected. Must be the last spec of its side.
    OneOrMore,
    /// Any number, as many as are connected. Must be the last spec of its side.
    ZeroOrMore,
}

/// A port, or a sequence of ports of one kind.
#[derive(Debug, Clone, Copy)]
pub struct PortSpec {
    /// Its name.
    pub name: &'static str,
    /// Push, pull or either.
    pub flow: PortKind,
    /// Whether packets pass by value, in [`Bursts`](crate::Bursts): a `burst` port. All other ports pass slots.
    pub by_value: bool,
    /// How many there are.
    pub many: PortArity,
    /// What goes over it.
    pub doc: &'static str,
}

/// A parameter.
#[derive(Debug, Clone, Copy)]
pub struct ParamSpec {
    /// Its name as a Rust field; the keyword is the same in capitals.
    pub name: &'static str,
    /// A description of its type.
    pub kind: &'static str,
    /// The default as written in the source; without one the parameter is required.
    pub default: Option<&'static str>,
    /// What it sets, line by line.
    pub doc: &'static [&'static str],
}

/// Name and description of a drop reason, counter or handler, declared once for several elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameAndDoc {
    /// The name.
    pub name: &'static str,
    /// Its description.
    pub doc: &'static str,
}

impl NameAndDoc {
    /// Returns itself, as [`element!`](crate::element!) requires.
    #[must_use]
    pub const fn named(self) -> Self {
        self
    }

    /// Converts to a drop reason.
    pub const fn drop(self) -> DropSpec {
        DropSpec { name: self.name, doc: self.doc }
    }

    /// Converts to a counter.
    pub const fn counter(self, counts: Counts) -> CounterSpec {
        CounterSpec { name: self.name, counts, doc: self.doc }
    }

    /// Converts to a handler.
    pub const fn handler(self, access: Access) -> HandlerSpec {
        HandlerSpec { name: self.name, access, doc: self.doc }
    }
}

/// Why an element drops packets.
#[derive(Debug, Clone, Copy)]
pub struct DropSpec {
    /// Its name, in counters and captures.
    pub name: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// What a counter means for the balance of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counts {
    /// Nothing.
    Other,
    /// It counts packets that the element made.
    Made,
    /// It counts packets that end in the element without being dropped.
    Ended,
}

/// A counter of an element.
#[derive(Debug, Clone, Copy)]
pub struct CounterSpec {
    /// Its name.
    pub name: &'static str,
    /// What it means for the balance of packets.
    pub counts: Counts,
    /// What it counts.
    pub doc: &'static str,
}

/// Whether a handler is read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Returns a value.
    Read,
    /// Takes a value.
    Write,
}

/// A value that control code can read or write while the graph runs.
#[derive(Debug, Clone, Copy)]
pub struct HandlerSpec {
    /// Its name.
    pub name: &'static str,
    /// Read or write. A handler that is both is listed twice.
    pub access: Access,
    /// What it returns or sets.
    pub doc: &'static str,
}

/// When an element is called, besides for packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hook {
    /// [`Element::begin`](crate::Element::begin), once a turn, before the packets that reach it in that turn.
    Begin,
    /// Like [`Begin`](Self::Begin), but only if it has an input that pulls.
    Pulls,
    /// [`Element::end`](crate::Element::end), once a turn, after all packets were processed.
    End,
    /// [`Element::between`](crate::Element::between), once a turn, after all packets have left the frame.
    Between,
    /// It raises back-pressure, which every source that reaches it by push sees, and reports how many packets it keeps.
    Pressure,
    /// It reads [how many packets](crate::Out::kept) the nearest elements with back-pressure keep: those that it pushes
    /// to or pulls from.
    Watches,
}

/// The specification of an element class, available without creating an element.
#[derive(Debug)]
pub struct Spec {
    /// The class's name in configurations.
    pub class: &'static str,
    /// What it does, line by line.
    pub doc: &'static [&'static str],
    /// Input ports.
    pub inputs: &'static [PortSpec],
    /// Output ports.
    pub outputs: &'static [PortSpec],
    /// Outputs whose packets carry no columns: new packets, and packets that waited outside the frame.
    pub fresh: &'static [&'static str],
    /// Parameters, in the order in which they may be given without a keyword.
    pub params: &'static [ParamSpec],
    /// Example arguments, for documentation and tests.
    pub example: &'static [&'static str],
    /// Columns that it reads from incoming packets.
    pub reads: &'static [ColumnSpec],
    /// Columns it writes.
    pub writes: &'static [ColumnSpec],
    /// Its drop reasons.
    pub drops: &'static [DropSpec],
    /// Its counters.
    pub counters: &'static [CounterSpec],
    /// Its handlers.
    pub handlers: &'static [HandlerSpec],
    /// When it is called.
    pub hooks: &'static [Hook],
}

/// A drop reason of an element: an index into [`Spec::drops`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropId(pub(crate) u8);

/// A counter of an element: an index into [`Spec::counters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterId(pub(crate) u8);

/// A handler of an element: an index into [`Spec::handlers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandlerId(pub(crate) u8);

/// Counters that the runner keeps for every element.
pub const RUN_COUNTERS: &[CounterSpec] = &[
    CounterSpec { name: "packets", counts: Counts::Other, doc: "Packets that reached the element." },
    CounterSpec { name: "batches", counts: Counts::Other, doc: "Lists of packets that reached the element." },
];

/// The runner's drop reasons, counted at the element that sent the packet.
pub const RUN_DROPS: &[DropSpec] = &[
    DropSpec {
        name: "graph_loop",
        doc: "The packet passed 64 edges back to an earlier element, or all packets of the turn passed too many.",
    },
    DropSpec { name: "unconnected", doc: "The packet was sent to an unconnected output." },
    DropSpec { name: "unworked", doc: "The element left the packet in its input: a bug in the element." },
    DropSpec {
        name: "slot_lost",
        doc: "An element lost the packet's slot: a bug in the element. Counted at the graph's first element.",
    },
    DropSpec {
        name: "graph_replaced",
        doc: "The element that kept the packet has no successor in the new configuration.",
    },
    DropSpec {
        name: "no_slot",
        doc: "No slot was free for a packet that was sent by value to an element that takes slots.",
    },
];

pub(crate) mod run {
    //! Indices in [`RUN_COUNTERS`](super::RUN_COUNTERS) and [`RUN_DROPS`](super::RUN_DROPS).
    pub(crate) const PACKETS: usize = 0;
    pub(crate) const BATCHES: usize = 1;
    pub(crate) const LOOP: usize = 0;
    pub(crate) const UNCONNECTED: usize = 1;
    pub(crate) const UNWORKED: usize = 2;
    pub(crate) const SLOT_LOST: usize = 3;
    pub(crate) const REPLACED: usize = 4;
    pub(crate) const NO_SLOT: usize = 5;
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The index of a name in a list, computed at compile time.
macro_rules! place {
    ($(#[doc = $doc:literal])+ $function:ident, $list:ty, $id:ident) => {
        $(#[doc = $doc])+
        ///
        /// # Panics
        /// If the list has no such name, or over 200 of them: when the element is compiled.
        #[doc(hidden)]
        pub const fn $function(list: &[$list], name: &str) -> $id {
            let mut at = 0;
            while at < list.len() && at < 200 {
                if same(list[at].name, name) {
                    return $id(at as u8);
                }
                at += 1;
            }
            unreachable!()
        }
    };
}

place! {
    /// The identifier of a drop reason.
    drop_id, DropSpec, DropId
}
place! {
    /// The identifier of a counter.
    counter_id, CounterSpec, CounterId
}

/// A parameter's name: the field's name without the `r#` of a raw identifier such as `r#type`.
#[doc(hidden)]
pub const fn param_name(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', name @ ..] => match str::from_utf8(name) {
            Ok(name) => name,
            Err(_) => field,
        },
        _ => field,
    }
}

/// The identifier of a handler.
///
/// # Panics
/// If the list has no such handler, or over 200 of them: when the element is compiled.
#[doc(hidden)]
pub const fn handler_id(list: &[HandlerSpec], name: &str, access: Access) -> HandlerId {
    let mut at = 0;
    while at < list.len() && at < 200 {
        if same(list[at].name, name) && list[at].access as u8 == access as u8 {
            return HandlerId(at as u8);
        }
        at += 1;
    }
    unreachable!()
}

impl Spec {
    /// Whether the class has this hook.
    pub fn has(&self, hook: Hook) -> bool {
        self.hooks.contains(&hook)
    }

    /// The spec of the port with this number.
    pub fn port(ports: &'static [PortSpec], number: usize) -> Option<&'static PortSpec> {
        ports.get(number).or_else(|| {
            ports.last().filter(|last| matches!(last.many, PortArity::OneOrMore | PortArity::ZeroOrMore))
        })
    }

    /// The handler with this name.
    pub fn handler(&self, name: &str, access: Access) -> Option<HandlerId> {
        let at = self.handlers.iter().position(|h| h.name == name && h.access == access)?;
        u8::try_from(at).ok().map(HandlerId)
    }

    /// The number of counter cells of such an element.
    pub(crate) fn cells(&self) -> usize {
        RUN_COUNTERS.len() + self.counters.len() + RUN_DROPS.len() + self.drops.len()
    }

    pub(crate) fn drops_from(&self) -> usize {
        RUN_COUNTERS.len() + self.counters.len()
    }
}

//! What an element is, declared once by [`element!`](crate::element!) and read by everything that lists elements: the
//! builder, metrics, the command line, documentation.

use crate::column::ColumnSpec;

/// Which side moves a packet over a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PortKind {
    /// The element that has the packet hands it on.
    Push,
    /// The element that wants a packet asks for it.
    Pull,
    /// Either: all agnostic ports of an element are of the kind that the rest of the graph wants.
    Agnostic,
}

/// How many ports one [`PortSpec`] stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PortArity {
    /// One, which must be connected.
    One,
    /// One, which need not be connected. Packets sent to it then are dropped as `unconnected`.
    Optional,
    /// As many as are connected, at least one. The last of its side.
    OneOrMore,
    /// As many as are connected, if any. The last of its side.
    ZeroOrMore,
}

/// A port, or a sequence of ports of one kind.
#[derive(Debug, Clone, Copy)]
pub struct PortSpec {
    /// Its name.
    pub name: &'static str,
    /// Push, pull or either.
    pub flow: PortKind,
    /// Whether packets go over it by value, in [`Bursts`](crate::Bursts): a `burst` port. All others pass slots.
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
    /// Its type, in words.
    pub kind: &'static str,
    /// The default as it is written in the source; without one it must be given.
    pub default: Option<&'static str>,
    /// What it sets, line by line.
    pub doc: &'static [&'static str],
}

/// Name and text of a drop reason, a counter or a handler, declared once for several elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameAndDoc {
    /// The name.
    pub name: &'static str,
    /// What it means, counts, tells or sets.
    pub doc: &'static str,
}

impl NameAndDoc {
    /// Itself, as [`element!`](crate::element!) asks for it.
    #[must_use]
    pub const fn named(self) -> Self {
        self
    }

    /// As a drop reason.
    pub const fn drop(self) -> DropSpec {
        DropSpec { name: self.name, doc: self.doc }
    }

    /// As a counter.
    pub const fn counter(self, counts: Counts) -> CounterSpec {
        CounterSpec { name: self.name, counts, doc: self.doc }
    }

    /// As a handler.
    pub const fn handler(self, access: Access) -> HandlerSpec {
        HandlerSpec { name: self.name, access, doc: self.doc }
    }
}

/// Why an element drops packets.
#[derive(Debug, Clone, Copy)]
pub struct DropSpec {
    /// Its name: the counter's, and that in captures.
    pub name: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// What a counter says about the number of packets that leave an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counts {
    /// Nothing.
    Other,
    /// It counts packets that the element made.
    Made,
    /// It counts packets that end in the element without being dropped.
    Ended,
}

/// Something an element counts.
#[derive(Debug, Clone, Copy)]
pub struct CounterSpec {
    /// Its name.
    pub name: &'static str,
    /// What it says about the number of packets.
    pub counts: Counts,
    /// What it counts.
    pub doc: &'static str,
}

/// What a handler can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// To tell a value.
    Read,
    /// To take one.
    Write,
}

/// A value that control can read or write while the graph runs.
#[derive(Debug, Clone, Copy)]
pub struct HandlerSpec {
    /// Its name.
    pub name: &'static str,
    /// Whether it is read or written. One that is both is listed twice.
    pub access: Access,
    /// What it tells or sets.
    pub doc: &'static str,
}

/// When an element is called beside the packets that reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hook {
    /// [`Element::begin`](crate::Element::begin), once a turn, before the packets that reach it in that turn.
    Begin,
    /// As [`Begin`](Self::Begin), but only where it has an input that pulls.
    Pulls,
    /// [`Element::end`](crate::Element::end), once a turn, after all packets were processed.
    End,
    /// [`Element::between`](crate::Element::between), once a turn, after all packets have left the frame.
    Between,
    /// It raises back-pressure, and every source that reaches it by pushes sees that. It tells how many packets it keeps as well.
    Pressure,
    /// It asks [how many packets](crate::Out::kept) the nearest such elements keep: those that it pushes to, or pulls from.
    Watches,
}

/// An element class: all that is known of it without making one.
#[derive(Debug)]
pub struct Spec {
    /// The class's name in configurations.
    pub class: &'static str,
    /// What it does, line by line.
    pub doc: &'static [&'static str],
    /// Ports that packets come in by.
    pub inputs: &'static [PortSpec],
    /// Ports that packets leave by.
    pub outputs: &'static [PortSpec],
    /// Outputs whose packets carry no columns: new packets, and packets that waited outside the frame.
    pub fresh: &'static [&'static str],
    /// Parameters, in the order in which they may be given without a keyword.
    pub params: &'static [ParamSpec],
    /// Arguments of an element as a configuration may write them, for documentation and tests.
    pub example: &'static [&'static str],
    /// Columns it reads of packets that come in.
    pub reads: &'static [ColumnSpec],
    /// Columns it writes.
    pub writes: &'static [ColumnSpec],
    /// Reasons it drops packets for.
    pub drops: &'static [DropSpec],
    /// What it counts.
    pub counters: &'static [CounterSpec],
    /// What control can read and write.
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

/// What the runner counts at every element.
pub const RUN_COUNTERS: &[CounterSpec] = &[
    CounterSpec { name: "packets", counts: Counts::Other, doc: "Packets that reached the element." },
    CounterSpec { name: "batches", counts: Counts::Other, doc: "Lists of packets that reached the element." },
];

/// Why the runner drops packets, counted at the element that sent them.
pub const RUN_DROPS: &[DropSpec] = &[
    DropSpec {
        name: "graph_loop",
        doc: "The packet passed 64 edges back to an earlier element, or all packets of the turn passed too many.",
    },
    DropSpec { name: "unconnected", doc: "The packet was sent to an output that leads nowhere." },
    DropSpec { name: "unworked", doc: "The element left the packet in its input: an error in the element." },
    DropSpec {
        name: "slot_lost",
        doc: "The element let the packet's slot go: an error in the element. Counted at the graph's first element.",
    },
    DropSpec {
        name: "graph_replaced",
        doc: "The element held the packet, and has no successor in a new configuration.",
    },
    DropSpec {
        name: "no_slot",
        doc: "No slot was free for a packet that was sent by value to an element that takes slots.",
    },
];

pub(crate) mod run {
    //! Places in [`RUN_COUNTERS`](super::RUN_COUNTERS) and [`RUN_DROPS`](super::RUN_DROPS).
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

/// The place of a name in a list, found when the element is compiled.
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

/// A parameter's name: that of the field, without the `r#` that lets a field have the name of a keyword, such as `type`.
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
    /// Whether it wants to be called so.
    pub fn has(&self, hook: Hook) -> bool {
        self.hooks.contains(&hook)
    }

    /// The port that a number stands for.
    pub fn port(ports: &'static [PortSpec], number: usize) -> Option<&'static PortSpec> {
        ports.get(number).or_else(|| {
            ports.last().filter(|last| matches!(last.many, PortArity::OneOrMore | PortArity::ZeroOrMore))
        })
    }

    /// The handler of a name.
    pub fn handler(&self, name: &str, access: Access) -> Option<HandlerId> {
        let at = self.handlers.iter().position(|h| h.name == name && h.access == access)?;
        u8::try_from(at).ok().map(HandlerId)
    }

    /// Everything counted at such an element, in the order of its cells.
    pub(crate) fn cells(&self) -> usize {
        RUN_COUNTERS.len() + self.counters.len() + RUN_DROPS.len() + self.drops.len()
    }

    pub(crate) fn drops_from(&self) -> usize {
        RUN_COUNTERS.len() + self.counters.len()
    }
}

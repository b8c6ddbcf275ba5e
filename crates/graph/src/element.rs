//! The interface between elements and the graph.

use crate::args::Params;
use crate::bursts::Bursts;
use crate::column::{Column, Columns, Handle};
use crate::environment::{Environment, Supply};
use crate::frame::Frame;
use crate::graph::Graph;
use crate::meta::Meta;
use crate::out::Out;
use crate::slot::SlotList;
use crate::spec::{HandlerId, Spec};
use crate::upstream::Upstream;
use scalebricks_io::Burst;
pub use scalebricks_io::PacketBuf;
use std::any::{Any, TypeId};
use std::time::Duration;

/// Why an element cannot be part of a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// The element asks for a column that its spec does not name.
    #[error("column {0} is not declared by the class")]
    Undeclared(&'static str),
    /// It cannot work with its ports or columns.
    #[error("{0}")]
    Refused(String),
}

/// Why a handler failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// The graph has no element of that name.
    #[error("no element {0:?}")]
    NoElement(String),
    /// The element has no such handler.
    #[error("element {element:?} has no handler {handler:?}")]
    NoHandler {
        /// The element.
        element: String,
        /// The handler requested.
        handler: String,
    },
    /// The value is invalid.
    #[error("{0}")]
    Value(String),
}

/// An element's view of the graph during the build.
#[derive(Debug)]
pub struct Binder<'a> {
    pub(crate) columns: &'a Columns,
    pub(crate) spec: &'static Spec,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// By output: if it is connected, whether the input passes packets by value.
    pub(crate) connected: &'a [Option<bool>],
}

impl Binder<'_> {
    /// Number of input ports in this graph: all that must be connected, and optional ones up to the last connected one.
    pub const fn inputs(&self) -> usize {
        self.inputs
    }

    /// Number of output ports in this graph, counted in the same way.
    pub const fn outputs(&self) -> usize {
        self.outputs
    }

    /// Whether an output is connected.
    pub fn is_connected(&self, output: usize) -> bool {
        self.connected.get(output).is_some_and(Option::is_some)
    }

    /// Whether an output leads to a `burst` input, so that packets sent by value need no slot.
    pub fn leads_to_bursts(&self, output: usize) -> bool {
        self.connected.get(output) == Some(&Some(true))
    }

    /// The position of a column that the class reads or writes.
    ///
    /// # Errors
    /// [`BindError::Undeclared`].
    pub fn column<C: Column>(&self) -> Result<Handle<C>, BindError> {
        let mut named = self.spec.reads.iter().chain(self.spec.writes);
        let is_named = named.any(|spec| (spec.id)() == TypeId::of::<C>());
        let handle = if is_named { self.columns.handle() } else { None };
        handle.ok_or(BindError::Undeclared(C::NAME))
    }
}

/// A field whose value depends on the element's place in a graph.
pub trait Bound: Sized {
    /// Its value.
    ///
    /// # Errors
    /// [`BindError`].
    fn bound(binder: &Binder<'_>) -> Result<Self, BindError>;
}

impl<C: Column> Bound for Handle<C> {
    fn bound(binder: &Binder<'_>) -> Result<Self, BindError> {
        binder.column()
    }
}

/// What [`element!`](crate::element!) declares about a type of elements.
pub trait Declared: Sized {
    /// The class's specification.
    const SPEC: &'static Spec;
    /// Its parameters.
    type Params: Params;

    /// Sets the fields that depend on its place in a graph.
    ///
    /// # Errors
    /// [`BindError`].
    fn bind_fields(&mut self, _binder: &Binder<'_>) -> Result<(), BindError> {
        Ok(())
    }

    /// Continues with the fields that it keeps of its predecessor.
    fn keep(&mut self, _before: &mut Self) {}
}

/// [`Declared`] for an element of unknown type.
pub trait AnyDeclared: Any + Send {
    /// Its class.
    fn spec(&self) -> &'static Spec;

    /// See [`Declared::bind_fields`].
    ///
    /// # Errors
    /// [`BindError`].
    fn bind_fields(&mut self, binder: &Binder<'_>) -> Result<(), BindError>;

    /// See [`Declared::keep`]. Ignores elements of another type.
    fn keep(&mut self, before: &mut dyn Any);
}

impl<E: Declared + Any + Send> AnyDeclared for E {
    fn spec(&self) -> &'static Spec {
        E::SPEC
    }

    fn bind_fields(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        Declared::bind_fields(self, binder)
    }

    fn keep(&mut self, before: &mut dyn Any) {
        if let Some(before) = before.downcast_mut() {
            Declared::keep(self, before);
        }
    }
}

/// The part of an element off the packet path, which does not depend on the type of packets.
pub trait Control: AnyDeclared {
    /// Binds the element to its place in a graph. Called once, before it runs.
    ///
    /// # Errors
    /// [`BindError`].
    fn bind(&mut self, _binder: &Binder<'_>) -> Result<(), BindError> {
        Ok(())
    }

    /// Reads one of the class's handlers.
    fn read(&self, _handler: HandlerId) -> String {
        String::new()
    }

    /// Reads a handler with a parameter: `lookup 192.0.2.1`. Handlers without parameters ignore it.
    ///
    /// # Errors
    /// [`HandlerError::Value`].
    fn ask(&self, handler: HandlerId, _parameter: &str) -> Result<String, HandlerError> {
        Ok(self.read(handler))
    }

    /// Executes a write handler. Called between turns.
    ///
    /// # Errors
    /// [`HandlerError::Value`].
    fn write(&mut self, _handler: HandlerId, _value: &str) -> Result<(), HandlerError> {
        Ok(())
    }

    /// Continues from `before`, the element with the same name and class in the previous configuration, when the new
    /// configuration is about to run. Called on the packet thread: it must move state, not copy it. Packets left in
    /// `before` are dropped.
    fn take_over(&mut self, before: &mut dyn Any) {
        self.keep(before);
    }
}

/// An element: packets arrive at numbered inputs and leave by numbered outputs, batch by batch.
pub trait Element<P: PacketBuf>: Control {
    /// Processes `batch`, which arrived at `input`. Each slot must be sent to an output, dropped by `out`, or its
    /// packet taken out and kept. Slots keep their order from input to each output.
    ///
    /// Elements whose inputs pass no slots need not implement it.
    fn push(&mut self, _input: usize, _batch: &mut SlotList, _frame: &mut Frame<P>, _out: &mut Out<'_>) {}

    /// The same for a `burst` input: takes all packets out of `bursts`, and sends, drops or keeps each.
    fn burst(&mut self, _input: usize, _bursts: &mut Bursts<P>, _frame: &mut Frame<P>, _out: &mut Out<'_>) {}

    /// Called once per turn before the packets that reach the element in that turn, if its class has
    /// [`Hook::Begin`](crate::spec::Hook::Begin) or [`Hook::Pulls`](crate::spec::Hook::Pulls): for sources and pullers.
    fn begin(&mut self, _upstream: &mut Upstream<'_, P>, _frame: &mut Frame<P>, _out: &mut Out<'_>) {}

    /// Called once per turn after all packets were processed, if its class has [`Hook::End`](crate::spec::Hook::End):
    /// for sinks that collect packets.
    fn end(&mut self, _frame: &mut Frame<P>, _out: &mut Out<'_>) {}

    /// Reads and writes handlers of its graph, in which it is named `own`. Called once per turn after all packets have
    /// left the frame, if its class has [`Hook::Between`](crate::spec::Hook::Between). During the call its own handlers
    /// do not answer.
    fn between(&mut self, _own: &str, _graph: &mut Graph<P>, _now: Duration) {}

    /// Whether the run should end even if sources still have packets. Asked of elements with that hook.
    fn stops(&self) -> bool {
        false
    }

    /// Called at the start of a turn when a timer set by [`Out::wake_at`] has expired.
    fn timer(&mut self, _token: u64, _frame: &mut Frame<P>, _out: &mut Out<'_>) {}

    /// For an element that packets can be pulled from, a queue or an element between a queue and the puller: adds up to
    /// `want` packets to `into`, in order. `upstream` gives access to the elements behind its own inputs, by input
    /// number. Packets that cannot go to `output` go to other outputs or are dropped, by `out`.
    fn pull(
        &mut self,
        _output: usize,
        _want: usize,
        _into: &mut SlotList,
        _upstream: &mut Upstream<'_, P>,
        _frame: &mut Frame<P>,
        _out: &mut Out<'_>,
    ) {
    }

    /// The same for a puller that wants no slots: adds up to `want` packets to `into`, in order, for which there is room.
    /// `None` if the element has them in slots only. It must not pull from others, nor send or drop packets.
    fn pull_packets(
        &mut self,
        _output: usize,
        _want: usize,
        _into: &mut Burst<P>,
        _out: &mut Out<'_>,
    ) -> Option<usize> {
        None
    }

    /// Whether there is nothing to pull from it now. `false` if it does not know.
    fn is_dry(&self) -> bool {
        false
    }

    /// Whether [`begin`](Self::begin) does nothing while all elements that it pulls from are [dry](Self::is_dry).
    fn only_pulls(&self) -> bool {
        false
    }

    /// Opens the devices and files that it works with. Called once by [`Graph::open`](crate::Graph::open) on the
    /// control thread, before it runs. Not called for an element that takes over its predecessor's state.
    ///
    /// # Errors
    /// The reason, for the user.
    fn open(&mut self, _world: &mut dyn Environment<P>) -> Result<(), String> {
        Ok(())
    }

    /// What a source still has, if it ends or knows when it continues. A run is over when all such sources have
    /// [ended](Supply::Ended).
    fn supply(&self) -> Option<Supply> {
        None
    }

    /// An external error during the run, for the user, such as a damaged capture file.
    fn fault(&self) -> Option<String> {
        None
    }

    /// Number of packets that it keeps outside the frame.
    fn held(&self) -> usize {
        0
    }

    /// Removes all packets that it keeps, in order.
    fn drain(&mut self, _to: &mut dyn FnMut(P, Meta)) {}

    /// Gives back what only one graph may use, such as a port: another graph has replaced this one. It keeps no packet
    /// any more.
    fn retire(&mut self) {}

    /// Number of elements that a fused element represents: [`Control`] by [`part`](Self::part).
    fn parts(&self) -> usize {
        1
    }

    /// One of the [`parts`](Self::parts).
    fn part(&mut self, _at: usize) -> Option<&mut dyn Control> {
        None
    }
}

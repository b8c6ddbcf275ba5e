//! What an element is to the graph.

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
use scalebricks_io::PacketBuf;
use std::any::{Any, TypeId};
use std::time::Duration;

/// What an element leaves to its successor in a new configuration.
pub type State = Box<dyn Any + Send>;

/// Why an element cannot be part of a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// It asks for a column that its spec does not name.
    #[error("column {0} is not declared by the class")]
    Undeclared(&'static str),
    /// It cannot work with the ports or columns it got.
    #[error("{0}")]
    Refused(String),
}

/// Why a handler did not answer.
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
        /// What was asked for.
        handler: String,
    },
    /// The value is invalid.
    #[error("{0}")]
    Value(String),
}

/// An element's view of the graph while it is built.
#[derive(Debug)]
pub struct Binder<'a> {
    pub(crate) columns: &'a Columns,
    pub(crate) spec: &'static Spec,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// By output: whether it leads somewhere.
    pub(crate) connected: &'a [bool],
}

impl Binder<'_> {
    /// Input ports that the element has in this graph: all that must be connected, and others up to the last that is.
    pub const fn inputs(&self) -> usize {
        self.inputs
    }

    /// Output ports that the element has in this graph, counted in the same way.
    pub const fn outputs(&self) -> usize {
        self.outputs
    }

    /// Whether an output leads somewhere.
    pub fn is_connected(&self, output: usize) -> bool {
        self.connected.get(output).is_some_and(|&is| is)
    }

    /// Where the frame keeps a column that the class reads or writes.
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

/// An element off the packet path: what does not depend on the type of packets.
pub trait Control: Any + Send {
    /// Its class.
    fn spec(&self) -> &'static Spec;

    /// Learns its place in a graph. Called once, before it runs.
    ///
    /// # Errors
    /// [`BindError`].
    fn bind(&mut self, _binder: &Binder<'_>) -> Result<(), BindError> {
        Ok(())
    }

    /// Answers a read handler of its class.
    fn read(&self, _handler: HandlerId) -> String {
        String::new()
    }

    /// Answers a read handler of its class that was asked with a parameter: `lookup 192.0.2.1`. Handlers that take none
    /// ignore it.
    ///
    /// # Errors
    /// [`HandlerError::Value`].
    fn ask(&self, handler: HandlerId, _parameter: &str) -> Result<String, HandlerError> {
        Ok(self.read(handler))
    }

    /// Processes a write handler of its class. Called between turns.
    ///
    /// # Errors
    /// [`HandlerError::Value`].
    fn write(&mut self, _handler: HandlerId, _value: &str) -> Result<(), HandlerError> {
        Ok(())
    }

    /// Gives its state away, as a new configuration is about to run. Called on the packet thread, so it moves, and
    /// copies nothing.
    fn hand_over(&mut self) -> Option<State> {
        None
    }

    /// Takes the state of the element of the same name and class in the configuration before.
    ///
    /// # Errors
    /// Gives the state back if it cannot use it; the old element gets it again, and its packets are dropped.
    fn take_over(&mut self, state: State) -> Result<(), State> {
        Err(state)
    }
}

/// An element: packets come in by numbered inputs and leave by numbered outputs, batch by batch.
pub trait Element<P: PacketBuf>: Control {
    /// Works `batch` off, which came in by `input`: each slot goes to an output or is dropped by `out`, or its packet is
    /// taken out and kept. Slots keep their order from input to each output.
    ///
    /// An element whose inputs pass no slots does without it.
    fn push(&mut self, _input: usize, _batch: &mut SlotList, _frame: &mut Frame<P>, _out: &mut Out<'_>) {}

    /// The same for a `burst` input: takes all packets out of `bursts`, and sends each on, drops it or keeps it.
    fn burst(&mut self, _input: usize, _bursts: &mut Bursts<P>, _frame: &mut Frame<P>, _out: &mut Out<'_>) {}

    /// Called once a turn, before the packets that reach the element in that turn, if its class has
    /// [`Hook::Begin`](crate::spec::Hook::Begin) or [`Hook::Pulls`](crate::spec::Hook::Pulls): for sources, and for those
    /// who pull.
    fn begin(&mut self, _upstream: &mut Upstream<'_, P>, _frame: &mut Frame<P>, _out: &mut Out<'_>) {}

    /// Called once a turn after all packets were processed, if its class has [`Hook::End`](crate::spec::Hook::End): for
    /// sinks that collect.
    fn end(&mut self, _frame: &mut Frame<P>, _out: &mut Out<'_>) {}

    /// Reads and writes handlers of its graph, in which its name is `own`. Called once a turn, after all packets have left the frame, if
    /// its class has [`Hook::Between`](crate::spec::Hook::Between). While it is called, its own handlers do not answer.
    fn between(&mut self, _own: &str, _graph: &mut Graph<P>, _now: Duration) {}

    /// Whether the run is to end, whatever sources still have. Asked of elements with that hook.
    fn stops(&self) -> bool {
        false
    }

    /// A timer that it set by [`Out::wake_at`] has run out. Called at the start of a turn.
    fn timer(&mut self, _token: u64, _frame: &mut Frame<P>, _out: &mut Out<'_>) {}

    /// Itself as something that can be pulled from.
    fn as_pull(&mut self) -> Option<&mut dyn Pull<P>> {
        None
    }

    /// Opens the devices and files that it works with. Called once by [`Graph::open`](crate::Graph::open), on control's
    /// thread, before it runs. One that takes over its predecessor's state is not asked.
    ///
    /// # Errors
    /// Why it cannot, for the user.
    fn open(&mut self, _world: &mut dyn Environment<P>) -> Result<(), String> {
        Ok(())
    }

    /// What it still has, if it is a source that ends, or that knows when it goes on. A run is over when all that answer
    /// have [ended](Supply::Ended).
    fn supply(&self) -> Option<Supply> {
        None
    }

    /// What went wrong outside while it ran, for the user; such as a capture file that is broken.
    fn fault(&self) -> Option<String> {
        None
    }

    /// Packets that it keeps outside the frame.
    fn held(&self) -> usize {
        0
    }

    /// Gives away all packets that it keeps, in order.
    fn drain(&mut self, _to: &mut dyn FnMut(P, Meta)) {}

    /// Elements that this one stands for, if a fusion took their place: [`Control`] by [`part`](Self::part).
    fn parts(&self) -> usize {
        1
    }

    /// One of [`parts`](Self::parts); the element itself otherwise.
    fn part(&mut self, _at: usize) -> Option<&mut dyn Control> {
        None
    }
}

/// An element that is asked for packets: a queue, and whatever stands between a queue and the element that asks.
pub trait Pull<P: PacketBuf> {
    /// Adds up to `want` packets to `into`, in order. Those it asks itself stand behind `upstream`, by number of its
    /// inputs. What cannot go to `output` goes to other outputs or is dropped, by `out`.
    fn pull(
        &mut self,
        output: usize,
        want: usize,
        into: &mut SlotList,
        upstream: &mut Upstream<'_, P>,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    );
}

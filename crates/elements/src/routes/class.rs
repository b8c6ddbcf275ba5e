//! The element that looks up routes, and its classes.

use super::route::Family;
use super::table::{RouteError, Routes};
use crate::columns::NextAddress;
use scalebricks_graph::element::{BindError, HandlerError};
use scalebricks_graph::{Binder, DropId, Environment, Frame, Handle, Out, SLOTS, SlotList, Verdict};
use scalebricks_io::PacketBuf;
use scalebricks_tables::lpm::NextHop;
use std::path::Path;

/// The common state of all classes.
#[derive(Debug)]
pub(crate) struct Lookup<C: NextAddress> {
    pub(crate) routes: Routes<C::Address>,
    file: Option<String>,
    dst: Handle<C>,
}

impl<C: NextAddress> Lookup<C> {
    pub(crate) fn new(routes: Routes<C::Address>, file: Option<String>) -> Self {
        Self { routes, file, dst: Handle::default() }
    }

    /// Reads the routes of the file.
    pub(crate) fn open<P>(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        let Some(file) = &self.file else { return Ok(()) };
        let text = world.text(Path::new(file))?;
        self.routes.load(text).map_err(|error| format!("{file}: {error}"))
    }

    pub(crate) fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.dst = binder.column()?;
        self.routes.limit(binder.outputs()).map_err(|error| BindError::Refused(error.to_string()))
    }

    pub(crate) fn answer(&self, text: &str) -> Result<String, HandlerError> {
        let wrong = || HandlerError::Value(format!("expected an IP address, not `{text}`"));
        self.routes.answer(text).ok_or_else(wrong)
    }

    /// Looks up the whole batch.
    pub(crate) fn push<P: PacketBuf>(
        &mut self,
        batch: &mut SlotList,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
        no_route: DropId,
    ) {
        let dst = frame.column_mut(self.dst);
        let Some(first) = batch.iter().next().map(|slot| dst[slot].address()) else { return };
        let (mut addresses, mut hops) = ([first; SLOTS], [None::<NextHop>; SLOTS]);
        for (address, slot) in addresses.iter_mut().zip(batch.iter()) {
            *address = dst[slot].address();
        }
        let (addresses, hops) = (&addresses[..batch.len()], &mut hops[..batch.len()]);
        self.routes.lookup(addresses, hops);
        let mut found = hops.iter();
        out.split(batch, |slot| {
            let Some(&Some(hop)) = found.next() else { return Verdict::Drop(no_route) };
            let target = self.routes.target(hop);
            if let Some(gateway) = target.gateway {
                dst[slot] = C::of(gateway);
            }
            Verdict::Out(target.output.into())
        });
    }
}

pub(crate) fn refused<A: Family>(error: &RouteError<A>) -> HandlerError {
    HandlerError::Value(error.to_string())
}

/// Declares a class: its documentation, name, parameters' name, address, its column, and table. With `changes` at the end
/// its routes can be changed.
macro_rules! lookup_class {
    ($(#[doc = $doc:literal])+ $name:ident as $class:literal, $params:ident, $address:ident, $column:ident, $example:tt, $table:expr, $($changes:ident)?) => {
        crate::routes::class::lookup_class! { @declare $($changes)?, $(#[doc = $doc])+ $name, $class, $params, $address, $column, $example }

        impl scalebricks_graph::Class for $name {
            fn make(params: $params) -> Result<Self, String> {
                let mut routes = crate::routes::Routes::new($table);
                for route in params.routes {
                    routes.add(route, false).map_err(|error| error.to_string())?;
                }
                Ok(Self { lookup: crate::routes::class::Lookup::new(routes, params.file) })
            }
        }

        impl scalebricks_graph::Control for $name {
            fn bind(
                &mut self,
                binder: &scalebricks_graph::Binder<'_>,
            ) -> Result<(), scalebricks_graph::element::BindError> {
                self.lookup.bind(binder)
            }

            fn read(&self, handler: scalebricks_graph::HandlerId) -> String {
                match handler {
                    Self::TABLE => self.lookup.routes.list(),
                    Self::ROUTES => self.lookup.routes.len().to_string(),
                    _ => String::new(),
                }
            }

            fn ask(
                &self,
                handler: scalebricks_graph::HandlerId,
                parameter: &str,
            ) -> Result<String, scalebricks_graph::element::HandlerError> {
                if handler == Self::LOOKUP { self.lookup.answer(parameter) } else { Ok(self.read(handler)) }
            }

            $(crate::routes::class::lookup_class! { @$changes })?
        }

        impl $name {
            /// The routes.
            pub(crate) const fn routes(&self) -> &crate::routes::Routes<$address> {
                &self.lookup.routes
            }
        }

        impl<P: scalebricks_io::PacketBuf> scalebricks_graph::Element<P> for $name {
            fn push(
                &mut self,
                _: usize,
                batch: &mut scalebricks_graph::SlotList,
                frame: &mut scalebricks_graph::Frame<P>,
                out: &mut scalebricks_graph::Out<'_>,
            ) {
                self.lookup.push(batch, frame, out, Self::NO_ROUTE);
            }

            fn open(&mut self, world: &mut dyn scalebricks_graph::Environment<P>) -> Result<(), String> {
                self.lookup.open(world)
            }
        }
    };
    (@changes) => {
        fn write(
            &mut self,
            handler: scalebricks_graph::HandlerId,
            value: &str,
        ) -> Result<(), scalebricks_graph::element::HandlerError> {
            let routes = &mut self.lookup.routes;
            let done = match handler {
                Self::ADD => routes.execute("add", value).map(|_| ()),
                Self::SET => routes.execute("set", value).map(|_| ()),
                Self::REMOVE => routes.execute("remove", value).map(|_| ()),
                _ => routes.execute_all(value),
            };
            done.map_err(|error| crate::routes::class::refused(&error))
        }
    };
    (@declare changes, $(#[doc = $doc:literal])+ $name:ident, $class:literal, $params:ident, $address:ident, $column:ident, $example:tt) => {
        crate::routes::class::lookup_class! {
            @with {
                write ADD = "add": "Adds a route, `ADDR/MASK [GATEWAY] OUTPUT`; a different route for the same prefix is an error.",
                write SET = "set": "Adds a route, replacing one of the same prefix.",
                write REMOVE = "remove": "Removes a route, `ADDR/MASK [[GATEWAY] OUTPUT]`; gateway and output must match, if given.",
                write CTRL = "ctrl": "Executes lines of `add`, `set` and `remove`, each with a route: all, or none.",
            }
            $(#[doc = $doc])+ $name, $class, $params, $address, $column, $example
        }
    };
    (@declare , $(#[doc = $doc:literal])+ $name:ident, $class:literal, $params:ident, $address:ident, $column:ident, $example:tt) => {
        crate::routes::class::lookup_class! { @with {} $(#[doc = $doc])+ $name, $class, $params, $address, $column, $example }
    };
    (@with { $($handlers:tt)* } $(#[doc = $doc:literal])+ $name:ident, $class:literal, $params:ident, $address:ident, $column:ident, $example:tt) => {
        use crate::columns::$column;
        use crate::routes::Route;
        use std::net::$address;

        scalebricks_graph::element! {
            $(#[doc = $doc])+
            pub struct $name as $class { lookup: crate::routes::class::Lookup<$column>, }
            inputs { push "in": "Packets.", }
            outputs { push "out" [OneOrMore]: "Packets whose route has this output.", }
            params $params {
                /// Routes: network, optional gateway, output.
                routes: Vec<Route<$address>> = Vec::new(),
                /// A file with further routes, one per line, plain or gzipped. It is read when the graph is opened. Its routes
                /// replace earlier ones of the same prefix.
                file: Option<String> = None,
            }
            example $example
            reads { $column, }
            writes { $column, }
            drops { NO_ROUTE = crate::gateway::DropReason::NoRoute, }
            handlers {
                read TABLE = "table": "All routes, one per line: network, gateway or `-`, output.",
                read ROUTES = "routes": "Number of routes.",
                read LOOKUP = "lookup": "With an address as parameter: the output, and the gateway if the route has one; -1 without a route.",
                $($handlers)*
            }
        }
    };
}

pub(crate) use lookup_class;

//! The element that looks up routes, and its classes.

use super::table::{RouteError, Routes};
use crate::columns::DstIp;
use crate::split::{Destination, split};
use scalebricks_graph::element::{BindError, HandlerError};
use scalebricks_graph::{Binder, DropId, Frame, Handle, Out, SLOTS, SlotList};
use scalebricks_io::PacketBuf;
use scalebricks_tables::lpm::NextHop;
use std::net::Ipv4Addr;

/// The common state of all classes.
#[derive(Debug)]
pub(crate) struct Lookup {
    pub(crate) routes: Routes,
    dst: Handle<DstIp>,
}

impl Lookup {
    pub(crate) fn new(routes: Routes) -> Self {
        Self { routes, dst: Handle::default() }
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
        let (mut addresses, mut hops) = ([Ipv4Addr::UNSPECIFIED; SLOTS], [None::<NextHop>; SLOTS]);
        for (address, slot) in addresses.iter_mut().zip(batch.iter()) {
            *address = dst[slot].0;
        }
        let (addresses, hops) = (&addresses[..batch.len()], &mut hops[..batch.len()]);
        self.routes.lookup(addresses, hops);
        let mut ways = [Destination::Drop(no_route); SLOTS];
        for ((way, hop), slot) in ways.iter_mut().zip(&*hops).zip(batch.iter()) {
            let Some(target) = hop.map(|hop| self.routes.target(hop)) else { continue };
            *way = Destination::Out(target.output);
            if let Some(gateway) = target.gateway {
                dst[slot] = DstIp(gateway);
            }
        }
        split(batch, &ways[..hops.len()], out);
    }
}

pub(crate) fn refused(error: &RouteError) -> HandlerError {
    HandlerError::Value(error.to_string())
}

/// Declares a class: its documentation, name, parameters' name, and table. With `changes` at the end its routes can be
/// changed.
macro_rules! lookup_class {
    ($(#[doc = $doc:literal])+ $name:ident as $class:literal, $params:ident, $table:expr, $($changes:ident)?) => {
        crate::routes::class::lookup_class! { @declare $($changes)?, $(#[doc = $doc])+ $name, $class, $params }

        impl scalebricks_graph::Class for $name {
            fn make(params: $params) -> Result<Self, String> {
                let mut routes = crate::routes::Routes::new($table);
                for route in params.routes {
                    routes.add(route, false).map_err(|error| error.to_string())?;
                }
                Ok(Self { lookup: crate::routes::class::Lookup::new(routes) })
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
    (@declare changes, $(#[doc = $doc:literal])+ $name:ident, $class:literal, $params:ident) => {
        crate::routes::class::lookup_class! {
            @with {
                write ADD = "add": "Adds a route, `ADDR/MASK [GATEWAY] OUTPUT`; a different route for the same prefix is an error.",
                write SET = "set": "Adds a route, replacing one of the same prefix.",
                write REMOVE = "remove": "Removes a route, `ADDR/MASK [[GATEWAY] OUTPUT]`; gateway and output must match, if given.",
                write CTRL = "ctrl": "Executes lines of `add`, `set` and `remove`, each with a route: all, or none.",
            }
            $(#[doc = $doc])+ $name, $class, $params
        }
    };
    (@declare , $(#[doc = $doc:literal])+ $name:ident, $class:literal, $params:ident) => {
        crate::routes::class::lookup_class! { @with {} $(#[doc = $doc])+ $name, $class, $params }
    };
    (@with { $($handlers:tt)* } $(#[doc = $doc:literal])+ $name:ident, $class:literal, $params:ident) => {
        use crate::columns::DstIp;
        use crate::routes::Route;

        scalebricks_graph::element! {
            $(#[doc = $doc])+
            pub struct $name as $class { lookup: crate::routes::class::Lookup, }
            inputs { push "in": "Packets.", }
            outputs { push "out" [OneOrMore]: "Packets whose route has this output.", }
            params $params {
                /// Routes: network, optional gateway, output.
                routes: Vec<Route> = Vec::new(),
            }
            example { "0.0.0.0/0 0", "10.0.0.0/8 10.0.0.1 1", }
            reads { DstIp, }
            writes { DstIp, }
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

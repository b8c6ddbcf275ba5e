//! Route lookup for Click's classes, IPv4 and IPv6: one implementation over [`scalebricks_tables::lpm`].
//!
//! | module | contents |
//! |---|---|
//! | [`route`] | routes in Click's notation |
//! | [`table`] | routes by prefix, and numbered next hops |
//! | [`class`] | the element, and the macro that declares its classes |

pub(crate) mod class;
mod route;
mod table;

pub use route::{Family, Route};
pub(crate) use table::Routes;

//! Route lookup for four Click classes: one implementation over [`scalebricks_tables::lpm`].
//!
//! | module | contents |
//! |---|---|
//! | [`route`] | routes in Click's notation |
//! | [`table`] | routes by prefix, and numbered next hops |
//! | [`class`] | the element, and the macro that declares its classes |

pub(crate) mod class;
mod route;
mod table;

pub use route::Route;
pub(crate) use table::Routes;

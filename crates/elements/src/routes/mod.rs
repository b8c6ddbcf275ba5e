//! Route lookup, which four classes of Click share: here they are one implementation over [`scalebricks_tables::lpm`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`route`] | a route as Click writes it |
//! | [`table`] | routes by prefix, and next hops by number |
//! | [`class`] | the element, and the macro that declares the classes |

pub(crate) mod class;
mod route;
mod table;

pub use route::Route;
pub(crate) use table::Routes;

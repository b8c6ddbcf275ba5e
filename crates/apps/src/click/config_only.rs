//! Classes that exist in configurations but not in graphs: they give information to the program that runs the graph.

use super::control_socket::ControlSocket;
use scalebricks_graph::{Spec, element};

element! {
    /// Names addresses: `AddressInfo(eth0 10.0.0.1/8 02:00:00:00:00:01, server 10.0.0.7)`. A name can replace its
    /// address where another element's parameter is an address; `eth0:ip`, `eth0:ipnet`, `eth0:eth` and `eth0:ip6` work
    /// in every argument. A name is visible in the compound that defines it, and inside.
    pub struct AddressInfo as "AddressInfo" {}
}

element! {
    /// Accepted without effect: elements have no scheduling parameters.
    pub struct ScheduleInfo as "ScheduleInfo" {}
}

element! {
    /// Accepted without effect: a graph runs on one worker.
    pub struct StaticThreadSched as "StaticThreadSched" {}
}

const CLASSES: [&Spec; 4] =
    [AddressInfo::SPEC, ControlSocket::SPEC, ScheduleInfo::SPEC, StaticThreadSched::SPEC];

/// All such classes.
pub fn specs() -> impl Iterator<Item = &'static Spec> {
    CLASSES.into_iter()
}

/// The class with this name.
pub fn spec(class: &str) -> Option<&'static Spec> {
    specs().find(|spec| spec.class == class)
}

/// Whether an element of the class has no effect at all.
pub fn is_ignored(class: &str) -> bool {
    [ScheduleInfo::SPEC, StaticThreadSched::SPEC].iter().any(|spec| spec.class == class)
}

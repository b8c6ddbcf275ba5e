//! Elements of the data plane's graph, one a file.
//!
//! An element is its file and a line below: the line makes the file part of the crate and its class part of [`registry`].

#![forbid(unsafe_code)]

pub mod columns;
pub mod filter;
mod frames;
mod handler;
#[cfg(test)]
mod outside;
mod recorder;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod rig_ip;
mod routes;
mod split;

/// Declares a module for each element, re-exports the element, and registers its class. Elements in `[folder]` are files of
/// that folder. `fuse` names classes that run in one loop where they follow each other.
macro_rules! elements {
    (
        $($kind:ident $module:ident $name:ident $(<$packet:ident>)?;)+
        $([$folder:ident] { $($in_kind:ident $in_module:ident $in_name:ident $(<$in_packet:ident>)?;)+ })*
        $(=> fuse $fused:ty;)*
    ) => {
        $(mod $module; pub use $module::$name;)+
        $(mod $folder { $(mod $in_module; pub use $in_module::$in_name;)+ } pub use $folder::{$($in_name),+};)*

        /// All classes of this crate.
        pub fn registry<P: scalebricks_io::PacketBuf + 'static>() -> scalebricks_graph::Registry<P> {
            let mut registry = scalebricks_graph::Registry::new();
            $(elements!(@$kind registry, $name $(<$packet>)?);)+
            $($(elements!(@$in_kind registry, $in_name $(<$in_packet>)?);)+)*
            $(registry.fuse::<$fused>();)*
            registry
        }

        #[cfg(test)]
        const CLASSES: usize = [$(stringify!($name)),+ $($(, stringify!($in_name))+)*].len();
    };
    (@whole $registry:ident, $class:ty) => { $registry.add::<$class>() };
    (@small $registry:ident, $class:ty) => { $registry.add_small::<$class>() };
}

elements! {
    small check_paint CheckPaint;
    small counter Counter;
    whole discard Discard;
    whole from_device FromDevice<P>;
    whole from_dump FromDump;
    whole hash_switch HashSwitch;
    whole idle Idle;
    whole infinite_source InfiniteSource;
    whole null Null;
    small paint Paint;
    whole paint_switch PaintSwitch;
    whole paint_tee PaintTee;
    whole poll_device PollDevice<P>;
    whole queue Queue<P>;
    whole rated_source RatedSource;
    whole round_robin_switch RoundRobinSwitch;
    whole switch Switch;
    whole tee Tee;
    whole to_device ToDevice<P>;
    whole to_dump ToDump;
    whole unqueue Unqueue;
    [ip] {
        whole direct_ip_lookup DirectIPLookup;
        whole ip_classifier IPClassifier;
        whole ip_filter IPFilter;
        whole linear_ip_lookup LinearIPLookup;
        whole radix_ip_lookup RadixIPLookup;
        whole static_ip_lookup StaticIPLookup;
    }
}

#[cfg(test)]
mod tests {
    use scalebricks_graph::describe::Page;
    use scalebricks_io::Packet;

    /// `UPDATE_DOCS=1 cargo test -p scalebricks-elements` writes the page anew.
    #[test]
    fn the_page_about_elements_is_that_of_their_specs() {
        let specs: Vec<_> = crate::registry::<Packet>().specs().collect();
        let page = format!(
            "<!-- Generated from the elements' specs by a test of scalebricks-elements. -->\n{}",
            Page(&specs)
        );
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/elements.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page, "docs/elements.md is not up to date: run this test with UPDATE_DOCS=1");
    }

    #[test]
    fn every_class_is_documented_throughout() {
        let registry = crate::registry::<Packet>();
        let specs: Vec<_> = registry.specs().collect();
        assert_eq!(specs.len(), crate::CLASSES, "two classes of one name");
        for spec in specs {
            assert!(!spec.doc.is_empty(), "{}", spec.class);
            let ports = spec.inputs.iter().chain(spec.outputs).map(|port| port.doc);
            let counted =
                spec.drops.iter().map(|drop| drop.doc).chain(spec.counters.iter().map(|counter| counter.doc));
            let params = spec.params.iter().map(|param| param.doc.last().copied().unwrap_or_default());
            for doc in
                ports.chain(counted).chain(spec.handlers.iter().map(|handler| handler.doc)).chain(params)
            {
                assert!(doc.trim().ends_with('.'), "{}: {doc:?}", spec.class);
            }
        }
    }
}

//! Gives the shared library its name for the dynamic linker. Until 1.0, each minor version is another interface.

#![forbid(unsafe_code)]

fn main() {
    let version = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libscalebricks.so.{}.{}", version.0, version.1);
    println!("cargo::rerun-if-changed=build.rs");
}

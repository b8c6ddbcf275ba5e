//! The committed header is the one that cbindgen makes of the sources.

#![forbid(unsafe_code)]

use std::path::Path;

/// The sources, in the order of the header; `gpt/mod.rs` names further ones.
const SOURCES: [&str; 5] = ["status.rs", "buffers.rs", "hash.rs", "gpt/mod.rs", "fib.rs"];

#[test]
fn the_header_is_that_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml is valid");
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = SOURCES.iter().fold(builder, |builder, file| builder.with_src(root.join("src").join(file)));
    let mut text = Vec::new();
    builder.generate().expect("cbindgen reads the sources").write(&mut text);
    let header = root.join("include/scalebricks.h");
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&header, &text).expect("the header can be written");
    }
    let committed = std::fs::read(&header).unwrap_or_default();
    assert!(
        committed == text,
        "include/scalebricks.h is not that of the sources: UPDATE_HEADER=1 cargo test -p scalebricks-capi"
    );
}

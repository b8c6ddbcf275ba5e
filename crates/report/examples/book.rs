//! Builds the site of the documentation: `cargo run -p scalebricks-report --example book` writes `target/book`, as
//! `mdbook build docs` does, with the mdBook of this workspace. The preprocessor in `docs/book.toml` needs python3.

#![forbid(unsafe_code)]

use mdbook_driver::MDBook;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    match MDBook::load(&docs).and_then(|book| book.build().map(|()| book.build_dir_for("html"))) {
        Ok(site) => {
            // A closed pipe is no failure of the work.
            let _ = writeln!(std::io::stdout(), "{}", site.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "cannot build the site of {}: {error:#}", docs.display());
            ExitCode::FAILURE
        }
    }
}

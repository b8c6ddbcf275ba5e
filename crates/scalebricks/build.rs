//! Tells the program its commit: `SCALEBRICKS_COMMIT` of the environment, for builds from an archive, or that of the
//! checkout, or `unknown`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=SCALEBRICKS_COMMIT");
    // Changes with every commit and every checkout.
    let log = Path::new("../../.git/logs/HEAD");
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    } else {
        println!("cargo::rerun-if-changed=build.rs");
    }
    let commit = std::env::var("SCALEBRICKS_COMMIT").ok().or_else(commit);
    println!("cargo::rustc-env=SCALEBRICKS_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// The commit that is checked out.
fn commit() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| commit.trim().to_owned()).filter(|commit| !commit.is_empty())
}

//! `SCALEBRICKS_LOG`: which log lines a daemon writes.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::process::Command;

/// What a switch whose configuration is missing writes to standard error under this filter.
fn complaints(filter: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scalebricks"));
    let out = command
        .args(["switch", "run", "--config", "/missing/switch.toml"])
        .env("SCALEBRICKS_LOG", filter)
        .output();
    String::from_utf8(out.unwrap().stderr).unwrap()
}

#[test]
fn a_filter_that_is_not_understood_is_reported_and_others_are_not() {
    let said = complaints("scalebricks=loud");
    assert!(said.contains("WARN") && said.contains("SCALEBRICKS_LOG is not understood"), "{said}");
    for filter in ["warn", "info,scalebricks_cluster=debug"] {
        let said = complaints(filter);
        assert!(said.contains("/missing/switch.toml") && !said.contains("SCALEBRICKS_LOG"), "{said}");
    }
}

//! The program, and files for it.

use std::path::Path;
use std::process::{Command, Output};

/// Runs the program in a folder.
pub fn scalebricks(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_scalebricks")).args(args).current_dir(folder).output().unwrap()
}

/// Runs `scalebricks switch` in a folder.
pub fn switch(folder: &Path, args: &[&str]) -> Output {
    scalebricks(folder, &[&["switch"], args].concat())
}

/// Standard output of a run that must succeed.
pub fn said(folder: &Path, args: &[&str]) -> String {
    let output = switch(folder, args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {}\n{error}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Status and standard error of a run that must not.
pub fn refused(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = switch(folder, args);
    assert!(!output.status.success(), "{args:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// The example of the repository.
pub fn example(folder: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/switch");
    for name in ["switch.toml", "names.csv"] {
        std::fs::copy(from.join(name), folder.join(name)).unwrap();
    }
}

/// A frame from a station to another: UDP in IPv4 of this time to live.
pub fn frame(dst: [u8; 6], ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2([0x02, 0, 0, 0, 9, 9], dst)
        .ipv4([192, 0, 2, 1], [198, 51, 100, 7], ttl)
        .udp(1_000, 2_000)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

pub const fn mac(rack: u8, machine: u8) -> [u8; 6] {
    [0x02, 0, 0, 0, rack, machine]
}

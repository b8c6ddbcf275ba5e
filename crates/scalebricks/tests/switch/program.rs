//! The switch as a program, and files for it.

use crate::harness;
pub use crate::harness::scalebricks;
use std::path::Path;
use std::process::Output;

/// Runs `scalebricks switch` in a folder.
pub fn switch(folder: &Path, args: &[&str]) -> Output {
    scalebricks(folder, &[&["switch"], args].concat())
}

/// Standard output of a run that must succeed.
pub fn said(folder: &Path, args: &[&str]) -> String {
    harness::said(folder, &[&["switch"], args].concat())
}

/// Status and standard error of a run that must fail.
pub fn refused(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let (status, error) = harness::refused(folder, &[&["switch"], args].concat());
    (Some(status), error)
}

/// The example of the repository.
pub fn example(folder: &Path) {
    harness::example("switch", folder);
}

/// A frame of a station to another: UDP in IPv4 with this time to live.
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

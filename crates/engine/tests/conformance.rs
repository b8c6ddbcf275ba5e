//! The embedded log keeps the guarantees of the interface: in a directory, and on a simulated disk with segments so
//! small that every test uses many, and with reads and writes of a few bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use scalebricks_engine::conformance::Lab;
use scalebricks_engine::embedded::memory::MemoryDisk;
use scalebricks_engine::embedded::{EmbeddedLog, Options};

struct OnDirectory(tempfile::TempDir);

impl Lab for OnDirectory {
    type Engine = EmbeddedLog;

    async fn open(&self) -> EmbeddedLog {
        EmbeddedLog::open(self.0.path(), Options::default()).unwrap()
    }
}

struct InMemory(MemoryDisk);

impl Lab for InMemory {
    type Engine = EmbeddedLog;

    async fn open(&self) -> EmbeddedLog {
        self.0.set_transfer(Some(1000));
        let options = Options { segment_bytes: 4 << 10, group_bytes: 2 << 10, ..Options::default() };
        EmbeddedLog::open_on(self.0.storage(), options).unwrap()
    }
}

mod on_a_directory {
    scalebricks_engine::conformance_tests!(
        super::OnDirectory(tempfile::tempdir().unwrap()),
        pollster::block_on
    );
}

mod in_memory_and_small {
    scalebricks_engine::conformance_tests!(super::InMemory(super::MemoryDisk::default()), pollster::block_on);
}

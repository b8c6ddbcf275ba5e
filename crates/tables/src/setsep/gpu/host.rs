//! Compiles `kernels.cu` as C++ and runs it on this processor: each thread is a fiber (`host/shim.h`).

use super::plan::Plan;
use super::reference::Arrays;
use std::fs;
use std::io::Write;
use std::process::Command;
use tempfile::TempDir;

/// The order in which threads and thread blocks take turns.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    Forward,
    Backward,
}

/// Keys as the kernels take them.
#[derive(Debug)]
pub(super) enum Keys<'a> {
    Hashes(&'a [u64]),
    /// Keys of this many words, to be hashed from this state of the hasher.
    Words(&'a [u64], usize, [u64; 4]),
}

/// The kernels of one table as a program.
#[derive(Debug)]
pub(super) struct Program {
    directory: TempDir,
    plan: Plan,
}

impl Program {
    /// Compiles the kernels, or prints why the test is skipped: there is no C++ compiler.
    ///
    /// # Panics
    /// If the kernels do not compile.
    pub(super) fn compile(plan: Plan, kernels: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("kernels.cpp");
        let parts = [include_str!("host/shim.h"), &plan.macros(), kernels, include_str!("host/main.cpp")];
        fs::write(&source, parts.concat()).unwrap();
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
        let compiled = Command::new(&compiler)
            .args(["-std=c++14", "-O1", "-fno-strict-aliasing"])
            .arg("-o")
            .arg(directory.path().join("kernels"))
            .arg(&source)
            .output();
        let output = match compiled {
            Ok(output) => output,
            Err(error) => {
                let how = "on Debian: apt install g++";
                writeln!(std::io::stderr(), "skipped: no C++ compiler {compiler} ({error}; {how})").unwrap();
                return None;
            }
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(Self { directory, plan })
    }

    /// Runs all kernels.
    ///
    /// # Panics
    /// If the program fails, for instance because threads wait for each other for ever.
    pub(super) fn run(&self, keys: &Keys<'_>, values: &[u8], order: Order) -> Arrays {
        let (words, each, state) = match *keys {
            Keys::Hashes(hashes) => (hashes, 0, [0; 4]),
            Keys::Words(words, each, state) => (words, each, state),
        };
        let count = values.len();
        let head = [count as u64, each as u64].into_iter().chain(state);
        let mut input: Vec<u8> = head.chain(words.iter().copied()).flat_map(u64::to_ne_bytes).collect();
        input.extend_from_slice(values);
        let path = |name: &str| self.directory.path().join(name);
        fs::write(path("input"), input).unwrap();
        let output = Command::new(path("kernels"))
            .args([path("input"), path("output")])
            .arg(if matches!(order, Order::Forward) { "0" } else { "1" })
            .output()
            .unwrap();
        assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        let output = fs::read(path("output")).unwrap();
        let mut rest = output.as_slice();
        let blocks = self.plan.params.blocks() as usize;
        let status = words_of(&mut rest, 2);
        Arrays {
            status: [status[0], status[1]],
            table: words_of(&mut rest, self.plan.table_words()),
            marks: words_of(&mut rest, blocks),
            hashes: words_of(&mut rest, count),
            counts: halves_of(&mut rest, blocks),
            starts: halves_of(&mut rest, blocks),
            totals: halves_of(&mut rest, self.plan.tiles()),
            values: rest.to_vec(),
        }
    }
}

fn words_of(rest: &mut &[u8], count: usize) -> Vec<u64> {
    let (these, others) = rest.split_at(count * 8);
    *rest = others;
    these.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect()
}

fn halves_of(rest: &mut &[u8], count: usize) -> Vec<u32> {
    let (these, others) = rest.split_at(count * 4);
    *rest = others;
    these.as_chunks().0.iter().map(|bytes| u32::from_ne_bytes(*bytes)).collect()
}

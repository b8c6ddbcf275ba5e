//! Files over TCP, paced, in both directions, each with `curl`: they must be whole at the end, whatever breaks meanwhile.

use super::LabError;
use super::exec::Cmd;
use super::http;
use super::nodes::{Process, Processes};
use super::plan::{Family, HTTP_PORT, Ue};
use super::state;
use scalebricks_console::Interrupt;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Octets a second of each transfer.
const RATE: u64 = 50_000;

/// How long a transfer may take beyond its time: TCP doubles its pauses while nothing gets through.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Transfers under way.
pub struct Transfers {
    running: Vec<Transfer>,
    size: u64,
}

struct Transfer {
    name: String,
    process: Process,
    /// Where a download goes.
    file: Option<PathBuf>,
}

/// What became of transfers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finished {
    /// How many there were.
    pub started: u64,
    /// Those that are whole.
    pub completed: u64,
    /// What the others came to.
    pub failed: Vec<String>,
}

impl Transfers {
    /// Starts a download over IPv4 and an upload over IPv6 for each phone, each so large that it takes this long.
    ///
    /// # Errors
    /// As [`Processes::start`].
    pub fn start(processes: Processes<'_>, phones: &[Ue], lasts: Duration) -> Result<Self, LabError> {
        let size = lasts.as_secs().max(1) * RATE;
        let upload = processes.directory.join("upload");
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)]; // a few MB
        http::fill(0, &mut bytes);
        state::write(&upload, &bytes)?;
        let mut running = Vec::new();
        for ue in phones {
            let name = format!("download-{}", ue.number);
            let file = processes.directory.join(format!("{name}.bytes"));
            let line = curl(*ue, Family::V4, size, &format!("-o {}", file.display()));
            let process = processes.start(&name, &Cmd::new(&line).inside(&processes.plan.ue()))?;
            running.push(Transfer { name, process, file: Some(file) });
            let name = format!("upload-{}", ue.number);
            let line = curl(*ue, Family::V6, size, &format!("-H Expect: -T {}", upload.display()));
            let process = processes.start(&name, &Cmd::new(&line).inside(&processes.plan.ue()))?;
            running.push(Transfer { name, process, file: None });
        }
        Ok(Self { running, size })
    }

    /// Waits until all have ended, and says what became of them.
    ///
    /// # Errors
    /// [`LabError::Interrupted`].
    pub fn finish(self, interrupt: &Interrupt) -> Result<Finished, LabError> {
        let mut finished = Finished { started: self.running.len() as u64, ..Finished::default() };
        let began = Instant::now();
        for Transfer { name, mut process, file } in self.running {
            let status = loop {
                match process.status() {
                    Some(status) => break status.success().then_some(()).ok_or_else(|| process.log()),
                    None if began.elapsed() > PATIENCE => {
                        process.kill();
                        break Err(format!("no end {} s later", PATIENCE.as_secs()));
                    }
                    None => {
                        interrupt.check()?;
                        thread::sleep(LOOK_EVERY);
                    }
                }
            };
            match status.and_then(|()| file.map_or(Ok(()), |file| compare(file, self.size))) {
                Ok(()) => finished.completed += 1,
                Err(why) => finished.failed.push(format!("{name}: {}", why.trim())),
            }
        }
        Ok(finished)
    }
}

fn curl(ue: Ue, family: Family, size: u64, what: &str) -> String {
    let host = match family.host() {
        IpAddr::V4(host) => host.to_string(),
        IpAddr::V6(host) => format!("[{host}]"),
    };
    let (option, from) = (family.option(), ue.address(family));
    format!(
        "curl {option} -gsSf --limit-rate {RATE} --interface {from} {what} http://{host}:{HTTP_PORT}/{size}"
    )
}

/// Whether a downloaded file is whole and right.
fn compare(file: PathBuf, size: u64) -> Result<(), String> {
    let bytes = fs::read(&file).map_err(|error| error.to_string())?;
    drop(fs::remove_file(file));
    match http::first_difference(&bytes) {
        _ if bytes.len() as u64 != size => Err(format!("{} of {size} octets", bytes.len())),
        Some(place) => Err(format!("octet {place} differs")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_is_compared_octet_by_octet() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, change: fn(&mut Vec<u8>)| {
            let path = directory.path().join(name);
            let mut bytes = vec![0; 5_000];
            http::fill(0, &mut bytes);
            change(&mut bytes);
            fs::write(&path, bytes).unwrap();
            path
        };
        assert_eq!(compare(file("whole", |_| ()), 5_000), Ok(()));
        assert!(
            compare(file("short", |bytes| bytes.truncate(4_999)), 5_000).unwrap_err().contains("4999 of")
        );
        assert!(compare(file("wrong", |bytes| bytes[77] ^= 1), 5_000).unwrap_err().contains("octet 77"));
        assert!(compare(directory.path().join("none"), 5_000).is_err());
    }
}

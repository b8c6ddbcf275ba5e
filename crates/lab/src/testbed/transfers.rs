//! Paced files over TCP in both directions with `curl`. They must be complete and unchanged at the end of an outage.

use super::LabError;
use super::context::{LabContext, poll};
use super::http;
use super::nodes::Process;
use super::plan::{Family, Ue};
use super::state;
use scalebricks_console::Interrupt;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Octets per second of each transfer.
const RATE: u64 = 50_000;

/// Additional time that a transfer may take: TCP doubles its pauses while packets are lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time between two looks at a transfer.
const PAUSE: Duration = Duration::from_millis(20);

/// Transfers that are running.
pub struct Transfers {
    running: Vec<Transfer>,
    size: u64,
}

struct Transfer {
    name: String,
    process: Process,
    /// The file of a download.
    file: Option<PathBuf>,
}

/// The results of transfers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finished {
    /// Transfers that were started.
    pub started: u64,
    /// Transfers that are complete and unchanged.
    pub completed: u64,
    /// The errors of all others.
    pub failed: Vec<String>,
}

impl Transfers {
    /// Starts a download over IPv4 and an upload over IPv6 for each phone, each so large that it takes this long.
    ///
    /// # Errors
    /// As [`LabContext::start`].
    pub fn start(context: LabContext<'_>, phones: &[Ue], lasts: Duration) -> Result<Self, LabError> {
        let size = lasts.as_secs().max(1) * RATE;
        let upload = context.path("upload");
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)]; // a few MB
        http::fill(0, &mut bytes);
        state::write(&upload, &bytes)?;
        let mut running = Vec::new();
        for ue in phones {
            let file = context.path(format!("download-{}.bytes", ue.number));
            let download = (Family::V4, "download", format!("-o {}", file.display()), Some(file));
            let upload = (Family::V6, "upload", format!("-H Expect: -T {}", upload.display()), None);
            for (family, name, options, file) in [download, upload] {
                let name = format!("{name}-{}", ue.number);
                let options = format!("--limit-rate {RATE} {options}");
                let process = context.start(&name, &context.curl(*ue, family, size, &options))?;
                running.push(Transfer { name, process, file });
            }
        }
        Ok(Self { running, size })
    }

    /// Waits until all have ended, and checks them.
    ///
    /// # Errors
    /// [`LabError::Interrupted`].
    pub fn finish(self, interrupt: &Interrupt) -> Result<Finished, LabError> {
        let mut finished = Finished { started: self.running.len() as u64, ..Finished::default() };
        let began = Instant::now();
        for Transfer { name, mut process, file } in self.running {
            let left = PATIENCE.saturating_sub(began.elapsed());
            let done = match poll(left, PAUSE, interrupt, || process.status())? {
                Some(status) if status.success() => file.map_or(Ok(()), |file| compare(file, self.size)),
                Some(_) => Err(process.log()),
                None => {
                    process.kill();
                    Err(format!("no end {} s later", PATIENCE.as_secs()))
                }
            };
            match done {
                Ok(()) => finished.completed += 1,
                Err(why) => finished.failed.push(format!("{name}: {}", why.trim())),
            }
        }
        Ok(finished)
    }
}

/// Whether a downloaded file is complete and unchanged.
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

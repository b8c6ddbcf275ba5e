//! When packets arrive: the gaps of a capture, at its own speed or faster.

use crate::error::BenchError;
use scalebricks_io::CaptureReader;
use scalebricks_io::capture::CaptureError;
use std::path::Path;
use std::time::Duration;

/// The gap of the capture that `crates/io/examples/sample_capture.rs` makes: that of all its packets.
const SAMPLE_GAP_NS: f64 = 1003.0;

/// A gap so long is no gap between packets of a busy link, but where captures were joined.
const SEAM: Duration = Duration::from_secs(1);

/// Gaps between packets, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Gaps {
    /// What they are of.
    pub name: String,
    gaps: Vec<f64>,
}

impl Gaps {
    /// Those of the sample capture.
    pub fn sample() -> Self {
        Self { name: "sample capture".to_owned(), gaps: vec![SAMPLE_GAP_NS] }
    }

    /// Those of a capture file; one that is cut short ends where it is cut.
    ///
    /// # Errors
    /// [`BenchError::Usage`] for a file that cannot be read, or has no two packets within a second.
    pub fn of_capture(path: &Path) -> Result<Self, BenchError> {
        let usage = |error: CaptureError| BenchError::Usage(error.to_string());
        let mut times = Vec::new();
        for frame in CaptureReader::open(path).map_err(usage)? {
            match frame {
                Ok(frame) => times.push(frame.timestamp),
                Err(CaptureError::UnsupportedLinkType { .. }) => {}
                Err(CaptureError::Truncated { .. }) => break,
                Err(error) => return Err(usage(error)),
            }
        }
        // Packets of several cores may be noted in a wrong order: they came at once.
        let gaps = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        let gaps: Vec<f64> = gaps.filter(|&gap| gap < SEAM).map(|gap| gap.as_nanos() as f64).collect();
        if gaps.is_empty() {
            return Err(BenchError::Usage(format!("{} has no two packets within a second", path.display())));
        }
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Ok(Self { name, gaps })
    }

    /// Nanoseconds between two packets, on average.
    pub fn mean_ns(&self) -> f64 {
        self.gaps.iter().sum::<f64>() / self.gaps.len() as f64
    }

    /// Times of so many packets at so many times the speed, the gaps round and round.
    pub fn times(&self, packets: usize, speed: f64) -> Vec<f64> {
        let mut now = 0.0;
        let gaps = self.gaps.iter().cycle().take(packets);
        gaps.map(|gap| {
            now += gap / speed;
            now
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_io::CaptureWriter;

    #[test]
    fn gaps_of_a_capture_come_back_faster() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("three.pcap");
        let mut writer = CaptureWriter::create(&path).unwrap();
        for at in [1_000_000, 1_000_400, 1_000_300, 1_001_300, 9_000_000_000] {
            writer.write_frame(Duration::from_nanos(at), &[0; 60]).unwrap();
        }
        writer.finish().unwrap();
        let gaps = Gaps::of_capture(&path).unwrap();
        assert_eq!((gaps.name.as_str(), &gaps.gaps[..]), ("three.pcap", &[400.0, 0.0, 1000.0][..]));
        assert_eq!(gaps.times(5, 100.0), [4.0, 4.0, 14.0, 18.0, 18.0]);
        assert!((gaps.mean_ns() - 1400.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_capture_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        assert!(Gaps::of_capture(&path).is_err());
        std::fs::write(&path, "no capture at all, but longer than a header").unwrap();
        assert!(Gaps::of_capture(&path).unwrap_err().to_string().contains("text"));
    }
}

//! Arrival times of packets: gaps of a capture, scaled to a rate.

use crate::error::BenchError;
use crate::keys::mix;
use scalebricks_io::CaptureReader;
use scalebricks_io::capture::CaptureError;
use std::path::Path;
use std::time::Duration;

/// Number of generated gaps without a capture.
const MADE: u64 = 1 << 16;

/// Gaps this long do not occur on a busy link; they mark where captures were joined.
const SEAM: Duration = Duration::from_secs(1);

/// Gaps between packets in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrivalGaps {
    /// Their source.
    pub name: String,
    gaps: Vec<f64>,
}

impl ArrivalGaps {
    /// Exponential gaps of a Poisson process, generated for lack of a capture. Real traffic is burstier.
    pub fn made() -> Self {
        let uniform = |number: u64| ((mix(number) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        let gaps = (0..MADE).map(|number| -1000.0 * uniform(number).ln()).collect();
        Self { name: "random arrivals made here".to_owned(), gaps }
    }

    /// The gaps of a capture file. A truncated file ends at the cut.
    ///
    /// # Errors
    /// [`BenchError::Usage`] if the file cannot be read, has no two packets within a second, or has no time
    /// differences.
    pub fn of_capture(path: &Path) -> Result<Self, BenchError> {
        // Some errors of the reader do not name the file.
        let usage = |error: CaptureError| {
            let (path, why) = (path.display().to_string(), error.to_string());
            BenchError::Usage(if why.contains(&path) { why } else { format!("{path}: {why}") })
        };
        let mut times = Vec::new();
        for frame in CaptureReader::open(path).map_err(usage)? {
            match frame {
                Ok(frame) => times.push(frame.timestamp),
                Err(CaptureError::UnsupportedLinkType { .. }) => {}
                Err(CaptureError::Truncated { .. }) => break,
                Err(error) => return Err(usage(error)),
            }
        }
        // Several cores may record packets out of order; such packets count as simultaneous.
        let gaps = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        let gaps: Vec<f64> = gaps.filter(|&gap| gap < SEAM).map(|gap| gap.as_nanos() as f64).collect();
        let problem = if gaps.is_empty() {
            Some("no two packets within a second")
        } else {
            gaps.iter().all(|&gap| gap <= 0.0).then_some("the same timestamp for all packets")
        };
        if let Some(problem) = problem {
            return Err(BenchError::Usage(format!("{} has {problem}", path.display())));
        }
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Ok(Self { name, gaps })
    }

    /// Mean gap in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.gaps.iter().sum::<f64>() / self.gaps.len() as f64
    }

    /// Arrival times of `packets` packets at a mean rate of `rate_pps`: the gaps, repeated and scaled by one
    /// factor.
    pub fn times(&self, packets: usize, rate_pps: f64) -> Vec<f64> {
        let stretch = 1e9 / rate_pps / self.mean_ns();
        let mut now = 0.0;
        let gaps = self.gaps.iter().cycle().take(packets);
        gaps.map(|gap| {
            now += gap * stretch;
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
        let gaps = ArrivalGaps::of_capture(&path).unwrap();
        assert_eq!((gaps.name.as_str(), &gaps.gaps[..]), ("three.pcap", &[400.0, 0.0, 1000.0][..]));
        assert!((gaps.mean_ns() - 1400.0 / 3.0).abs() < 1e-9);
        // A hundred times as fast.
        let times = gaps.times(5, 100.0 * 1e9 / gaps.mean_ns());
        let want = [4.0, 4.0, 14.0, 18.0, 18.0];
        assert!(times.iter().zip(want).all(|(time, want)| (time - want).abs() < 1e-9), "{times:?}");
    }

    #[test]
    fn made_arrivals_come_at_the_rate_and_at_random() {
        let made = ArrivalGaps::made();
        assert!((made.mean_ns() / 1000.0 - 1.0).abs() < 0.02, "{}", made.mean_ns());
        let longer = made.gaps.iter().filter(|&&gap| gap > made.mean_ns()).count() as f64;
        assert!((longer / MADE as f64 - (-1.0_f64).exp()).abs() < 0.01, "exponential: {longer}");
        let times = made.times(210_000, 210_000.0);
        assert!((times.last().unwrap() / 1e9 - 1.0).abs() < 0.02 && times.is_sorted());
    }

    /// A hand-written capture with packets of 60 bytes at these nanoseconds, in units of `tick_ns`.
    fn pcap(times: &[u64], tick_ns: u32, word: fn(u32) -> [u8; 4]) -> Vec<u8> {
        let magic = if tick_ns == 1 { 0xA1B2_3C4D } else { 0xA1B2_C3D4 };
        let version = if word(1) == 1_u32.to_be_bytes() { 0x0002_0004 } else { 0x0004_0002 };
        let mut bytes = [magic, version, 0, 0, 65_535, 1].map(word).concat();
        for &time in times {
            let (seconds, rest) = ((time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32);
            bytes.extend([seconds, rest / tick_ns, 60, 60].map(word).concat());
            bytes.extend([0; 60]);
        }
        bytes
    }

    /// The same as a pcapng file. Its unit is the microsecond unless an option says otherwise.
    fn pcapng(times: &[u64], tick_ns: u64) -> Vec<u8> {
        let block = |kind: u32, body: &[u8]| {
            let length = (body.len() as u32 + 12).to_le_bytes();
            [&kind.to_le_bytes()[..], &length, body, &length].concat()
        };
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let mut bytes = block(0x0A0D_0D0A, &words(&[0x1A2B_3C4D, 1, u32::MAX, u32::MAX]));
        let resolution: &[u8] = if tick_ns == 1 { &[9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0] } else { &[] };
        bytes.extend(block(1, &[&words(&[1, 0]), resolution].concat()));
        for &time in times {
            let ticks = time / tick_ns;
            let head = words(&[0, (ticks >> 32) as u32, ticks as u32, 60, 60]);
            bytes.extend(block(6, &[head, vec![0; 60]].concat()));
        }
        bytes
    }

    /// The gaps of a file with these bytes, or why it has none.
    fn gaps(bytes: &[u8]) -> Result<Vec<f64>, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("traffic");
        std::fs::write(&path, bytes).unwrap();
        let found = ArrivalGaps::of_capture(&path).map_err(|error| error.to_string());
        found.inspect_err(|error| assert!(error.contains("traffic"), "{error}")).map(|found| found.gaps)
    }

    #[test]
    fn gaps_are_read_from_captures_of_all_kinds() {
        // Includes a second boundary between two packets, a pause, and simultaneous packets.
        let times = [
            1_700_000_000_999_998_000,
            1_700_000_001_000_000_000,
            1_700_000_005_000_000_000,
            1_700_000_005_000_001_000,
        ];
        let times = [&times[..], &[1_700_000_005_000_001_000, 1_700_000_005_000_002_400]].concat();
        let exact = vec![2000.0, 1000.0, 0.0, 1400.0];
        let whole = vec![2000.0, 1000.0, 0.0, 1000.0]; // microseconds
        for word in [u32::to_le_bytes as fn(u32) -> [u8; 4], u32::to_be_bytes] {
            assert_eq!(gaps(&pcap(&times, 1, word)).unwrap(), exact);
            assert_eq!(gaps(&pcap(&times, 1000, word)).unwrap(), whole);
        }
        assert_eq!(gaps(&pcapng(&times, 1)).unwrap(), exact);
        assert_eq!(gaps(&pcapng(&times, 1000)).unwrap(), whole);
    }

    #[test]
    fn captures_without_gaps_are_named() {
        let little = u32::to_le_bytes;
        for (times, why) in [
            (&[][..], "no two packets"),
            (&[5_000_000_000], "no two packets"),
            (&[5_000_000_000, 6_000_000_000], "no two packets"),
            (&[5_000_000_000; 3], "the same timestamp"),
            (&[5_000_000_000, 4_000_000_000], "the same timestamp"), // backwards
        ] {
            for bytes in [pcap(times, 1, little), pcapng(times, 1)] {
                let error = gaps(&bytes).unwrap_err();
                assert!(error.contains(why), "{times:?}: {error}");
            }
        }
        assert!(gaps(&[]).is_err());
    }

    /// A truncated capture yields the gaps before the cut or none. With any byte damaged, it is read or
    /// rejected.
    #[test]
    fn damaged_captures_are_read_up_to_where_they_are_or_refused() {
        let times = [1_000_000_000, 1_000_000_400, 1_000_001_000];
        for whole in [pcap(&times, 1, u32::to_le_bytes), pcapng(&times, 1)] {
            let all = gaps(&whole).unwrap();
            assert_eq!(all, [400.0, 600.0]);
            for cut in 0..whole.len() {
                if let Ok(found) = gaps(&whole[..cut]) {
                    assert!(all.starts_with(&found) && !found.is_empty(), "{found:?} of {cut} octets");
                }
            }
            for place in 0..whole.len() {
                for wrong in [0, 0x7F, 0xFF] {
                    let mut bytes = whole.clone();
                    bytes[place] = wrong;
                    // A wrong length makes other packets of the same bytes.
                    let Ok(found) = gaps(&bytes) else { continue };
                    assert!(
                        !found.is_empty() && found.iter().all(|gap| (0.0..1e9).contains(gap)),
                        "{found:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_no_capture_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        assert!(ArrivalGaps::of_capture(&path).is_err());
        std::fs::write(&path, "no capture at all, but longer than a header").unwrap();
        assert!(ArrivalGaps::of_capture(&path).unwrap_err().to_string().contains("text"));
    }
}

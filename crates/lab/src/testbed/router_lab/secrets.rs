//! Looks for what was sent in the octets of a capture, whatever frames they are part of.

use crate::testbed::LabError;
use crate::testbed::http;
use std::fs;
use std::path::Path;

/// The pattern of pings, as `ping -p` takes it.
pub const PING_PATTERN: &str = "5ec2e7c1ea27e871";

/// Octets of the file server's file that are looked for.
const PIECE: usize = 24;

/// Every so many octets of the file, one piece is looked for. It is shorter than the part of a file in any packet.
const EVERY: usize = 997;

/// What was sent: pings with [`PING_PATTERN`], and a file of the file server.
#[derive(Debug)]
pub struct Secrets {
    pieces: Vec<Vec<u8>>,
}

impl Secrets {
    /// Those of a transfer of so many octets.
    pub fn of_file(octets: usize) -> Self {
        let mut file = vec![0; octets];
        http::fill(0, &mut file);
        let pattern: Vec<u8> = PING_PATTERN
            .as_bytes()
            .as_chunks::<2>()
            .0
            .iter()
            .filter_map(|[high, low]| {
                u8::from_str_radix(&format!("{}{}", *high as char, *low as char), 16).ok()
            })
            .collect();
        let mut pieces = vec![pattern.repeat(2), b"GET /".to_vec(), b"Content-Length: ".to_vec()];
        pieces.extend(file.chunks(EVERY).filter_map(|chunk| chunk.get(..PIECE)).map(<[u8]>::to_vec));
        Self { pieces }
    }

    /// How many pieces there are.
    pub fn count(&self) -> usize {
        self.pieces.len()
    }

    /// How many of the pieces a file contains.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn found_in(&self, file: &Path) -> Result<usize, LabError> {
        Ok(self.found(&fs::read(file).map_err(LabError::file(file))?))
    }

    fn found(&self, octets: &[u8]) -> usize {
        // By the first four octets, so that a capture is read once.
        let mut by_start: std::collections::HashMap<[u8; 4], Vec<usize>> = std::collections::HashMap::new();
        for (place, piece) in self.pieces.iter().enumerate() {
            by_start.entry([piece[0], piece[1], piece[2], piece[3]]).or_default().push(place);
        }
        let mut is_found = vec![false; self.pieces.len()];
        for (at, start) in octets.windows(4).enumerate() {
            let Some(places) = start.try_into().ok().and_then(|start: [u8; 4]| by_start.get(&start)) else {
                continue;
            };
            for place in places {
                is_found[*place] |= octets[at..].starts_with(&self.pieces[*place]);
            }
        }
        is_found.iter().filter(|is_found| **is_found).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_found_at_any_place_and_only_if_they_are_whole() {
        let secrets = Secrets::of_file(10_000);
        assert_eq!(secrets.count(), 3 + 11);
        let mut file = vec![0; 10_000];
        http::fill(0, &mut file);
        let mut capture = vec![7; 33];
        capture.extend(&file[..3_000]);
        capture.extend([0x5e, 0xc2, 0xe7, 0xc1, 0xea, 0x27, 0xe8, 0x71].repeat(2));
        // Pieces at 0, 997, 1994 and 2991; of the last, only nine octets are there.
        assert_eq!(secrets.found(&capture), 3 + 1);
        assert_eq!(secrets.found(b"GET /1 HTTP/1.1\r\n"), 1);
        assert_eq!(secrets.found(&[9; 1_000]), 0);
        assert_eq!(secrets.found(&[]), 0);
    }
}

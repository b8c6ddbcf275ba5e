//! Feeds as text: a line `PREFIX [ORIGIN]` per route, such as `192.0.2.0/24 64496`.
//!
//! Empty lines and lines that start with `#` are skipped.

use super::{FeedCounts, FeedError, FeedPrefix, FeedRoute, LineError};
use std::io::{BufRead, Read};

/// Maximum bytes of a line.
pub const MAX_LINE_BYTES: usize = 256;

/// Reads a feed of text.
///
/// # Errors
/// [`FeedError::Io`], [`FeedError::Line`].
pub fn read(stream: impl BufRead, mut visit: impl FnMut(FeedRoute)) -> Result<FeedCounts, FeedError> {
    let mut counts = FeedCounts::default();
    lines(stream, |line| {
        if let Some(route) = parse(line)? {
            counts.count(&route);
            visit(route);
        }
        Ok(())
    })?;
    Ok(counts)
}

/// Calls `visit` with each line, of at most [`MAX_LINE_BYTES`], without its end.
///
/// # Errors
/// [`FeedError::Io`]; [`FeedError::Line`] with the number of a line that is refused.
pub(super) fn lines(
    mut stream: impl BufRead,
    mut visit: impl FnMut(&str) -> Result<(), LineError>,
) -> Result<(), FeedError> {
    let mut bytes = Vec::with_capacity(MAX_LINE_BYTES + 1);
    for line in 1.. {
        bytes.clear();
        let limit = MAX_LINE_BYTES as u64 + 1;
        if (&mut stream).take(limit).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        let problem = |problem| FeedError::Line { line, problem };
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        } else if bytes.len() > MAX_LINE_BYTES {
            return Err(problem(LineError::TooLong));
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| problem(LineError::NotText))?;
        visit(text).map_err(problem)?;
    }
    Ok(())
}

/// The route of a line; `None` if it has none.
fn parse(line: &str) -> Result<Option<FeedRoute>, LineError> {
    let mut words = line.split_ascii_whitespace();
    let Some(word) = words.next().filter(|word| !word.starts_with('#')) else { return Ok(None) };
    let prefix = prefix(word)?;
    let origin = words.next().map(origin).transpose()?;
    if words.next().is_some() {
        return Err(LineError::Words);
    }
    Ok(Some(FeedRoute { prefix, origin, next_hop: None }))
}

/// A prefix of either family.
pub(super) fn prefix(word: &str) -> Result<FeedPrefix, LineError> {
    Ok(if word.contains(':') { FeedPrefix::V6(word.parse()?) } else { FeedPrefix::V4(word.parse()?) })
}

fn origin(word: &str) -> Result<u32, LineError> {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| is_number).ok_or_else(|| LineError::Origin(word.to_owned()))
}

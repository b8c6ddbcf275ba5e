//! Static routes as text: a line `PREFIX via NEXT_HOP [preference N]` per route, such as
//! `203.0.113.0/24 via 192.0.2.254 preference 10`.
//!
//! Lines with the same prefix are alternatives; the one of the lowest preference is used. Empty lines and lines that
//! start with `#` are skipped. [`read`] decompresses gzip.

use super::text::lines;
use super::{BUFFER_BYTES, FeedError, FeedPrefix, LineError};
use scalebricks_io::gzip::decompressed;
use std::io::{BufReader, Read};
use std::net::IpAddr;

/// The preference of a route that names none.
pub const PREFERENCE: u32 = 1;

/// A static route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StaticRoute {
    /// The prefix.
    pub prefix: FeedPrefix,
    /// The neighbour, of the prefix's family.
    pub next_hop: IpAddr,
    /// The route with the lowest value is used.
    pub preference: u32,
}

/// Reads static routes, and calls `visit` for each in its order; returns their number.
///
/// Cost: one pass; memory for one line.
///
/// # Errors
/// [`FeedError::Io`], [`FeedError::Line`]. Routes before the error were visited.
pub fn read(
    stream: impl Read + Send + 'static,
    mut visit: impl FnMut(StaticRoute),
) -> Result<u64, FeedError> {
    let stream = BufReader::with_capacity(BUFFER_BYTES, decompressed(stream)?);
    let mut count = 0;
    lines(stream, |line| {
        if let Some(route) = parse(line)? {
            count += 1;
            visit(route);
        }
        Ok(())
    })?;
    Ok(count)
}

/// The route of a line; `None` if it has none.
fn parse(line: &str) -> Result<Option<StaticRoute>, LineError> {
    let mut words = line.split_ascii_whitespace();
    let Some(prefix) = words.next().filter(|word| !word.starts_with('#')) else { return Ok(None) };
    let prefix = super::text::prefix(prefix)?;
    let [Some("via"), Some(next_hop)] = [words.next(), words.next()] else { return Err(LineError::Static) };
    let next_hop: IpAddr = next_hop.parse().map_err(|_| LineError::NextHop(next_hop.to_owned()))?;
    let is_host = !next_hop.is_unspecified()
        && !next_hop.is_multicast()
        && next_hop != IpAddr::V4(std::net::Ipv4Addr::BROADCAST);
    if !is_host || next_hop.is_ipv4() != matches!(prefix, FeedPrefix::V4(_)) {
        return Err(LineError::NextHop(next_hop.to_string()));
    }
    let preference = match [words.next(), words.next(), words.next()] {
        [None, ..] => PREFERENCE,
        [Some("preference"), Some(number), None] => number
            .parse()
            .ok()
            .filter(|_| number.bytes().all(|byte| byte.is_ascii_digit()))
            .ok_or_else(|| LineError::Preference(number.to_owned()))?,
        _ => return Err(LineError::Static),
    };
    Ok(Some(StaticRoute { prefix, next_hop, preference }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_all(text: &str) -> Result<Vec<StaticRoute>, String> {
        let mut routes = Vec::new();
        read(std::io::Cursor::new(text.as_bytes().to_vec()), |route| routes.push(route))
            .map(|count| assert_eq!(count, routes.len() as u64))
            .map_err(|error| error.to_string())?;
        Ok(routes)
    }

    #[test]
    fn routes_of_both_families_are_read_and_wrong_lines_are_named() {
        let text = "# a comment\n\n10.0.0.0/8 via 192.0.2.1\n  2001:db8::/32 via 2001:db8::1 preference 7\n\
                    10.0.0.0/8\tvia 192.0.2.2 preference 4294967295";
        let routes = read_all(text).unwrap();
        assert_eq!(routes.iter().map(|route| route.preference).collect::<Vec<_>>(), [1, 7, u32::MAX]);
        assert_eq!(routes[2].next_hop, IpAddr::from([192, 0, 2, 2]));
        for (line, what) in [
            ("10.0.0.0/8", "via"),
            ("10.0.0.0/8 192.0.2.1", "via"),
            ("10.0.0.1/8 via 192.0.2.1", "bits behind"),
            ("10.0.0.0/33 via 192.0.2.1", "33 bits"),
            ("10.0.0.0/8 via 2001:db8::1", "\"2001:db8::1\""),
            ("2001:db8::/32 via 192.0.2.1", "\"192.0.2.1\""),
            ("10.0.0.0/8 via 224.0.0.1", "\"224.0.0.1\""),
            ("10.0.0.0/8 via 0.0.0.0", "\"0.0.0.0\""),
            ("10.0.0.0/8 via 192.0.2.1 preference", "via"),
            ("10.0.0.0/8 via 192.0.2.1 preference +1", "\"+1\""),
            ("10.0.0.0/8 via 192.0.2.1 preference 4294967296", "\"4294967296\""),
            ("10.0.0.0/8 via 192.0.2.1 metric 1", "via"),
            ("10.0.0.0/8 via 192.0.2.1 preference 1 2", "via"),
        ] {
            let error = read_all(&format!("11.0.0.0/8 via 192.0.2.1\n{line}\n")).unwrap_err();
            assert!(error.starts_with("line 2: ") && error.contains(what), "{line}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300), words: String) {
            let _ = read(std::io::Cursor::new(bytes), drop);
            let _ = read_all(&format!("10.0.0.0/8 via {words}"));
        }
    }
}

//! File names with the lengths of real paths. Every bit of a register's state selects words, so all names
//! differ.

use super::lfsr::{IPV4, Lfsr};

/// The words for one position in a name; four bits of the state select one.
type Words = [&'static str; 16];

const TOPS: Words = [
    "usr/lib",
    "usr/share",
    "usr/include",
    "usr/src",
    "home/alice",
    "home/bob",
    "home/carol",
    "var/lib",
    "var/cache",
    "opt/local",
    "srv/www",
    "srv/git",
    "mnt/backup",
    "etc",
    "data",
    "media/archive",
];
const PLACES: Words = [
    "python3",
    "x86_64-linux-gnu",
    "doc",
    "modules",
    "projects",
    "documents",
    "photos",
    "packages",
    "fonts",
    "icons",
    "locale",
    "kernel",
    "drivers",
    "licenses",
    "examples",
    "tests",
];
const PARTS: Words = [
    "network", "storage", "config", "report", "summer", "winter", "invoice", "session", "backup", "index",
    "table", "forward", "switch", "cluster", "gateway", "archive",
];
const STEMS: Words = [
    "main",
    "util",
    "holiday",
    "draft",
    "final",
    "notes",
    "thumbnail",
    "common",
    "internal",
    "message",
    "schedule",
    "protocol",
    "benchmark",
    "reference",
    "copy",
    "old",
];
const ENDINGS: Words = [
    "txt", "html", "rs", "c", "h", "py", "so", "png", "jpeg", "pdf", "md", "json", "conf", "log", "gz", "svg",
];

/// Names of files.
#[derive(Debug, Clone)]
pub struct FileNames(Lfsr<u32>);

impl FileNames {
    /// Starts from a state derived from any number.
    pub fn new(start: u128) -> Self {
        Self(Lfsr::new(IPV4, start))
    }

    /// Writes the next name into `name`, replacing its contents.
    pub fn write_next(&mut self, name: &mut String) {
        name.clear();
        let Some(state) = self.0.next() else { return };
        let word = |words: &Words, at: u32| words[(state >> (4 * at)) as usize & 15];
        let pieces = [
            word(&TOPS, 0),
            "/",
            word(&PLACES, 1),
            "/",
            word(&PARTS, 2),
            "-",
            word(&PARTS, 3),
            "/",
            word(&STEMS, 4),
            "_",
            word(&STEMS, 5),
            "-",
            word(&PARTS, 6),
            ".",
            word(&ENDINGS, 7),
        ];
        name.extend(pieces);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_name_comes_twice_and_lengths_are_those_of_paths() {
        let many = if cfg!(miri) { 300 } else { 200_000 };
        let (mut names, mut name, mut seen) = (FileNames::new(1), String::new(), HashSet::new());
        let mut bytes = 0;
        for _ in 0..many {
            names.write_next(&mut name);
            assert!((25..=80).contains(&name.len()), "{name}");
            bytes += name.len();
            assert!(seen.insert(name.clone()), "{name} again");
        }
        let mean = bytes as f64 / f64::from(many);
        assert!((40.0..60.0).contains(&mean), "{mean} bytes");
        assert!(seen.iter().map(String::len).collect::<HashSet<_>>().len() > 25);
    }

    #[test]
    fn words_of_a_place_differ() {
        for words in [TOPS, PLACES, PARTS, STEMS, ENDINGS] {
            assert_eq!(words.iter().collect::<HashSet<_>>().len(), 16);
        }
    }
}

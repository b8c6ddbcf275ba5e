//! The machine that measures, as reported by the system.

use crate::memory;
use crate::quantity::bytes;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// A processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processor {
    /// Its brand string, or the architecture if the system does not report one.
    pub brand: String,
    /// Its family number.
    pub family: Option<u32>,
    /// Its model number.
    pub model: Option<u32>,
}

impl Processor {
    /// The processor of this machine.
    pub fn here() -> Self {
        Self::of(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    fn of(info: &str) -> Self {
        let number = |name| field(info, name).and_then(|text| text.parse().ok());
        let brand = field(info, "model name").unwrap_or(std::env::consts::ARCH).to_owned();
        Self { brand, family: number("cpu family"), model: number("model") }
    }

    /// Its microarchitecture if known, as in `Zen 5`; otherwise brand, family and model.
    pub fn name(&self) -> String {
        match (self.zen(), self.family, self.model) {
            (Some(generation), ..) => format!("Zen {generation}"),
            (None, Some(family), Some(model)) => {
                format!("{} (family {family}, model {model})", self.short_brand())
            }
            _ => self.short_brand(),
        }
    }

    /// Its name in file names, as in `amd-zen5` and `intel-xeon-6-167`.
    pub fn slug(&self) -> String {
        if let Some(generation) = self.zen() {
            return format!("amd-zen{generation}");
        }
        let brand = self.short_brand().to_lowercase();
        let words =
            brand.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let numbers = self.family.into_iter().chain(self.model).map(|number| number.to_string());
        words.map(str::to_owned).chain(numbers).collect::<Vec<_>>().join("-")
    }

    /// Its generation of AMD's Zen.
    fn zen(&self) -> Option<u32> {
        match (self.brand.starts_with("AMD"), self.family?, self.model?) {
            (true, 25, 0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf) => Some(4),
            (true, 25, _) => Some(3),
            (true, 26, _) => Some(5),
            _ => None,
        }
    }

    /// The brand without trademarks, frequency and filler words.
    fn short_brand(&self) -> String {
        let brand = self.brand.split('@').next().unwrap_or_default().replace("(R)", "").replace("(TM)", "");
        let words = brand.split_whitespace().filter(|word| !["CPU", "Processor"].contains(word));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// The processor's brand, or its architecture if the system does not report one.
pub fn cpu() -> String {
    Processor::here().brand
}

/// Cores available to the process.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Cores, memory, kernel and the mode of transparent huge pages, for a reader: `2 cores, 23.4 GiB, Linux 6.12.0, THP
/// madvise`.
pub fn description() -> String {
    let mut parts = vec![match cores() {
        1 => "1 core".to_owned(),
        cores => format!("{cores} cores"),
    }];
    parts.extend(memory::total_bytes().map(bytes));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    parts.push(kernel.map_or_else(|| std::env::consts::OS.to_owned(), |k| format!("Linux {}", k.trim())));
    let modes = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok();
    parts.push(format!("THP {}", modes.as_deref().and_then(chosen).unwrap_or("unknown")));
    parts.join(", ")
}

/// The value of this field for the first core.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = info.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(found, _)| found.trim() == name).map(|(_, text)| text.trim())
}

/// Today's date in UTC, as in `2026-01-31`.
pub fn date() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date_of(now.as_secs() / 86_400)
}

/// The date `days` days after 1970-01-01, computed in eras of 400 years that begin in March.
fn date_of(days: u64) -> String {
    let days = days + 719_468; // from 0000-03-01
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // from March
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + later)
}

/// The mode in brackets, which is the active one.
fn chosen(modes: &str) -> Option<&str> {
    Some(modes.split_once('[')?.1.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_modes_are_found() {
        let found = Processor::of("processor\t: 0\ncpu family\t: 6\nmodel\t\t: 7\nmodel name\t: A B\n");
        assert_eq!(found, Processor { brand: "A B".to_owned(), family: Some(6), model: Some(7) });
        assert_eq!(Processor::of("processor\t: 0\n").brand, std::env::consts::ARCH);
        assert_eq!(chosen("always [madvise] never\n"), Some("madvise"));
        assert_eq!(chosen("none"), None);
        assert!(description().contains("core"));
    }

    #[test]
    fn processors_have_names_and_file_names() {
        let known = [
            ("AMD EPYC", Some((26, 2)), "Zen 5", "amd-zen5"),
            ("AMD EPYC 9R14", Some((25, 17)), "Zen 4", "amd-zen4"),
            ("AMD EPYC 7763", Some((25, 1)), "Zen 3", "amd-zen3"),
            (
                "Intel(R) Xeon(R) Processor",
                Some((6, 167)),
                "Intel Xeon (family 6, model 167)",
                "intel-xeon-6-167",
            ),
            ("Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz", None, "Intel Core i7-4770", "intel-core-i7-4770"),
        ];
        for (brand, numbers, name, slug) in known {
            let (family, model) = numbers.unzip();
            let processor = Processor { brand: brand.to_owned(), family, model };
            assert_eq!((processor.name().as_str(), processor.slug().as_str()), (name, slug));
        }
    }

    #[test]
    fn days_are_dates() {
        let known =
            [(0, "1970-01-01"), (11_016, "2000-02-29"), (20_544, "2026-04-01"), (47_541, "2100-03-01")];
        for (days, date) in known {
            assert_eq!(date_of(days), date);
        }
    }
}

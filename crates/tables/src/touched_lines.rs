//! The cache lines that lookups read, told one by one: for benchmarks, which replay them to see what the memory alone takes.
//!
//! Each table tells, for a key, the lines that a lookup of this key by itself reads, in its order, each once. What a
//! batch reads once for all its keys (clocks, parameters) is not among them.

/// Bytes of a line.
const LINE: usize = 64;

/// Most lines of one key: tags of two buckets and eight entries, twice while a table grows.
const MOST: usize = 24;

/// Tells the lines of one key.
pub(crate) struct LineRecorder<'a> {
    visit: &'a mut dyn FnMut(*const u8),
    visited: [usize; MOST],
    count: usize,
}

impl<'a> LineRecorder<'a> {
    pub(crate) fn new(visit: &'a mut dyn FnMut(*const u8)) -> Self {
        Self { visit, visited: [0; MOST], count: 0 }
    }

    /// A value that is read.
    pub(crate) fn read<T>(&mut self, value: &T) {
        self.read_bytes(std::ptr::from_ref(value).cast(), size_of::<T>());
    }

    /// So many bytes that are read; at least one.
    pub(crate) fn read_bytes(&mut self, from: *const u8, bytes: usize) {
        let first = from.addr() / LINE;
        let last = (from.addr() + bytes.max(1) - 1) / LINE;
        for line in first..=last {
            if self.visited[..self.count].contains(&line) {
                continue;
            }
            if let Some(place) = self.visited.get_mut(self.count) {
                *place = line;
                self.count += 1;
            }
            (self.visit)(from.wrapping_add((line * LINE).saturating_sub(from.addr())));
        }
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) use noted::{lines_of, note};

/// What scalar lookups really read, noted where they read it.
#[cfg(all(test, not(loom)))]
mod noted {
    use super::LINE;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    thread_local! {
        static READ: RefCell<Option<BTreeSet<usize>>> = const { RefCell::new(None) };
    }

    /// Notes that these bytes are read, if anyone wants to know.
    pub(crate) fn note<T>(from: *const T, bytes: usize) {
        READ.with_borrow_mut(|read| {
            if let Some(read) = read {
                read.extend(from.addr() / LINE..=(from.addr() + bytes - 1) / LINE);
            }
        });
    }

    /// The lines read meanwhile.
    pub(crate) fn lines_of(lookup: impl FnOnce()) -> BTreeSet<usize> {
        READ.set(Some(BTreeSet::new()));
        lookup();
        READ.take().unwrap_or_default()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_told_once_in_the_order_of_reading() {
        #[repr(align(64))]
        struct Aligned([u8; 256]);
        let memory = Aligned([0; 256]);
        let (start, mut visited) = (memory.0.as_ptr(), Vec::new());
        let mut visit = |at: *const u8| visited.push(at.addr() - start.addr());
        let mut lines = LineRecorder::new(&mut visit);
        lines.read(&memory.0[130]);
        lines.read_bytes(start.wrapping_add(62), 4);
        lines.read_bytes(start.wrapping_add(100), 60);
        lines.read_bytes(start.wrapping_add(190), 4);
        assert_eq!(visited, [130, 62, 64, 192]);
    }
}

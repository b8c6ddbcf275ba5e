//! Named events, one counter each.

use std::fmt;
use std::marker::PhantomData;

/// Events that are counted by name: an enum without data.
pub trait Named: Copy + 'static {
    /// Every event, in order of its index.
    const ALL: &'static [Self];

    /// A name for counters: lower case, words joined by `_`.
    fn name(self) -> &'static str;

    /// Its place in [`Named::ALL`].
    fn index(self) -> usize;
}

macro_rules! named_enum {
    ($(#[$outer:meta])* pub enum $type:ident { $($(#[$inner:meta])* $variant:ident => $name:literal),+ $(,)? }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $type {
            $($(#[$inner])* $variant),+
        }

        impl crate::named::Named for $type {
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}
pub(crate) use named_enum;

/// One counter for each event.
#[derive(Clone, PartialEq, Eq)]
pub struct Tally<E> {
    counts: Vec<u64>,
    events: PhantomData<E>,
}

impl<E: Named> Default for Tally<E> {
    fn default() -> Self {
        Self { counts: vec![0; E::ALL.len()], events: PhantomData }
    }
}

impl<E: Named> Tally<E> {
    /// Counts one event.
    #[inline]
    pub fn count(&mut self, event: E) {
        self.add(event, 1);
    }

    /// Counts `n` events.
    #[inline]
    pub fn add(&mut self, event: E, n: u64) {
        if let Some(count) = self.counts.get_mut(event.index()) {
            *count += n;
        }
    }

    /// Adds the counts of another tally.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
    }

    /// How often an event was counted.
    pub fn get(&self, event: E) -> u64 {
        self.counts.get(event.index()).copied().unwrap_or(0)
    }

    /// The sum of all counters.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All names with their counters, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        E::ALL.iter().zip(&self.counts).map(|(event, count)| (event.name(), *count))
    }
}

impl<E: Named> fmt::Debug for Tally<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().filter(|(_, count)| *count > 0)).finish()
    }
}

/// A set of events, one bit each: of at most 32.
#[derive(PartialEq, Eq, Hash)]
pub struct EventSet<E> {
    bits: u32,
    events: PhantomData<E>,
}

impl<E> Clone for EventSet<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for EventSet<E> {}

impl<E> Default for EventSet<E> {
    fn default() -> Self {
        Self { bits: 0, events: PhantomData }
    }
}

impl<E: Named> EventSet<E> {
    /// Adds an event.
    #[inline]
    pub fn insert(&mut self, event: E) {
        self.bits |= 1 << event.index();
    }

    /// Adds all events of another set.
    #[inline]
    pub fn extend(&mut self, other: Self) {
        self.bits |= other.bits;
    }

    /// Whether an event is in the set.
    #[inline]
    pub fn contains(self, event: E) -> bool {
        self.bits >> event.index() & 1 != 0
    }

    /// Whether no event is in the set.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// The events, in order.
    pub fn iter(self) -> impl Iterator<Item = E> {
        let mut left = self.bits;
        std::iter::from_fn(move || {
            let event = E::ALL.get(left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(*event)
        })
    }
}

impl<E: Named> fmt::Debug for EventSet<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Named::name)).finish()
    }
}

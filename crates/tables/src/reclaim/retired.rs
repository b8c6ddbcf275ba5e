//! Retired memory, which readers may still be reading.

use super::epoch::Epochs;
use std::collections::VecDeque;

/// Places that readers can no longer reach, each with the tag it was retired under, oldest first.
#[derive(Debug)]
pub(crate) struct Retired<P>(VecDeque<(u64, P)>);

impl<P: Copy> Retired<P> {
    pub(crate) const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Adds a place with the tag that [`Epochs::retire`] returned.
    pub(crate) fn push(&mut self, tag: u64, place: P) {
        self.0.push_back((tag, place));
    }

    /// Passes all places that no reader can see any more to `free`. Returns whether there were any.
    pub(crate) fn reclaim(&mut self, epochs: &Epochs, mut free: impl FnMut(P)) -> bool {
        let safe = epochs.safe_below();
        let before = self.0.len();
        while let Some(&(tag, place)) = self.0.front() {
            if tag >= safe {
                break;
            }
            self.0.pop_front();
            free(place);
        }
        self.0.len() < before
    }
}

//! Memory on its way from readers' sight back to the writer.

use super::epoch::Epochs;
use std::collections::VecDeque;

/// Places taken out of the readers' sight, each under the tag it was retired with, oldest first.
#[derive(Debug)]
pub(crate) struct Retired<P>(VecDeque<(u64, P)>);

impl<P: Copy> Retired<P> {
    pub(crate) const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Adds what [`Epochs::retire`] gave this tag.
    pub(crate) fn push(&mut self, tag: u64, place: P) {
        self.0.push_back((tag, place));
    }

    /// Hands out what no reader can see any more; whether there was any.
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

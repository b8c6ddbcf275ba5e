//! Values with numbers that are used again.

#[derive(Debug)]
pub(super) struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }

    pub(super) fn add(&mut self, value: T) -> u32 {
        if let Some(number) = self.free.pop()
            && let Some(place) = self.values.get_mut(number as usize)
        {
            *place = Some(value);
            return number;
        }
        self.values.push(Some(value));
        (self.values.len() - 1) as u32 // callers bound the number of values
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.values.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(value)
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize)?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.values.get_mut(number as usize)?.as_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    /// Numbers ever used; some are free.
    pub(super) fn extent(&self) -> usize {
        self.values.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().flatten()
    }
}

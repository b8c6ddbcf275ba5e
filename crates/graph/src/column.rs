//! Columns: additional values beside each packet, one array per type of value.

use crate::slot::{SLOTS, Slot};
use std::any::{Any, TypeId};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A value that some elements write beside each packet and others read. The Rust type identifies the column.
///
/// A frame has a column only if an element of the graph names it. The builder proves that every element reads only
/// columns that are written on every path to it.
pub trait Column: Copy + Send + 'static {
    /// Its name in documentation and errors.
    const NAME: &'static str;
    /// Fills a new packet's entry in debug builds, so that a read before the first write is visible.
    const POISON: Self;
}

/// The values of one column, by slot.
pub struct Values<C>([C; SLOTS]);

impl<C> Index<&Slot> for Values<C> {
    type Output = C;

    #[inline(always)]
    fn index(&self, slot: &Slot) -> &C {
        &self.0[slot.index()]
    }
}

impl<C> IndexMut<&Slot> for Values<C> {
    #[inline(always)]
    fn index_mut(&mut self, slot: &Slot) -> &mut C {
        &mut self.0[slot.index()]
    }
}

/// A column of unknown type.
pub(crate) trait AnyValues: Any + Send {
    fn copy(&mut self, from: &Slot, to: &Slot);
    fn poison(&mut self, at: &Slot);
}

impl<C: Column> AnyValues for Values<C> {
    fn copy(&mut self, from: &Slot, to: &Slot) {
        self[to] = self[from];
    }

    fn poison(&mut self, at: &Slot) {
        self[at] = C::POISON;
    }
}

/// A column as a [`Spec`](crate::Spec) names it.
#[derive(Clone, Copy)]
pub struct ColumnSpec {
    /// Its name.
    pub name: &'static str,
    /// For a written column, the output whose packets have it; for a read column, the input whose packets must have it.
    /// `None` means all.
    pub on: Option<&'static str>,
    pub(crate) id: fn() -> TypeId,
    pub(crate) make: fn() -> Box<dyn AnyValues>,
}

impl fmt::Debug for ColumnSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnSpec").field("name", &self.name).field("on", &self.on).finish_non_exhaustive()
    }
}

impl ColumnSpec {
    /// The column `C`, at all ports or at the named one.
    pub const fn of<C: Column>(on: Option<&'static str>) -> Self {
        Self { name: C::NAME, on, id: TypeId::of::<C>, make: || Box::new(Values([C::POISON; SLOTS])) }
    }
}

/// The position of a column in a frame. Elements get it when the graph is built, from
/// [`Binder::column`](crate::element::Binder::column).
pub struct Handle<C> {
    at: u16,
    of: PhantomData<fn() -> C>,
}

impl<C> Clone for Handle<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Handle<C> {}

impl<C> fmt::Debug for Handle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.at)
    }
}

/// A handle without a column. Using it panics.
impl<C> Default for Handle<C> {
    fn default() -> Self {
        Self { at: u16::MAX, of: PhantomData }
    }
}

/// The columns of a graph, in no particular order.
#[derive(Default)]
pub struct Columns(Vec<(TypeId, Box<dyn AnyValues>)>);

impl fmt::Debug for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Columns({})", self.0.len())
    }
}

fn known<C: Column>(values: &dyn AnyValues) -> &Values<C> {
    let any: &dyn Any = values;
    any.downcast_ref().unwrap_or_else(|| unreachable!("the handle of {} is of another graph", C::NAME))
}

fn known_mut<C: Column>(values: &mut dyn AnyValues) -> &mut Values<C> {
    let any: &mut dyn Any = values;
    any.downcast_mut().unwrap_or_else(|| unreachable!("the handle of {} is of another graph", C::NAME))
}

impl Columns {
    /// Adds a column unless it exists.
    pub(crate) fn add(&mut self, spec: &ColumnSpec) {
        let id = (spec.id)();
        if self.0.iter().all(|(there, _)| *there != id) {
            self.0.push((id, (spec.make)()));
        }
    }

    pub(crate) fn handle<C: Column>(&self) -> Option<Handle<C>> {
        let at = self.0.iter().position(|(id, _)| *id == TypeId::of::<C>())?;
        Some(Handle { at: u16::try_from(at).ok()?, of: PhantomData })
    }

    /// The values of a column. Cost: a type comparison, so get it once per batch.
    ///
    /// # Panics
    /// If the handle is not from this graph's binder.
    #[inline]
    pub fn get<C: Column>(&self, handle: Handle<C>) -> &Values<C> {
        known(&*self.0[usize::from(handle.at)].1)
    }

    /// The values of a column, mutable.
    ///
    /// # Panics
    /// As [`get`](Self::get).
    #[inline]
    pub fn get_mut<C: Column>(&mut self, handle: Handle<C>) -> &mut Values<C> {
        known_mut(&mut *self.0[usize::from(handle.at)].1)
    }

    /// Two columns at once.
    ///
    /// # Panics
    /// As [`get`](Self::get), and if `A` and `B` are one type.
    #[inline]
    pub fn pair_mut<A: Column, B: Column>(
        &mut self,
        a: Handle<A>,
        b: Handle<B>,
    ) -> (&mut Values<A>, &mut Values<B>) {
        match self.0.get_disjoint_mut([usize::from(a.at), usize::from(b.at)]) {
            Ok([a, b]) => (known_mut(&mut *a.1), known_mut(&mut *b.1)),
            Err(_) => unreachable!("the handles of {} and {} are of another graph, or one", A::NAME, B::NAME),
        }
    }

    #[cold]
    pub(crate) fn copy(&mut self, from: &Slot, to: &Slot) {
        self.0.iter_mut().for_each(|(_, values)| values.copy(from, to));
    }

    pub(crate) fn poison(&mut self, at: &Slot) {
        self.0.iter_mut().for_each(|(_, values)| values.poison(at));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Hash(u64);
    impl Column for Hash {
        const NAME: &'static str = "hash";
        const POISON: Self = Self(u64::MAX);
    }

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Route(u32);
    impl Column for Route {
        const NAME: &'static str = "route";
        const POISON: Self = Self(7);
    }

    #[test]
    fn a_type_has_one_column_and_columns_do_not_overlap() {
        let mut columns = Columns::default();
        for spec in
            [ColumnSpec::of::<Hash>(None), ColumnSpec::of::<Route>(None), ColumnSpec::of::<Hash>(Some("x"))]
        {
            columns.add(&spec);
        }
        assert_eq!(columns.0.len(), 2);
        let (hash, route) = (columns.handle::<Hash>().unwrap(), columns.handle::<Route>().unwrap());
        assert_eq!(columns.get(hash)[&Slot(9)], Hash::POISON);
        let (hashes, routes) = columns.pair_mut(hash, route);
        hashes[&Slot(255)] = Hash(1);
        routes[&Slot(255)] = Route(2);
        columns.copy(&Slot(255), &Slot(0));
        assert_eq!((columns.get(hash)[&Slot(0)], columns.get(route)[&Slot(0)]), (Hash(1), Route(2)));
        columns.poison(&Slot(255));
        assert_eq!(
            (columns.get(hash)[&Slot(255)], columns.get(route)[&Slot(255)]),
            (Hash::POISON, Route::POISON)
        );
        columns.get_mut(route)[&Slot(0)] = Route(3);
        assert_eq!((columns.get(hash)[&Slot(0)], columns.get(route)[&Slot(0)]), (Hash(1), Route(3)));
    }
}

//! The border: pointers become references and slices, errors and panics become a status.

use crate::status::{Failure, remember, sb_status};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A place for a pointer that the caller gets.
pub(crate) type Out<'a, T> = Option<&'a mut MaybeUninit<*mut T>>;

/// Runs the body of a function of the interface.
#[inline]
pub(crate) fn run(body: impl FnOnce() -> Result<(), Failure>) -> sb_status {
    // A panic is a defect. The objects it may have left half changed are not used again: the header says so.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => sb_status::Ok,
        Ok(Err(Failure { status, message })) => {
            remember(&message);
            status
        }
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            remember(text.unwrap_or("a panic without a text"));
            sb_status::Internal
        }
    }
}

/// Runs a body that makes an object. The caller gets a pointer to it, or NULL.
pub(crate) fn make<T>(out: Out<'_, T>, body: impl FnOnce() -> Result<T, Failure>) -> sb_status {
    run(|| {
        let out = given(out, "out")?;
        out.write(std::ptr::null_mut());
        let made = body()?;
        out.write(Box::into_raw(Box::new(made)));
        Ok(())
    })
}

/// The object that a parameter points to.
#[inline]
pub(crate) fn given<T>(parameter: Option<T>, name: &str) -> Result<T, Failure> {
    parameter.ok_or_else(|| Failure::argument(format!("{name} is NULL")))
}

fn is_array<T>(pointer: *const T, count: usize, name: &str) -> Result<bool, Failure> {
    if count == 0 {
        return Ok(false);
    }
    if pointer.is_null() {
        return Err(Failure::argument(format!("{name} is NULL, but has {count} elements")));
    }
    if !pointer.is_aligned() || count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::argument(format!("{name} is not aligned, or has too many elements: {count}")));
    }
    Ok(true)
}

/// The array that a parameter points to.
///
/// # Safety
/// Unless `count` is 0 or the pointer is NULL, it points to `count` elements that nobody writes while the slice is used.
#[inline]
pub(crate) unsafe fn input<'a, T>(pointer: *const T, count: usize, name: &str) -> Result<&'a [T], Failure> {
    if !is_array(pointer, count, name)? {
        return Ok(&[]);
    }
    // SAFETY: neither NULL nor unaligned nor too long, as checked; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// The array that a parameter points to, to be written. Its elements are numbers, for which all bits are valid.
///
/// # Safety
/// Unless `count` is 0 or the pointer is NULL, it points to `count` elements that nobody else uses while the slice is used.
#[inline]
pub(crate) unsafe fn output<'a, T: Number>(
    pointer: *mut T,
    count: usize,
    name: &str,
) -> Result<&'a mut [T], Failure> {
    if !is_array(pointer, count, name)? {
        return Ok(&mut []);
    }
    // SAFETY: neither NULL nor unaligned nor too long, as checked; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, count) })
}

/// Types of which all bits are valid values.
pub(crate) trait Number: Copy {}
impl Number for u8 {}
impl Number for u64 {}

/// Number of bytes of an array of `count` elements of `bytes` bytes.
pub(crate) fn total(count: usize, bytes: usize) -> Result<usize, Failure> {
    count.checked_mul(bytes).ok_or_else(|| Failure::argument(format!("too many elements: {count}")))
}

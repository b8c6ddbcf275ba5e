//! Arrays of numpy as slices. What is refused is named: the argument, and what it is instead.

use numpy::ndarray::Dimension;
use numpy::{
    Element, Ix1, Ix2, PyArray, PyArray1, PyArrayMethods as _, PyReadonlyArray, PyReadwriteArray,
    PyUntypedArray, PyUntypedArrayMethods as _,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// An array that is read.
pub(crate) type Column<'py, T> = PyReadonlyArray<'py, T, Ix1>;
/// An array of rows that is read.
pub(crate) type Rows<'py, T> = PyReadonlyArray<'py, T, Ix2>;

/// A numpy array of this type, or what is wrong.
fn typed<'a, 'py, T: Element, D: Dimension>(
    value: &'a Bound<'py, PyAny>,
    name: &str,
) -> PyResult<&'a Bound<'py, PyArray<T, D>>> {
    value.cast::<PyArray<T, D>>().map_err(|_| {
        let wanted = T::get_dtype(value.py());
        let dimensions = D::NDIM.unwrap_or_default();
        let got = match value.cast::<PyUntypedArray>() {
            Ok(array) => format!("an array of {} with {} dimension(s)", array.dtype(), array.ndim()),
            Err(_) => {
                value.get_type().name().map_or_else(|_| "another type".to_owned(), |name| name.to_string())
            }
        };
        PyTypeError::new_err(format!(
            "{name} must be a numpy array of {wanted} with {dimensions} dimension(s), not {got}"
        ))
    })
}

fn contiguous<T: Element, D: Dimension>(array: &Bound<'_, PyArray<T, D>>, name: &str) -> PyResult<()> {
    if !array.is_c_contiguous() {
        let what = format!("{name} is not contiguous: pass numpy.ascontiguousarray({name})");
        return Err(PyValueError::new_err(what));
    }
    if !array.data().is_aligned() {
        return Err(PyValueError::new_err(format!("{name} is not aligned: pass {name}.copy()")));
    }
    Ok(())
}

/// An array that the function reads.
pub(crate) fn input<'py, T: Element, D: Dimension>(
    value: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<PyReadonlyArray<'py, T, D>> {
    let array = typed::<T, D>(value, name)?;
    contiguous(array, name)?;
    array.try_readonly().map_err(|_| PyValueError::new_err(format!("{name} is being written")))
}

/// An array of rows of `width` elements that the function reads.
pub(crate) fn rows<'py, T: Element>(
    value: &Bound<'py, PyAny>,
    name: &str,
    width: usize,
) -> PyResult<Rows<'py, T>> {
    let array = input::<T, Ix2>(value, name)?;
    match array.shape() {
        [_, columns] if *columns == width => Ok(array),
        shape => {
            Err(PyValueError::new_err(format!("{name} must have the shape (n, {width}), not {shape:?}")))
        }
    }
}

/// An array, and its elements while a function writes them.
type Output<'py, T> = (Bound<'py, PyArray1<T>>, PyReadwriteArray<'py, T, Ix1>);

/// An array that the function writes: the given one, which must have this length, or a new one.
pub(crate) fn output<'py, T: Element>(
    py: Python<'py>,
    out: Option<&Bound<'py, PyAny>>,
    length: usize,
) -> PyResult<Output<'py, T>> {
    let array = match out {
        None => PyArray1::<T>::zeros(py, length, false),
        Some(given) => {
            let array = typed::<T, Ix1>(given, "out")?;
            contiguous(array, "out")?;
            if array.len() != length {
                return Err(PyValueError::new_err(format!("out has {} elements, not {length}", array.len())));
            }
            array.clone()
        }
    };
    let written = array.try_readwrite();
    let written = written.map_err(|_| PyValueError::new_err("out is read-only, or in use"))?;
    Ok((array, written))
}

/// Fails unless both have the same length.
pub(crate) fn same_length(names: [&str; 2], lengths: [usize; 2]) -> PyResult<()> {
    if lengths[0] == lengths[1] {
        return Ok(());
    }
    let ([a, b], [m, n]) = (names, lengths);
    Err(PyValueError::new_err(format!("{a} and {b} must have the same length, not {m} and {n}")))
}

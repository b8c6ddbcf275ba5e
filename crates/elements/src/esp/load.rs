//! Reads the associations of an element, and describes them.

use super::file;
use super::sa::Sa;
use scalebricks_graph::Environment;

/// The named associations of a file, in this order.
///
/// # Errors
/// File, section and key, and what is wrong.
pub(crate) fn load<P>(
    world: &mut dyn Environment<P>,
    path: &str,
    names: &[String],
) -> Result<Vec<Sa>, String> {
    let bytes = world.secret(path.as_ref())?;
    let at = |what: String| format!("{path}: {what}");
    let text = std::str::from_utf8(&bytes).map_err(|_| at("not UTF-8".to_owned()))?;
    let all = file::parse(text).map_err(|error| at(error.to_string()))?;
    let named = |name: &String| {
        let sa = all.iter().find(|sa| *sa.name == **name);
        sa.cloned().ok_or_else(|| at(format!("no [[sa]] is named {name:?}")))
    };
    names.iter().map(named).collect()
}

/// Whether two ends are of one association, which the second continues.
pub(crate) fn is_same(one: &Sa, other: &Sa) -> bool {
    (one.spi, one.dst, one.esn) == (other.spi, other.dst, other.esn) && one.keys == other.keys
}

/// One line of the handler `sas`.
pub(crate) fn line(sa: &Sa, (packets, bytes): (u64, u64), sequence: u64, is_ageing: bool) -> String {
    let state = match (sa.hard.is_over(packets, bytes), is_ageing) {
        (true, _) => "expired",
        (false, true) => "ageing",
        (false, false) => "fresh",
    };
    format!("{} {} {} {packets} {bytes} {sequence} {state}\n", sa.name, sa.spi, sa.suite().name())
}

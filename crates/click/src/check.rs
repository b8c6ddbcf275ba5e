//! Checks the names in a configuration: classes, elements and packages.

use crate::configuration::{Configuration, Declaration};
use crate::problem::{Diagnostic, Problem, similar};
use std::collections::{BTreeSet, HashSet};

/// Most errors for which a similar name is searched, as that takes long.
const MAX_HINTS: usize = 16;
const MAX_NAMES: usize = 4096;

/// The unknown classes of a configuration, element names that are used twice or name one of `classes`, and required
/// packages, of which there are none.
pub fn check(configuration: &Configuration, classes: &BTreeSet<&str>) -> Vec<Diagnostic> {
    let no_package = |requirement: &crate::Requirement| {
        Diagnostic::new(requirement.span, Problem::NoPackage(requirement.package.clone()))
    };
    let mut wrong: Vec<Diagnostic> = configuration.requirements.iter().map(no_package).collect();
    let mut names: HashSet<&str> = HashSet::new();
    let mut hints = 0;
    for element in &configuration.elements {
        let name = element.name.as_str();
        if !names.insert(name) {
            wrong.push(Diagnostic::new(element.span, Problem::Redeclared(name.to_owned())));
        }
        if classes.contains(name) {
            wrong.push(Diagnostic::new(element.span, Problem::ClassAsName(name.to_owned())));
        }
        if !classes.contains(element.class.as_str()) {
            hints += 1;
            wrong.push(unknown(configuration, element, classes, hints <= MAX_HINTS));
        }
    }
    wrong
}

/// The error about an element whose class does not exist.
fn unknown(
    configuration: &Configuration,
    element: &Declaration,
    classes: &BTreeSet<&str>,
    hints: bool,
) -> Diagnostic {
    let name = element.class.clone();
    let near = |names: &mut dyn Iterator<Item = &str>| {
        if hints { similar(&name, names.take(MAX_NAMES)) } else { None }
    };
    let class = near(&mut classes.iter().copied());
    if !element.bare {
        return Diagnostic::new(element.span, Problem::UnknownClass { name, similar: class });
    }
    let elements = &configuration.elements;
    let mut declared = elements.iter().filter(|other| !other.bare).map(|other| other.name.as_str());
    let similar = near(&mut declared).or(class);
    let diagnostic = Diagnostic::new(element.span, Problem::Undeclared { name, similar });
    match elements.iter().find(|other| other.name == element.class) {
        Some(later) => diagnostic.noted(later.span, "declared here, after its use"),
        None => diagnostic,
    }
}

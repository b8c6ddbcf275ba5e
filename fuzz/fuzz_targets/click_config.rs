//! A parser of configurations accepts any text or refuses it with line and column, within the limits. Printing an
//! accepted configuration and parsing it again gives the same configuration.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_click::values::{AddressInfo, Bandwidth, Bytes, Mac, Prefix, Value};
use scalebricks_click::{Limits, Options, check, parse};
use std::collections::BTreeSet;

fuzz_target!(|text: &[u8]| {
    let limits = Limits {
        elements: 2000,
        connections: 4000,
        depth: 20,
        expanded_bytes: 1 << 20,
        steps: 1 << 18,
        errors: 10,
        ..Limits::default()
    };
    let options = Options { limits, parameters: vec![("given".to_owned(), "7".to_owned())] };
    let configuration = match parse("input", text, &options) {
        Ok(configuration) => configuration,
        Err(errors) => {
            assert!((1..=10).contains(&errors.list().len()));
            let length = errors.source_text().text().len();
            assert!(errors.list().iter().all(|error| error.span.end as usize <= length.max(text.len())));
            assert!(!errors.to_string().is_empty());
            return;
        }
    };
    assert!(configuration.elements.len() <= 2000 && configuration.connections.len() <= 4000);
    let bytes: usize =
        configuration.elements.iter().flat_map(|element| &element.args).map(|arg| arg.text.len()).sum();
    assert!(bytes <= 1 << 20);
    let names = AddressInfo::of(&configuration).unwrap_or_default();
    for element in &configuration.elements {
        for arg in &element.args {
            let place = arg.place(1, arg.text.len());
            assert!(place.end as usize <= text.len());
            let names = names.names(&element.name);
            let _ = (Bytes::read(&arg.text, &names), Bandwidth::read(&arg.text, &names));
            let _ = (Prefix::read(&arg.text, &names), Mac::read(&arg.text, &names));
        }
    }
    if let Some(errors) = configuration.errors(check(&configuration, &BTreeSet::from(["Queue", "Discard"]))) {
        assert!(!errors.to_string().is_empty());
    }
    let printed = configuration.to_string();
    match parse("printed", printed.as_bytes(), &Options::default()) {
        Ok(again) => assert_eq!(again, configuration, "{printed}"),
        Err(errors) => panic!("{errors}\n{printed}"),
    }
});

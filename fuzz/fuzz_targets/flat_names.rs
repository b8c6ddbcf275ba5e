//! The parser accepts any file of names or refuses it with line numbers. An accepted file is the same after it was
//! written and read again, and a table accepts it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_apps::switch::file::parse_names;
use scalebricks_apps::switch::text::{PortNames, action_text, name_text, parse_action, parse_name};
use scalebricks_elements::flat::{
    Base, BytesAt, CheckBits, Length, NameConfig, NameKind, NameTable, UnknownNamePolicy,
};
use scalebricks_types::{HashSeed, KeyHasher};

fuzz_target!(|input: &[u8]| {
    let [what, file @ ..] = input else { return };
    let place = |length| NameKind::Bytes(BytesAt::new(Base::Frame, 0, length).unwrap());
    let kind = match what % 7 {
        0 => NameKind::Mac,
        1 => NameKind::Ipv4,
        2 => NameKind::Ipv6,
        3 => NameKind::Tuple { with_port: false },
        4 => NameKind::Tuple { with_port: true },
        5 => place(Length::Fixed(4)),
        _ => place(Length::Prefix8),
    };
    let ports = PortNames::new(["left", "right"].map(str::to_owned).to_vec()).unwrap();
    let names = match parse_names(file, kind, &ports) {
        Ok(names) => names,
        Err(errors) => {
            let lines = file.split(|&byte| byte == b'\n').count();
            assert!(errors.lines.iter().all(|error| (1..=lines).contains(&error.line) && error.column > 0));
            return;
        }
    };
    for (name, action) in &names {
        assert_eq!(parse_name(&name_text(name, &ports), kind, &ports).as_ref(), Ok(name));
        assert_eq!(parse_action(&action_text(action, &ports), &ports).as_ref(), Ok(action));
    }
    let hasher = KeyHasher::new(HashSeed::from_u64(1));
    let mut table = NameTable::new(NameConfig {
        kind,
        hasher,
        ports: 2,
        expected: 1,
        check_bits: CheckBits::new(8).unwrap(),
        filter_rate: None,
        spreads_aliens: false,
    })
    .unwrap();
    table.change_to(&names).unwrap();
    let mut reader = table.fib().reader(UnknownNamePolicy::Drop);
    for (name, action) in &names {
        assert_eq!(reader.lookup(name.hash(&hasher)).action, Some(*action));
    }
});

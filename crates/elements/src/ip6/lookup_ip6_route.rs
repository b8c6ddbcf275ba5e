//! `LookupIP6Route`.

use scalebricks_tables::lpm::Params;

crate::routes::class::lookup_class! {
    /// Sends each IPv6 packet by the longest-prefix route of its destination annotation, and sets the annotation to the
    /// route's gateway, if it has one. The first loads are from a 256 KiB index by the first 16 address bits and from
    /// blocks of 8 bits; a /48 needs three blocks.
    LookupIP6Route as "LookupIP6Route", LookupIP6RouteParams, Ipv6Addr, DstIp6, { "::/0 0", "2001:db8::/32 fe80::1 1", },
    Params::SMALL, changes
}

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv6_of};
    use crate::test_environment::TestEnvironment;
    use scalebricks_graph::Builder;
    use scalebricks_io::Packet;
    use scalebricks_tables::lpm::Prefix;
    use std::io::Write;
    use std::net::Ipv6Addr;

    fn fill(args: Vec<String>) -> impl FnOnce(&mut Builder<Packet>) {
        move |builder| {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            builder.declare("c", "CheckIP6Header", &[]).declare("r", "LookupIP6Route", &args);
            builder.chain(&["in", "c", "r"]);
            (0..3).for_each(|output| {
                builder.connect("r", output, &format!("out{output}"), 0);
            });
        }
    }

    /// Routes of a file, plain and gzipped, are used like arguments, and every packet leaves by the longest prefix that a
    /// search of all prefixes finds.
    #[test]
    fn packets_go_by_the_longest_prefix_of_file_and_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, packed) = (folder.path().join("r.txt"), folder.path().join("r.txt.gz"));
        let routes = ["2001:db8::/32", "2001:db8:1::/48", "2001:db8:1:1::/64", "2001:db8:1:1::7/128"];
        let lines = routes.iter().enumerate().map(|(at, route)| format!("{route} - {}", at % 3));
        let text = lines.collect::<Vec<_>>().join("\n");
        std::fs::write(&plain, &text).unwrap();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        std::fs::write(&packed, encoder.finish().unwrap()).unwrap();
        for file in [plain, packed] {
            let args = vec!["::/0 2".to_owned(), format!("FILE {}", file.display())];
            let mut rig = Rig::new(3, fill(args));
            rig.open(&mut TestEnvironment::default()).unwrap();
            let all = [
                "2001:db8::1",
                "2001:db8:1::1",
                "2001:db8:1:1::1",
                "2001:db8:1:1::7",
                "2001:db9::1",
                "fe80::1",
            ];
            let mut expected = [0; 3];
            for address in all {
                let address: Ipv6Addr = address.parse().unwrap();
                let contains = |(_, route): &(usize, &&str)| {
                    route.parse::<Prefix<Ipv6Addr>>().unwrap().contains(address)
                };
                let longest = routes.iter().enumerate().rev().find(contains);
                expected[longest.map_or(2, |(at, _)| at % 3)] += 1;
                rig.send([ipv6_of(|header| header.dst = address, b"")]);
            }
            rig.turn();
            assert_eq!([0, 1, 2].map(|end| rig.got(end).len()), expected);
            assert_eq!(rig.read("r", "routes"), "5");
        }
    }

    #[test]
    fn files_with_errors_are_refused_by_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.txt").display().to_string();
        let open = |path: &str| {
            let mut rig = Rig::new(3, fill(vec![format!("FILE {path}")]));
            rig.open(&mut TestEnvironment::default()).unwrap_err().remove(0).1
        };
        std::fs::write(&path, "::/0 0\n::/129 0\n").unwrap();
        assert_eq!(
            open(&path),
            format!("{path}: line 2: expected `ADDR/MASK [GATEWAY] OUTPUT`, not `::/129 0`")
        );
        std::fs::write(&path, "::/0 3").unwrap();
        assert_eq!(open(&path), format!("{path}: line 1: output 3 of 3, in route `::/0 - 3`"));
        assert!(open(&format!("{path}.none")).contains("No such file"));
    }
}

//! `RadixIPLookup`.

use scalebricks_tables::lpm::Params;

crate::routes::class::lookup_class! {
    /// Sends each packet by the longest-prefix route of its destination annotation, and sets the annotation to the
    /// route's gateway, if it has one. For tables that should stay in the cache: a 256 KiB index by the first 16
    /// address bits; longer prefixes need one or two more loads.
    RadixIPLookup as "RadixIPLookup", RadixIPLookupParams, Ipv4Addr, DstIp, { "0.0.0.0/0 0", "10.0.0.0/8 10.0.0.1 1", },
    Params::SMALL, changes
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;
    use crate::rig_ip::{Given, Shown};
    use scalebricks_graph::Builder;
    use scalebricks_io::Packet;

    /// Packets are the four bytes of their address, and leave with the address they have then.
    fn fill<'a>(class: &'a str, routes: &'a [&'a str]) -> impl FnOnce(&mut Builder<Packet>) + 'a {
        move |builder| {
            builder.add("given", Given::default()).declare("r", class, routes);
            builder.chain(&["in", "given", "r"]);
            for output in 0..3 {
                let (shown, end) = (format!("shown{output}"), format!("out{output}"));
                builder
                    .add(&shown, Shown::default())
                    .connect("r", output, &shown, 0)
                    .connect(&shown, 0, &end, 0);
            }
        }
    }

    const ROUTES: [&str; 4] = ["10.0.0.0/8 0", "10.1.0.0/16 192.0.2.1 1", "10.1.2.3 2", "0/0 192.0.2.254 1"];

    #[test]
    fn packets_go_by_the_longest_prefix_to_its_gateway() {
        for class in ["StaticIPLookup", "LinearIPLookup", "RadixIPLookup", "DirectIPLookup"] {
            let mut rig = Rig::new(3, fill(class, &ROUTES));
            rig.send([[10, 9, 9, 9], [10, 1, 0, 7], [10, 1, 2, 3], [8, 8, 8, 8], [10, 9, 9, 8]]);
            rig.turn();
            let got = [0, 1, 2].map(|end| rig.got(end));
            assert_eq!(got[0], [[10, 9, 9, 9], [10, 9, 9, 8]], "{class}");
            assert_eq!(got[1], [[192, 0, 2, 1], [192, 0, 2, 254]]);
            assert_eq!(got[2], [[10, 1, 2, 3]]);
            assert_eq!(
                (rig.read("r", "lookup 10.1.0.7"), rig.read("r", "routes")),
                ("1 192.0.2.1".into(), "4".into())
            );
            rig.send([[1, 1, 1, 1], [2, 2, 2, 2]]);
            rig.turn();
            assert_eq!(rig.got(1), [[192, 0, 2, 254], [192, 0, 2, 254]], "one way for all");
        }
    }

    #[test]
    fn routes_change_between_turns() {
        let mut rig = Rig::new(3, fill("RadixIPLookup", &[]));
        let send = |rig: &mut Rig| {
            rig.send([[10, 0, 0, 1]]);
            rig.turn();
            [0, 1, 2].map(|end| rig.got(end).len())
        };
        assert_eq!((send(&mut rig), rig.number("r", "no_route")), ([0, 0, 0], 1));
        rig.write("r", "add", "10.0.0.0/8 1").unwrap();
        assert_eq!(send(&mut rig), [0, 1, 0]);
        assert!(rig.write("r", "add", "10.0.0.0/8 2").is_err());
        rig.write("r", "set", "10.0.0.0/8 2").unwrap();
        assert_eq!(send(&mut rig), [0, 0, 1]);
        rig.write("r", "ctrl", "add 10.0.0.1 0\nremove 10.0.0.0/8").unwrap();
        assert_eq!((send(&mut rig), rig.read("r", "table")), ([1, 0, 0], "10.0.0.1/32\t-\t0\n".into()));
        rig.write("r", "remove", "10.0.0.1/32").unwrap();
        assert_eq!((send(&mut rig), rig.read("r", "lookup 10.0.0.1")), ([0, 0, 0], "-1".into()));
        assert!(rig.worker.graph_mut().read("r", "lookup x").is_err());
        assert!(Rig::new(3, fill("StaticIPLookup", &ROUTES)).write("r", "add", "1.0.0.0/8 0").is_err());
    }

    #[test]
    fn wrong_routes_are_refused() {
        for (routes, message) in [
            (&["10.0.0.0/8 3"][..], "element r: output 3 of 3, in route `10.0.0.0/8 - 3`"),
            (&["10.0.0.0/8 0", "10.0.0.1/8 1"], "element r: conflict with existing route `10.0.0.0/8 - 0`"),
        ] {
            let error = Rig::with_buffers(5, 3, fill("DirectIPLookup", routes)).err().unwrap().to_string();
            assert_eq!(error, message);
        }
        assert!(Rig::with_buffers(5, 3, fill("DirectIPLookup", &["10.0.0.0/8"])).is_err());
    }
}

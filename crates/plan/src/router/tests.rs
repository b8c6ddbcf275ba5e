use super::*;
use proptest::prelude::*;

/// RB4: four servers, two cards of two 10 Gb/s ports each, one port external.
fn rb4() -> Inputs {
    let nic = Nic { ports: 2, rate: Rate::gigabits(10) };
    Inputs {
        ports: 4,
        rate: Rate::gigabits(10),
        ports_per_server: 1,
        nic,
        nics: 2,
        external_nic: None,
        server_rate: None,
        link_rule: LinkRule::Safe,
        parts: Parts { server_usd: 3_625.0, server_latency_us: 23.84, ..Parts::default() },
    }
}

/// Ports of 400 Gb/s, and four cards of eight 100 Gb/s ports for internal links.
fn large(ports: u64) -> Inputs {
    Inputs {
        ports,
        rate: Rate::gigabits(400),
        nic: Nic { ports: 8, rate: Rate::gigabits(100) },
        nics: 5,
        external_nic: Some(Nic { ports: 1, rate: Rate::gigabits(400) }),
        ..rb4()
    }
}

fn is_close(left: f64, right: f64) -> bool {
    (left - right).abs() < 1e-6
}

#[test]
fn rb4_is_a_mesh_of_four() {
    let plan = plan(&rb4()).unwrap();
    let estimate = &plan.recommended;
    assert_eq!(estimate.layout.topology, Topology::FullMesh);
    assert_eq!((estimate.servers, estimate.layout.cables, estimate.nics), (4, 6, 8));
    assert_eq!(estimate.layout.link_demand_bits_per_second, 7_500_000_000);
    assert_eq!(estimate.server_demand_bits_per_second, 30_000_000_000);
    assert!(is_close(estimate.cost_usd, 14_500.0));
    assert!(is_close(estimate.power_watts, 2_600.0));
    assert!(is_close(estimate.rack_units, 4.0));
    // The paper's 66.4 us for three servers charges the third only two of its four DMA transfers.
    assert!(is_close(estimate.latency_us.0, 47.68) && is_close(estimate.latency_us.1, 71.52));
    assert!(estimate.layout.is_guaranteed && estimate.fits_ports && plan.by_the_paper.is_empty());
}

#[test]
fn the_paper_s_links_carry_less_and_guarantee_nothing() {
    let plan = plan(&Inputs { link_rule: LinkRule::Paper, ..rb4() }).unwrap();
    assert_eq!(plan.recommended.layout.link_demand_bits_per_second, 5_000_000_000);
    assert!(!plan.recommended.layout.is_guaranteed);
}

#[test]
fn lanes_come_whole_so_two_servers_more_may_fit() {
    let inputs = crate::figure3::CONFIGURATIONS[0].inputs(18);
    let layout = plan(&inputs).unwrap().recommended.layout;
    assert_eq!((layout.topology, layout.port_servers), (Topology::FullMesh, 20));
}

#[test]
fn a_thousand_ports_of_400_gigabits_are_a_fly() {
    let plan = plan(&large(1_024)).unwrap();
    let layout = &plan.recommended.layout;
    // 16 of 32 internal ports lead to each side; 16 x 16 rows do not suffice, 11 x 10 x 10 do.
    assert_eq!(
        layout.topology,
        Topology::NFly { reading: Reading::SharedColumns, radices: vec![10, 10, 11] }
    );
    assert_eq!((layout.port_servers, layout.intermediate_servers), (1_100, 2_200));
    assert_eq!(layout.path_servers, (7, 7));
    // Every row has 31 links to the next columns, one lane each.
    assert_eq!((layout.links, layout.cables), (34_100, 34_100));
    let paper: Vec<_> = plan.by_the_paper.iter().map(|e| (e.servers, e.fits_ports)).collect();
    assert_eq!(paper, [(3_072, false), (3_072, false)]);
}

#[test]
fn errors_say_what_is_allowed() {
    let error = |inputs: &Inputs| plan(inputs).unwrap_err();
    assert_eq!(error(&Inputs { ports: 1, ..rb4() }), PlanError::Ports(1));
    assert_eq!(error(&Inputs { ports: MAX_PORTS + 1, ..rb4() }), PlanError::Ports(MAX_PORTS + 1));
    assert_eq!(error(&Inputs { ports_per_server: 0, ..rb4() }), PlanError::PortsPerServer(0, 4));
    assert_eq!(error(&Inputs { ports_per_server: 5, ..rb4() }), PlanError::PortsPerServer(5, 4));
    assert_eq!(error(&Inputs { nics: 0, ..rb4() }), PlanError::Nics(0));
    let slow = error(&Inputs { server_rate: "29G".parse().ok(), ..rb4() });
    assert!(slow.to_string().contains("allows 0 external ports"), "{slow}");
    assert!(plan(&Inputs { server_rate: "30G".parse().ok(), ..rb4() }).is_ok());
    let full = error(&Inputs { ports_per_server: 4, ..rb4() });
    assert_eq!(full, PlanError::NoInternalPort { needed: 4, available: 4, unit: "ports" });
    let full = error(&Inputs { nics: 1, ..large(4) });
    assert_eq!(full, PlanError::NoInternalPort { needed: 1, available: 1, unit: "cards" });
    let narrow = error(&Inputs { ports: 100, ..rb4() });
    assert!(narrow.to_string().contains("at least 4 internal ports"), "{narrow}");
}

fn inputs() -> impl Strategy<Value = Inputs> {
    let rate =
        prop_oneof![Just(1), Just(10), Just(25), Just(40), Just(100), Just(400)].prop_map(Rate::gigabits);
    let nic = (1_u32..=16, rate.clone()).prop_map(|(ports, rate)| Nic { ports, rate });
    let rule = prop_oneof![Just(LinkRule::Paper), Just(LinkRule::Safe)];
    (2_u64..=5_000, rate, 1_u32..=4, nic.clone(), 1_u32..=24, proptest::option::of(nic), rule).prop_map(
        |(ports, rate, ports_per_server, nic, nics, external_nic, link_rule)| Inputs {
            ports,
            rate,
            ports_per_server,
            nic,
            nics,
            external_nic,
            link_rule,
            ..rb4()
        },
    )
}

/// The first mesh that fits, by the rule in floating point.
fn slow_mesh(inputs: &Inputs, lanes: u64) -> Option<u64> {
    let gigabits = |rate: Rate| rate.bits() as f64 / 1e9;
    (inputs.port_servers().max(2)..=lanes + 1).find(|servers| {
        let demand = f64::from(inputs.link_rule.factor() * inputs.ports_per_server) * gigabits(inputs.rate)
            / *servers as f64;
        let lanes_of_a_link = (demand / gigabits(inputs.nic.rate) - 1e-9).ceil().max(1.0);
        lanes_of_a_link * (*servers - 1) as f64 <= lanes as f64
    })
}

proptest! {
    #[test]
    fn a_mesh_wherever_one_fits(inputs in inputs()) {
        if let Ok(plan) = plan(&inputs) {
            let mesh = slow_mesh(&inputs, plan.fanout);
            prop_assert_eq!(plan.recommended.layout.topology == Topology::FullMesh, mesh.is_some());
            if let Some(servers) = mesh {
                prop_assert_eq!(plan.recommended.servers, servers);
            }
        } else if let Ok(lanes) = inputs.internal_lanes() {
            prop_assert!(slow_mesh(&inputs, lanes.count).is_none() || u64::from(inputs.ports_per_server) > inputs.ports);
        }
    }

    #[test]
    fn capacities_meet_demands(inputs in inputs()) {
        let Ok(plan) = plan(&inputs) else { return Ok(()) };
        let layout = &plan.recommended.layout;
        let lane = u128::from(inputs.nic.rate.bits());
        prop_assert!(u128::from(layout.lanes_per_link) * lane >= layout.link_demand_bits_per_second);
        prop_assert!(plan.recommended.fits_ports);
        prop_assert!(layout.port_servers * u64::from(inputs.ports_per_server) >= inputs.ports);
        prop_assert!(layout.port_server_lanes.max(layout.intermediate_server_lanes) <= plan.fanout);
        // A server sends all its external traffic over its links, or all but its own share in a mesh.
        let out = match &layout.topology {
            Topology::FullMesh => layout.lanes_per_link * (layout.port_servers - 1),
            Topology::NFly { radices, .. } => {
                let rows: u64 = radices.iter().map(|radix| u64::from(*radix)).product();
                prop_assert_eq!(rows, layout.port_servers);
                for radix in radices {
                    let demand = inputs.external_bits().div_ceil(u128::from(*radix));
                    prop_assert!(u128::from(layout.lanes_per_link) * lane >= demand);
                }
                layout.port_server_lanes / 2
            }
        };
        let sent = if layout.topology == Topology::FullMesh {
            inputs.external_bits() * u128::from(layout.port_servers - 1) / u128::from(layout.port_servers)
        } else {
            inputs.external_bits()
        };
        prop_assert!(u128::from(out) * lane >= sent);
        // Each cable has two ends in ports.
        let ends = layout.port_servers * layout.port_server_lanes
            + layout.intermediate_servers * layout.intermediate_server_lanes;
        prop_assert!(2 * layout.cables <= ends);
    }

    #[test]
    fn more_ports_never_take_fewer_servers(inputs in inputs(), more in 1_u64..=500) {
        let larger = Inputs { ports: inputs.ports + more, ..inputs };
        if let (Ok(small), Ok(large)) = (plan(&inputs), plan(&larger)) {
            prop_assert!(small.recommended.servers <= large.recommended.servers);
        }
    }

    #[test]
    fn digits_are_the_least(k in 2_u64..=200, v in 2_u64..=1_000_000) {
        let n = crate::topology::digits(k, v).unwrap();
        prop_assert!(u128::from(k).pow(n) >= u128::from(v));
        prop_assert!(n == 1 || u128::from(k).pow(n - 1) < u128::from(v));
    }

    #[test]
    fn nothing_panics(ports in any::<u64>(), bits in any::<u64>(), s in any::<u32>(), nics in any::<u32>(), card in 1_u32..=128) {
        let rate = Rate::new(bits).unwrap_or(Rate::gigabits(1));
        let nic = Nic { ports: card, rate: Rate::gigabits(100) };
        drop(plan(&Inputs { ports, rate, ports_per_server: s, nic, nics, ..rb4() }));
        let near = Inputs { ports: ports % (MAX_PORTS + 2), nics: nics % 66, ports_per_server: s % 5, rate, nic, ..rb4() };
        drop(plan(&near));
    }
}

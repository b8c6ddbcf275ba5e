//! The k-ary n-fly, in both readings of the paper.

use super::matrix::Matrix;
use super::rig::{Judgement, RATE, Run, hops, table};
use scalebricks_apps::router::fly::{FlyConfig, Reading};

fn config(k: usize, n: u32, reading: Reading) -> FlyConfig {
    FlyConfig { k, n, reading, port_rate: RATE, link_rate: RATE / k as u64, queue: 10_000, seed: 1 }
}

/// The judgement, and the largest load of a link relative to R/k.
fn judge(config: &FlyConfig, matrix: Matrix, slots: usize) -> (Judgement, f64) {
    let size = config.port_servers();
    let (mut network, links) = config.network(&table(size), &hops(size), 1 << 17).unwrap();
    assert_eq!(network.len(), config.servers());
    let judgement = Run { network: &mut network, matrix, slots, horizon: slots + 100 }.judge();
    let largest = judgement.loads[..links].iter().copied().fold(0.0, f64::max) * config.k as f64;
    (judgement, largest)
}

/// Sends from each node to the node with its digits in reverse order, which meets itself in a fly.
fn reversal(k: usize, n: u32) -> Matrix {
    let reverse = |mut row: usize| {
        (0..n).fold(0, |reversed, _| {
            let digit = row % k;
            row /= k;
            reversed * k + digit
        })
    };
    Matrix::permutation(&(0..k.pow(n)).map(reverse).collect::<Vec<_>>())
}

#[test]
fn the_number_of_servers_is_that_of_the_readings() {
    let servers = |k, n, reading| config(k, n, reading).servers();
    assert_eq!((servers(4, 3, Reading::TwoPasses), servers(4, 3, Reading::OnePass)), (320, 256));
    // The paper's anchor: 1,024 ports with k = 32 need 3,072 servers, in both readings.
    assert_eq!((servers(32, 2, Reading::TwoPasses), servers(32, 2, Reading::OnePass)), (3_072, 3_072));
}

#[test]
fn two_passes_carry_every_admissible_matrix() {
    let mut all = vec![
        ("uniform", Matrix::uniform(8)),
        ("permutation", Matrix::shift(8)),
        ("reversal", reversal(2, 3)),
        ("worst case of the mesh", Matrix::worst_of_direct_vlb(8)),
        ("hot spot", Matrix::hot_spot(8)),
    ];
    all.extend([1, 2, 3].map(|seed| ("Birkhoff", Matrix::birkhoff(8, 4, seed))));
    for (name, matrix) in all {
        let (judgement, largest) = judge(&config(2, 3, Reading::TwoPasses), matrix.times(0.9), 400);
        judgement.assert_throughput(name);
        assert!(largest < 1.0, "{name}: {largest} of R/k");
        assert_eq!(judgement.nodes, 7.0, "{name}");
    }
}

/// The reading that fits the paper's figures fails: a link must carry k times its rate.
#[test]
fn one_pass_carries_uniform_traffic_only() {
    let (judgement, _) = judge(&config(2, 3, Reading::OnePass), Matrix::uniform(8).times(0.9), 400);
    judgement.assert_throughput("uniform");
    assert_eq!(judgement.nodes, 5.0);
    let (judgement, largest) = judge(&config(2, 3, Reading::OnePass), reversal(2, 3).times(0.9), 400);
    assert!(largest > 1.5, "{largest} of R/k");
    assert!(judgement.most_waiting[1] > judgement.most_waiting[0] * 3 / 2, "{judgement:?}");
}

#[test]
fn sixty_four_ports_with_radix_four() {
    let (judgement, largest) = judge(&config(4, 3, Reading::TwoPasses), reversal(4, 3).times(0.9), 150);
    judgement.assert_throughput("reversal");
    // The largest of 1,536 links over 150 slots: a random load of 0.9.
    assert!(largest < 1.15 && judgement.nodes == 7.0, "{largest} of R/k, {} nodes", judgement.nodes);
    let (judgement, largest) = judge(&config(4, 3, Reading::OnePass), reversal(4, 3).times(0.9), 60);
    assert!(largest > 3.0 && judgement.nodes == 5.0, "{largest} of R/k, {} nodes", judgement.nodes);
}

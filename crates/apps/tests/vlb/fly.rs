//! The k-ary n-fly, in three readings of the paper.

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
    assert_eq!(ALL.map(|reading| servers(4, 3, reading)), [320, 192, 256]);
    // The paper's anchor: 1,024 ports with k = 32 need 3,072 servers, in the first and last reading.
    assert_eq!(ALL.map(|reading| servers(32, 2, reading)), [3_072, 2_048, 3_072]);
}

/// The largest load of a link relative to R/k, if packets were a fluid. It follows the probability of each place of a
/// packet, and knows neither elements nor servers.
fn expected(k: usize, n: u32, reading: Reading, matrix: &Matrix) -> f64 {
    let forth = || (0..n).map(|digit| (digit, true));
    let hops: Vec<(u32, bool)> = match reading {
        Reading::TwoPasses => forth().chain((0..n).map(|digit| (digit, false))).collect(),
        Reading::SharedColumns => forth().chain((0..n).rev().map(|digit| (digit, false))).collect(),
        Reading::OnePass => [(n - 1, true)].into_iter().chain((0..n).map(|digit| (digit, false))).collect(),
    };
    let size = matrix.size();
    let mut links = vec![0.0; hops.len() * size * size];
    for (input, output) in (0..size).flat_map(|input| (0..size).map(move |output| (input, output))) {
        let mut places = vec![0.0; size];
        places[input] = matrix.rate(input, output);
        for (stage, &(digit, is_random)) in hops.iter().enumerate() {
            let unit = k.pow(digit);
            let mut next = vec![0.0; size];
            for (from, rate) in places.into_iter().enumerate().filter(|(_, rate)| *rate > 0.0) {
                let own = from / unit % k;
                let wanted = output / unit % k;
                for value in (0..k).filter(|&value| is_random || value == wanted) {
                    let (to, part) =
                        (from - own * unit + value * unit, if is_random { rate / k as f64 } else { rate });
                    next[to] += part;
                    links[(stage * size + from) * size + to] += part;
                }
            }
            places = next;
        }
    }
    links.into_iter().fold(0.0, f64::max) * k as f64
}

const ALL: [Reading; 3] = [Reading::TwoPasses, Reading::SharedColumns, Reading::OnePass];

const LOAD: f64 = 0.9;

/// The matrices of the mesh's tests, and the one that is the fly's worst.
fn admissible(k: usize, n: u32, seeds: impl IntoIterator<Item = u64>) -> Vec<(String, Matrix)> {
    let size = k.pow(n);
    let mut all = vec![
        ("uniform".to_owned(), Matrix::uniform(size)),
        ("permutation".to_owned(), Matrix::shift(size)),
        ("worst case of the mesh".to_owned(), Matrix::worst_of_direct_vlb(size)),
        ("hot spot".to_owned(), Matrix::hot_spot(size)),
        ("digit reversal".to_owned(), reversal(k, n)),
    ];
    all.extend(
        seeds.into_iter().map(|seed| (format!("Birkhoff, seed {seed}"), Matrix::birkhoff(size, 4, seed))),
    );
    all
}

/// A reading of two phases carries these matrices, each of which fits its links. `tolerance`: by how much the random
/// choices of a short run load a link more.
fn carries(
    k: usize,
    n: u32,
    reading: Reading,
    slots: usize,
    tolerance: f64,
    matrices: Vec<(String, Matrix)>,
) {
    for (name, matrix) in matrices {
        let (what, matrix) = (format!("{reading:?}, {name}"), matrix.times(LOAD));
        let expected = expected(k, n, reading, &matrix);
        assert!(expected < LOAD + 1e-6, "{what}: {expected} of R/k");
        let (judgement, largest) = judge(&config(k, n, reading), matrix, slots);
        judgement.assert_throughput(&what);
        assert!(largest < expected + tolerance, "{what}: {largest} of R/k, where {expected} is expected");
        assert_eq!(judgement.nodes, f64::from(2 * n + 1), "{what}");
    }
}

#[test]
fn two_phases_of_eight_ports_carry_every_admissible_matrix() {
    for reading in [Reading::TwoPasses, Reading::SharedColumns] {
        carries(2, 3, reading, 400, 0.2, admissible(2, 3, [1]));
    }
}

/// The reading that fits the paper's figures fails: a link must carry k times its rate.
#[test]
fn one_pass_carries_uniform_traffic_only() {
    let (judgement, _) = judge(&config(2, 3, Reading::OnePass), Matrix::uniform(8).times(LOAD), 400);
    judgement.assert_throughput("uniform");
    assert_eq!(judgement.nodes, 5.0);
    let (judgement, largest) = judge(&config(2, 3, Reading::OnePass), reversal(2, 3).times(LOAD), 400);
    assert!(largest > 1.5, "{largest} of R/k");
    assert!(judgement.most_waiting[1] > judgement.most_waiting[0] * 3 / 2, "{judgement:?}");
}

#[test]
fn sixty_four_ports_with_radix_four() {
    let (judgement, largest) = judge(&config(4, 3, Reading::TwoPasses), reversal(4, 3).times(LOAD), 150);
    judgement.assert_throughput("reversal");
    // The largest of 1,536 links over 150 slots: a random load of 0.9.
    assert!(largest < 1.15 && judgement.nodes == 7.0, "{largest} of R/k, {} nodes", judgement.nodes);
    let (judgement, largest) = judge(&config(4, 3, Reading::OnePass), reversal(4, 3).times(LOAD), 60);
    assert!(largest > 3.0 && judgement.nodes == 5.0, "{largest} of R/k, {} nodes", judgement.nodes);
}

#[test]
fn sixty_four_ports_with_shared_columns() {
    let matrices = admissible(4, 3, []).into_iter().take(2).collect();
    carries(4, 3, Reading::SharedColumns, 100, 0.3, matrices);
}

/// Digit reversal loads a link of the reading that fits the paper's figures with k times its rate.
#[test]
fn one_pass_fails_where_two_phases_do_not() {
    for (k, n) in [(2, 3), (4, 3)] {
        let of = |reading| expected(k, n, reading, &reversal(k, n));
        assert_eq!(ALL.map(of), [1.0, 1.0, k as f64]);
    }
}

/// A server without ports passes on 2R, R for each phase; one with ports 3R, which it receives from a port or from links.
#[test]
fn a_server_of_shared_columns_forwards_two_times_the_rate_of_a_port() {
    let (k, n) = (4, 3);
    let config = config(k, n, Reading::SharedColumns);
    let (judgement, _) = judge(&config, reversal(k, n).times(LOAD), 100);
    let rows = config.port_servers();
    // Links have the numbers of their columns, rows and values.
    let sent =
        |column: usize, row: usize| judgement.loads[(column * rows + row) * k..][..k].iter().sum::<f64>();
    let hops = 2 * n as usize;
    for row in 0..rows {
        for column in 1..n as usize {
            let both = sent(column, row) + sent(hops - column, row);
            assert!((1.5..2.2).contains(&both), "column {column}, row {row}: {both} R");
        }
        let of_ports = sent(0, row) + sent(n as usize, row) + LOAD;
        assert!((2.4..3.2).contains(&of_ports), "row {row}: {of_ports} R");
    }
}

//! The k-ary n-fly, in three readings of the paper.

use super::matrix::Matrix;
use super::rig::{Judgement, RATE, Run, SLOT_PACKETS, hops, table};
use scalebricks_apps::router::fairness::jain;
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

/// What packets would do if they were a fluid.
struct Fluid {
    /// The largest load that is offered to a link, relative to R/k.
    largest: f64,
    /// What leaves of the rate of each input.
    leaves: Vec<f64>,
}

/// Follows the rate of each place of a packet, and knows neither elements nor servers. A link passes on at most `most`
/// times R/k, and has a FIFO queue: what enters leaves in the same proportions.
fn fluid(k: usize, n: u32, reading: Reading, matrix: &Matrix, most: f64) -> Fluid {
    let forth = || (0..n).map(|digit| (digit, true));
    let hops: Vec<(u32, bool)> = match reading {
        Reading::TwoPasses => forth().chain((0..n).map(|digit| (digit, false))).collect(),
        Reading::SharedColumns => forth().chain((0..n).rev().map(|digit| (digit, false))).collect(),
        Reading::OnePass => [(n - 1, true)].into_iter().chain((0..n).map(|digit| (digit, false))).collect(),
    };
    let size = matrix.size();
    let mut largest: f64 = 0.0;
    // Rates by input, output and place.
    let at = |input: usize, output: usize, place: usize| (input * size + output) * size + place;
    let mut rates = vec![0.0; size * size * size];
    for (input, output) in (0..size).flat_map(|input| (0..size).map(move |output| (input, output))) {
        rates[at(input, output, input)] = matrix.rate(input, output);
    }
    for (digit, is_random) in hops {
        let unit = k.pow(digit);
        // What goes from a place over its links: part of the rate, and the next place.
        let ways = |output: usize, from: usize| {
            let (own, wanted) = (from / unit % k, output / unit % k);
            let part = if is_random { 1.0 / k as f64 } else { 1.0 };
            let values = (0..k).filter(move |&value| is_random || value == wanted);
            values.map(move |value| (part, from - own * unit + value * unit))
        };
        let mut loads = vec![0.0; size * size];
        for (number, rate) in rates.iter().enumerate().filter(|(_, rate)| **rate > 0.0) {
            let (output, from) = (number / size % size, number % size);
            ways(output, from).for_each(|(part, to)| loads[from * size + to] += rate * part * k as f64);
        }
        largest = loads.iter().copied().fold(largest, f64::max);
        let mut next = vec![0.0; rates.len()];
        for (number, rate) in rates.iter().enumerate().filter(|(_, rate)| **rate > 0.0) {
            let (pair, output, from) = (number / size, number / size % size, number % size);
            for (part, to) in ways(output, from) {
                next[pair * size + to] += rate * part * (most / loads[from * size + to]).min(1.0);
            }
        }
        rates = next;
    }
    let leaves = rates.chunks(size * size).map(|of_input| of_input.iter().sum()).collect();
    Fluid { largest, leaves }
}

/// The largest load of a link relative to R/k, where links carry what they get.
fn expected(k: usize, n: u32, reading: Reading, matrix: &Matrix) -> f64 {
    fluid(k, n, reading, matrix, f64::INFINITY).largest
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

/// The readings of two phases carry these matrices: each fits the links. `tolerance`: by how much the random choices of a
/// short run load a link more.
fn two_phases_carry(k: usize, n: u32, slots: usize, tolerance: f64) {
    for reading in [Reading::TwoPasses, Reading::SharedColumns] {
        for (name, matrix) in admissible(k, n, [1]) {
            let (what, matrix) = (format!("{reading:?}, {name}"), matrix.times(LOAD));
            let expected = expected(k, n, reading, &matrix);
            assert!(expected < LOAD + 1e-6, "{what}: {expected} of R/k");
            let (judgement, largest) = judge(&config(k, n, reading), matrix, slots);
            judgement.assert_throughput(&what);
            assert!(largest < expected + tolerance, "{what}: {largest} of R/k, where {expected} is expected");
            assert_eq!(judgement.nodes, f64::from(2 * n + 1), "{what}");
        }
    }
}

#[test]
fn two_phases_of_eight_ports_carry_every_admissible_matrix() {
    two_phases_carry(2, 3, 400, 0.2);
}

#[test]
fn two_phases_of_sixty_four_ports_carry_every_admissible_matrix() {
    two_phases_carry(4, 3, 100, 0.3);
}

/// The reading that fits the paper's figures: its throughput is what the links allow. It carries each matrix at a load at
/// which the fullest link has [`LOAD`] of its rate. At full load each input gets what it would get of links with a fluid.
/// `tolerances`: by how much the random choices of a short run load a link more, and for what has not left at its end.
/// Returns the load that is offered to the fullest link at full load.
fn one_pass_carries_what_fits(k: usize, n: u32, slots: usize, tolerances: [f64; 2]) -> Vec<(String, f64)> {
    let config = config(k, n, Reading::OnePass);
    let judged = |(name, matrix): (String, Matrix)| {
        let full = expected(k, n, Reading::OnePass, &matrix);
        let (judgement, largest) = judge(&config, matrix.times(LOAD / full.max(1.0)), slots);
        judgement.assert_throughput(&name);
        assert!(largest < LOAD * full.min(1.0) + tolerances[0], "{name}: {largest} of R/k");
        assert_eq!(judgement.nodes, f64::from(n + 2), "{name}");
        if full > 1.1 {
            let size = config.port_servers();
            let leaves = fluid(k, n, Reading::OnePass, &matrix, 1.0).leaves;
            let (mut network, _) = config.network(&table(size), &hops(size), 1 << 17).unwrap();
            let judgement = Run { network: &mut network, matrix, slots, horizon: 0 }.judge();
            let throughput = leaves.iter().sum::<f64>() / size as f64;
            assert!(throughput < 0.95, "{name}: {throughput} of R");
            for (input, (share, leaves)) in judgement.shares.iter().zip(&leaves).enumerate() {
                let what = format!("{name}, input {input}: {share} of R, where {leaves} is expected");
                assert!((share - leaves).abs() < tolerances[1], "{what}");
            }
        }
        (name, full)
    };
    admissible(k, n, [1]).into_iter().map(judged).collect()
}

#[test]
fn one_pass_of_eight_ports_carries_what_fits_its_links() {
    one_pass_carries_what_fits(2, 3, 400, [0.2, 0.07]);
}

#[test]
fn one_pass_of_sixty_four_ports_carries_what_fits_its_links() {
    let full = one_pass_carries_what_fits(4, 3, 100, [0.35, 0.15]);
    let beyond = full.iter().filter(|(_, full)| *full > 1.1).map(|(name, _)| name.as_str());
    assert_eq!(beyond.collect::<Vec<_>>(), ["permutation", "digit reversal", "Birkhoff, seed 1"]);
}

/// Twice as much as an output can take: all inputs get the same share of it.
#[test]
fn two_phases_share_an_overloaded_output_evenly() {
    for (k, n, slots, evenness) in [(2, 3, 400, 0.99), (4, 3, 250, 0.97)] {
        for reading in [Reading::TwoPasses, Reading::SharedColumns] {
            let config = config(k, n, reading);
            let size = config.port_servers();
            let (mut network, _) = config.network(&table(size), &hops(size), 1 << 17).unwrap();
            let matrix = Matrix::to_one(size, 2.0);
            let judgement = Run { network: &mut network, matrix, slots, horizon: 0 }.judge();
            let (even, what) = (jain(&judgement.shares), format!("{reading:?}, {size} ports"));
            assert!(even > evenness && judgement.shares.len() == size - 1, "{what}: {even}");
            let busy = judgement.delivered as f64 / (slots as f64 * SLOT_PACKETS as f64);
            assert!((0.9..1.01).contains(&busy), "{what}: output 0 is busy {busy}");
        }
    }
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

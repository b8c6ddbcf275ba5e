#![allow(clippy::all, clippy::pedantic, clippy::print_stdout, clippy::unwrap_used)]
use scalebricks_tables::setsep::*;
use scalebricks_types::{KeyHash, PartitionCount};
use std::sync::Arc;
use std::time::Instant;
fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n: u64 = a[1].parse::<u64>().unwrap() << 20;
    let l: u8 = a[2].parse().unwrap();
    let f = Format::from_name(&a[3]).unwrap();
    let what = a.get(4).map_or("bcu", |s| s);
    let params = Params::for_keys_in(f, n, l, PartitionCount::ONE).unwrap().with_seed(1);
    let mut hashes = scalebricks_tables::huge::HugeSlice::<KeyHash>::zeroed(n as usize);
    let mut values = scalebricks_tables::huge::HugeSlice::<u8>::zeroed(n as usize);
    for i in 0..n {
        hashes[i as usize] = KeyHash::new(mix(i));
        values[i as usize] = mix(!i) as u8 & ((1 << l) - 1);
    }
    if what.contains('b') {
        let b = SetSepBuilder::new(params);
        for _ in 0..4 {
            let t = Instant::now();
            let table = b.build_table(&hashes, &values).unwrap();
            let s = t.elapsed().as_secs_f64();
            println!(
                "table {:.1} M/s  {:.3} bits fallback {}",
                n as f64 / s / 1e6,
                table.stats().bits_per_key(n),
                table.stats().fallback_keys
            );
        }
    }
    if what.contains('2') {
        let b = SetSepBuilder::new(params).threads(2);
        for _ in 0..4 {
            let t = Instant::now();
            let table = b.build_table(&hashes, &values).unwrap();
            let s = t.elapsed().as_secs_f64();
            println!("table 2t {:.1} M/s  {:.3} bits", n as f64 / s / 1e6, table.stats().bits_per_key(n));
        }
    }
    if what.contains('c') || what.contains('u') {
        let entries: Vec<_> = hashes.iter().copied().zip(values.iter().copied()).collect();
        let b = SetSepBuilder::new(params);
        let mut control = None;
        for _ in 0..3 {
            drop(control.take());
            let t = Instant::now();
            control = Some(b.build(&entries).unwrap());
            println!("control {:.1} M/s", n as f64 / t.elapsed().as_secs_f64() / 1e6);
        }
        let mut control = control.unwrap();
        println!("{:?}", control.stats());
        let table = Arc::new(control.export());
        if what.contains('u') {
            let mut r = 7u64;
            for batch in [1usize << 14] {
                let total = if batch == 1 { 1 << 18 } else { 1 << 22 };
                for round in 0..2 {
                    let (mut own, mut app, mut bytes) = (0.0, 0.0, 0);
                    for _ in 0..total / batch {
                        let ops: Vec<Op> = (0..batch)
                            .map(|_| {
                                r = r.wrapping_add(0x9E37_79B9_7F4A_7C15);
                                let i = mix(r) % n;
                                Op::Update(hashes[i as usize], mix(!r) as u8 & ((1 << l) - 1))
                            })
                            .collect();
                        let t = Instant::now();
                        let deltas = control.batch(&ops).unwrap();
                        let u = Instant::now();
                        for d in &deltas {
                            let _ = table.apply(d).unwrap();
                            bytes += d.payload.len();
                        }
                        own += (u - t).as_secs_f64();
                        app += u.elapsed().as_secs_f64();
                    }
                    if round == 1 {
                        println!(
                            "update batch {batch}: own {:.2} M/s apply {:.2} M/s both {:.2} M/s, {:.1} bytes/op",
                            total as f64 / own / 1e6,
                            total as f64 / app / 1e6,
                            total as f64 / (own + app) / 1e6,
                            bytes as f64 / total as f64
                        );
                    }
                }
            }
            for batch in [1usize, 1 << 16] {
                let total = 1 << 18;
                let mut times = [0.0; 2];
                for k in 0..total / batch {
                    for (which, time) in times.iter_mut().enumerate() {
                        let ops: Vec<Op> = (0..batch)
                            .map(|j| {
                                let i = ((k * batch + j) as u64).wrapping_mul(0x9E37_79B9) % n;
                                if which == 0 {
                                    Op::Remove(hashes[i as usize])
                                } else {
                                    Op::Insert(hashes[i as usize], 1)
                                }
                            })
                            .collect();
                        let mut ops = ops;
                        ops.sort_by_key(|o| o.hash());
                        ops.dedup_by_key(|o| o.hash());
                        ops.sort_by_key(|o| mix(o.hash().get()));
                        let t = Instant::now();
                        for d in control.batch(&ops).unwrap() {
                            let _ = table.apply(&d).unwrap();
                        }
                        *time += t.elapsed().as_secs_f64();
                    }
                }
                println!(
                    "batch {batch}: remove {:.2} M/s insert {:.2} M/s",
                    total as f64 / times[0] / 1e6,
                    total as f64 / times[1] / 1e6
                );
            }
            println!("{:?}", control.stats());
            let t = Instant::now();
            control.reshape(params.with_blocks(params.blocks() * 2).unwrap()).unwrap();
            while let Some(d) = control.reshape_step(scalebricks_types::PartitionId(0), 16).unwrap() {
                let _ = table.apply(&d).unwrap();
            }
            println!("double {:.1} M keys/s", n as f64 / t.elapsed().as_secs_f64() / 1e6);
        }
    }
}

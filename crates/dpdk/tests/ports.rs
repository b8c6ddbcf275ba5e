//! Virtual devices, without huge pages and without PCI: what is sent is received, what is not sent stays, nothing leaks.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

mod common;

use common::{eal, frame, pool, receive};
use scalebricks_dpdk::{DpdkError, Eal, EalConfig, Mbuf, Pool, PoolConfig, Port, PortConfig};
use scalebricks_io::{BURST, Burst, PacketBuf, PacketSource, RxPort, Tag, TxPort};

#[test]
fn dpdk_starts_once() {
    let _ = eal();
    assert_eq!(Eal::start(&EalConfig::default()).unwrap_err(), DpdkError::Started);
}

#[test]
fn a_packet_grows_and_shrinks_within_its_buffer() {
    let mut pool = pool("grow");
    let before = pool.in_use();
    let mut packet = pool.alloc().unwrap();
    assert!(packet.data().is_empty());
    packet.append(b"world").unwrap();
    packet.prepend(6).unwrap();
    packet.data_mut()[..6].copy_from_slice(b"hello ");
    assert_eq!(packet.data(), b"hello world");
    assert_eq!(packet.prepend(1000).unwrap_err().room, 122);
    assert_eq!(packet.append(&[0; 4000]).unwrap_err().asked, 4000);
    assert_eq!(packet.trim_front(12).unwrap_err().room, 11);
    packet.trim_front(6).unwrap();
    packet.truncate(3);
    packet.truncate(10);
    assert_eq!(packet.data(), b"wor");
    assert_eq!(packet.tag(), Tag::default());
    let tag = Tag { id: u64::MAX - 7, hops: 3, piece: 9 };
    packet.set_tag(tag);
    assert_eq!((packet.tag(), packet.data()), (tag, &b"wor"[..]));
    drop(packet);
    assert_eq!(pool.in_use(), before);
    assert_eq!(pool.alloc().unwrap().tag(), Tag::default(), "a packet's tag goes with it");
}

#[test]
fn an_empty_pool_says_so_and_recovers() {
    let mut pool = Pool::new(eal(), "small", &PoolConfig { packets: 63, cache: 0, data_bytes: 256 }).unwrap();
    let mut held: Vec<Mbuf> = std::iter::from_fn(|| pool.alloc()).collect();
    assert_eq!((held.len(), pool.available()), (63, 0));
    let mut burst = Burst::new();
    assert!(pool.fill(&mut burst).is_err());
    assert!(burst.is_empty());
    held.truncate(63 - BURST);
    pool.fill(&mut burst).unwrap();
    assert_eq!((burst.len(), pool.available()), (BURST, 0));
    drop((held, burst));
    assert_eq!(pool.available(), 63);
}

#[test]
fn what_a_ring_does_not_take_stays_in_order_and_nothing_leaks() {
    let mut pool = pool("ring");
    let before = pool.in_use();
    let started = Port::start(eal(), "net_ring0", &PortConfig::default(), pool).unwrap();
    let (port, mut rx, mut tx) = (started.port, started.rx, started.tx);
    assert_eq!(port.info().name, "net_ring0");
    let again = Port::start(eal(), "net_ring0", &PortConfig::default(), pool).unwrap_err();
    assert_eq!(again, DpdkError::InUse { device: "net_ring0".to_owned() });
    // A ring of 1,024 takes 1,023 packets; the rest is handed back.
    let mut sent = 0_usize;
    loop {
        let numbers = sent..sent + BURST;
        let mut burst: Burst<Mbuf> = numbers.map(|number| frame(&mut pool, number as u8, 60)).collect();
        let went = tx[0].tx_burst(&mut burst);
        sent += went;
        assert_eq!(burst.len(), BURST - went);
        if let Some(first) = burst.first() {
            assert_eq!(first.data()[20], sent as u8);
            break;
        }
    }
    assert_eq!(sent, 1023);
    let got = receive(&mut rx[0], sent);
    assert_eq!(got.len(), sent);
    for (number, packet) in got.iter().enumerate() {
        assert_eq!((packet.data().len(), packet.data()[20]), (60, number as u8));
    }
    let stats = port.stats().unwrap();
    assert_eq!((stats.tx_packets, stats.rx_packets), (1023, 1023));
    assert!(port.link().unwrap().up);
    drop(got);
    assert_eq!(pool.in_use(), before);
    drop((rx, tx, port));
    assert!(Port::start(eal(), "net_ring0", &PortConfig::default(), pool).is_ok(), "free again");
}

#[test]
fn a_null_port_gives_what_is_asked_and_takes_everything() {
    let pool = pool("null");
    let config = PortConfig { rx_queues: 2, tx_queues: 2, ..PortConfig::default() };
    let mut started = Port::start(eal(), "net_null0,size=64,copy=1", &config, pool).unwrap();
    assert_eq!((started.rx.len(), started.tx.len()), (2, 2));
    for (rx, tx) in started.rx.iter_mut().zip(&mut started.tx) {
        let mut burst = Burst::new();
        assert_eq!(rx.rx_burst(&mut burst), BURST);
        assert!(burst.iter().all(|packet| packet.data().len() == 64));
        assert_eq!(rx.rx_burst(&mut burst), 0, "no room left in the burst");
        assert_eq!((tx.tx_burst(&mut burst), burst.len()), (BURST, 0));
    }
    let most = started.port.info().max_rx_queues;
    drop(started);
    let greedy = PortConfig { rx_queues: most + 1, ..PortConfig::default() };
    let error = Port::start(eal(), "net_null0", &greedy, pool).unwrap_err();
    assert!(matches!(error, DpdkError::TooMany { asked, .. } if asked == most + 1), "{error}");
}

#[test]
fn captures_are_read_and_written() {
    let mut pool = pool("pcap");
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("one.pcap"), dir.path().join("two.pcap"));
    let device = format!("net_pcap0,tx_pcap={}", first.display());
    let config = PortConfig { rx_queues: 0, ..PortConfig::default() };
    let mut started = Port::start(eal(), &device, &config, pool).unwrap();
    let mut burst: Burst<Mbuf> =
        (0..20).map(|number| frame(&mut pool, number, 60 + 10 * usize::from(number))).collect();
    assert_eq!(started.tx[0].tx_burst(&mut burst), 20);
    drop(started);
    let device = format!("net_pcap1,rx_pcap={},tx_pcap={}", first.display(), second.display());
    let mut started = Port::start(eal(), &device, &PortConfig::default(), pool).unwrap();
    let got = receive(&mut started.rx[0], 20);
    assert_eq!(
        got.iter().map(|packet| packet.data().len()).collect::<Vec<_>>(),
        (60..260).step_by(10).collect::<Vec<_>>()
    );
}

#[test]
fn a_name_that_means_nothing_is_an_error_that_says_so() {
    let pool = pool("wrong");
    for device in ["net_nonsense0", "0000:ff:1f.7", "nul\0l"] {
        let error = Port::start(eal(), device, &PortConfig::default(), pool).unwrap_err();
        eprintln!("{error}");
        assert!(!error.to_string().is_empty());
    }
}

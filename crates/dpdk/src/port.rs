//! Network interfaces.

use crate::eal::{Device, Eal, text};
use crate::error::{DpdkError, check};
use crate::pool::Pool;
use crate::queue::{RxQueue, TxQueue};
use scalebricks_dpdk_sys as sys;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The interfaces in use by [`Port`]s of this process.
static TAKEN: Mutex<Vec<u16>> = Mutex::new(Vec::new());

/// The configuration of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortConfig {
    /// Number of queues to receive from.
    pub rx_queues: u16,
    /// Number of queues to send to.
    pub tx_queues: u16,
    /// Whether fewer queues to send to are accepted, if the device has fewer.
    pub fewer_tx_queues: bool,
    /// Number of packets in each queue to receive from, which the driver may round.
    pub rx_descriptors: u16,
    /// The same for queues to send to.
    pub tx_descriptors: u16,
    /// Size of the largest packet without the Ethernet header; `None`: the driver's.
    pub mtu: Option<u16>,
    /// Whether to receive frames for other MAC addresses.
    pub promiscuous: bool,
}

impl Default for PortConfig {
    /// One queue of 1,024 packets per direction; promiscuous.
    fn default() -> Self {
        Self {
            rx_queues: 1,
            tx_queues: 1,
            fewer_tx_queues: false,
            rx_descriptors: 1024,
            tx_descriptors: 1024,
            mtu: None,
            promiscuous: true,
        }
    }
}

/// Properties of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortInfo {
    /// Its name.
    pub name: String,
    /// The name of its driver.
    pub driver: String,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Largest number of queues to receive from.
    pub max_rx_queues: u16,
    /// Largest number of queues to send to.
    pub max_tx_queues: u16,
    /// Whether it distributes flows over its queues (RSS).
    pub spreads_flows: bool,
}

/// Counters of a port. Those that the driver does not support are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets that arrived while no descriptor was free.
    pub rx_missed: u64,
    /// Packets with errors.
    pub rx_errors: u64,
    /// Packets that were not received as the pool was empty.
    pub rx_no_buffer: u64,
    /// Received packets that were dropped because others may access their bytes: a segment has another owner, or is in
    /// the buffer of another packet or application. The driver counts them as received.
    pub rx_shared: u64,
    /// Received packets that were dropped because they have several segments that do not fit in one, or no room for the VLAN
    /// tag that the device removed. The driver counts them as received.
    pub rx_unusable: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets that were not sent because of errors.
    pub tx_errors: u64,
}

/// The state of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkStatus {
    /// Whether the link is up.
    pub up: bool,
    /// The speed in Mbit/s; `None` if it is unknown.
    pub speed_mbps: Option<u32>,
}

/// An interface in use. It is stopped and closed when its [`Port`] and all queues are dropped.
#[derive(Debug)]
pub(crate) struct OpenPort {
    number: u16,
    name: String,
    /// Its device, if it was created here and must be removed.
    made: Option<Device>,
    started: bool,
    pub(crate) refused: RefusedCounters,
}

/// Received packets that were dropped, of all queues; see [`PortStats`].
#[derive(Debug, Default)]
pub(crate) struct RefusedCounters {
    pub(crate) shared: AtomicU64,
    pub(crate) unusable: AtomicU64,
}

/// A network interface.
#[derive(Debug)]
pub struct Port {
    open: Arc<OpenPort>,
    info: PortInfo,
}

/// A started port with its queues.
#[derive(Debug)]
pub struct Started {
    /// The port.
    pub port: Port,
    /// The queues to receive from.
    pub rx: Vec<RxQueue>,
    /// The queues to send to.
    pub tx: Vec<TxQueue>,
}

impl OpenPort {
    pub(crate) const fn number(&self) -> u16 {
        self.number
    }

    fn doing(&self, what: &str) -> String {
        format!("{what} interface '{}'", self.name)
    }
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        // SAFETY: the interface is in use by this process, and no queue is left.
        unsafe {
            if self.started {
                sys::rte_eth_dev_stop(self.number);
            }
            sys::rte_eth_dev_close(self.number);
        }
        drop(self.made.take());
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).retain(|&taken| taken != self.number);
    }
}

impl Port {
    /// Starts an interface: a PCI device by its address (`0000:01:00.0`), a virtual one by its name and
    /// arguments (`net_ring0`, `net_tap0,iface=sb0`, `net_pcap0,rx_pcap=in.pcap,tx_pcap=out.pcap`). Received packets
    /// are allocated from `pool`.
    ///
    /// # Errors
    /// [`DpdkError`]; the interface is then not in use.
    pub fn start(eal: Eal, device: &str, config: &PortConfig, pool: Pool) -> Result<Started, DpdkError> {
        let mut open = claim(eal, device)?;
        let info = ask(&open)?;
        let fewer = config.fewer_tx_queues && info.max_tx_queues > 0;
        let tx_queues = if fewer { config.tx_queues.min(info.max_tx_queues) } else { config.tx_queues };
        let config = &PortConfig { tx_queues, ..*config };
        for (asked, most, what) in [
            (config.rx_queues, info.max_rx_queues, "queues to receive from"),
            (config.tx_queues, info.max_tx_queues, "queues to send to"),
        ] {
            if asked > most {
                return Err(DpdkError::TooMany { device: open.name.clone(), what, asked, most });
            }
        }
        configure(&open, &info, config, pool)?;
        // SAFETY: the interface and all queues are configured.
        check(|| open.doing("starting"), unsafe { sys::rte_eth_dev_start(open.number) })?;
        open.started = true;
        if config.promiscuous {
            // Drivers that receive all frames anyway may not support this.
            // SAFETY: the interface is in use by this process.
            unsafe { sys::rte_eth_promiscuous_enable(open.number) };
        }
        let open = Arc::new(open);
        let rx = (0..config.rx_queues).map(|queue| RxQueue::new(Arc::clone(&open), queue)).collect();
        let tx = (0..config.tx_queues).map(|queue| TxQueue::new(Arc::clone(&open), queue)).collect();
        Ok(Started { port: Self { open, info }, rx, tx })
    }

    /// Its properties.
    pub const fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Its counters since the start.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if the driver has no counters.
    pub fn stats(&self) -> Result<PortStats, DpdkError> {
        let mut stats = sys::rte_eth_stats::default();
        // SAFETY: the interface is in use by this process; the counters are written as a whole or not at all.
        let done = unsafe { sys::rte_eth_stats_get(self.open.number, &raw mut stats) };
        check(|| self.open.doing("reading the counters of"), done)?;
        Ok(PortStats {
            rx_packets: stats.ipackets,
            rx_bytes: stats.ibytes,
            rx_missed: stats.imissed,
            rx_errors: stats.ierrors,
            rx_no_buffer: stats.rx_nombuf,
            rx_shared: self.open.refused.shared.load(Ordering::Relaxed),
            rx_unusable: self.open.refused.unusable.load(Ordering::Relaxed),
            tx_packets: stats.opackets,
            tx_bytes: stats.obytes,
            tx_errors: stats.oerrors,
        })
    }

    /// The state of the link, without waiting.
    ///
    /// # Errors
    /// [`DpdkError::Call`].
    pub fn link(&self) -> Result<LinkStatus, DpdkError> {
        let mut link = sys::rte_eth_link::default();
        // SAFETY: the interface is in use by this process.
        let done = unsafe { sys::rte_eth_link_get_nowait(self.open.number, &raw mut link) };
        check(|| self.open.doing("reading the link of"), done)?;
        let known = (1..u32::MAX).contains(&link.link_speed);
        // SAFETY: reads a constant.
        let up = link.link_status() == unsafe { sys::SB_LINK_UP };
        Ok(LinkStatus { up, speed_mbps: known.then_some(link.link_speed) })
    }

    /// Sets the link down or up, if the driver supports it.
    ///
    /// # Errors
    /// [`DpdkError::Call`].
    pub fn set_link(&self, up: bool) -> Result<(), DpdkError> {
        let number = self.open.number;
        // SAFETY: the interface is in use by this process, and started.
        let done = unsafe {
            if up { sys::rte_eth_dev_set_link_up(number) } else { sys::rte_eth_dev_set_link_down(number) }
        };
        check(|| self.open.doing(if up { "enabling" } else { "disabling" }), done)?;
        Ok(())
    }
}

/// Finds or creates an interface, and marks it as in use.
fn claim(eal: Eal, device: &str) -> Result<OpenPort, DpdkError> {
    let name = device.split_once(',').map_or(device, |(name, _)| name);
    let (number, made) = if let Some(number) = find(name)? {
        (number, None)
    } else {
        let made = eal.attach(device)?;
        let hint = "its driver created no interface of that name";
        let number = find(name)?.ok_or_else(|| DpdkError::NoDevice { device: device.to_owned(), hint })?;
        (number, Some(made))
    };
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if taken.contains(&number) {
        return Err(DpdkError::InUse { device: name.to_owned() });
    }
    taken.push(number);
    Ok(OpenPort { number, name: name.to_owned(), made, started: false, refused: RefusedCounters::default() })
}

fn find(name: &str) -> Result<Option<u16>, DpdkError> {
    let (name, mut number) = (text(name.to_owned())?, 0);
    // SAFETY: DPDK runs, as the caller has an `Eal`.
    let found = unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut number) };
    Ok((found == 0).then_some(number))
}

fn ask(open: &OpenPort) -> Result<PortInfo, DpdkError> {
    let (mut info, mut mac) = (sys::rte_eth_dev_info::default(), sys::rte_ether_addr::default());
    // SAFETY: the interface is in use by this process.
    let done = unsafe { sys::rte_eth_dev_info_get(open.number, &raw mut info) };
    check(|| open.doing("reading the properties of"), done)?;
    // SAFETY: the interface is in use by this process.
    let done = unsafe { sys::rte_eth_macaddr_get(open.number, &raw mut mac) };
    check(|| open.doing("reading the address of"), done)?;
    let driver = if info.driver_name.is_null() {
        String::new()
    } else {
        // SAFETY: a text of the driver, which stays loaded.
        unsafe { std::ffi::CStr::from_ptr(info.driver_name) }.to_string_lossy().into_owned()
    };
    Ok(PortInfo {
        name: open.name.clone(),
        driver,
        mac: mac.addr_bytes,
        max_rx_queues: info.max_rx_queues,
        max_tx_queues: info.max_tx_queues,
        spreads_flows: info.flow_type_rss_offloads & flows() != 0,
    })
}

/// The headers by which devices distinguish flows.
fn flows() -> u64 {
    // SAFETY: reads constants.
    unsafe { sys::SB_RSS_IP | sys::SB_RSS_TCP | sys::SB_RSS_UDP }
}

fn configure(open: &OpenPort, info: &PortInfo, config: &PortConfig, pool: Pool) -> Result<(), DpdkError> {
    let number = open.number;
    let mut asked = sys::rte_eth_conf::default();
    if let Some(mtu) = config.mtu {
        asked.rxmode.mtu = mtu.into();
    }
    if config.rx_queues > 1 && info.spreads_flows {
        let mut known = sys::rte_eth_dev_info::default();
        // SAFETY: the interface is in use by this process.
        let done = unsafe { sys::rte_eth_dev_info_get(number, &raw mut known) };
        check(|| open.doing("reading the properties of"), done)?;
        // SAFETY: reads a constant.
        asked.rxmode.mq_mode = unsafe { sys::SB_MQ_RX_RSS };
        asked.rx_adv_conf.rss_conf.rss_hf = known.flow_type_rss_offloads & flows();
    }
    // SAFETY: the interface is in use by this process, and stopped.
    let done =
        unsafe { sys::rte_eth_dev_configure(number, config.rx_queues, config.tx_queues, &raw const asked) };
    check(|| open.doing("configuring"), done)?;
    let (mut rx, mut tx) = (config.rx_descriptors, config.tx_descriptors);
    // SAFETY: as above.
    let done = unsafe { sys::rte_eth_dev_adjust_nb_rx_tx_desc(number, &raw mut rx, &raw mut tx) };
    check(|| open.doing("setting the queue sizes of"), done)?;
    // SAFETY: as above; with the default settings of the driver, and a pool that is never freed.
    unsafe {
        let socket = sys::rte_eth_dev_socket_id(number).cast_unsigned();
        for queue in 0..config.rx_queues {
            let done =
                sys::rte_eth_rx_queue_setup(number, queue, rx, socket, std::ptr::null(), pool.as_ptr());
            check(|| open.doing("creating a queue to receive from"), done)?;
        }
        for queue in 0..config.tx_queues {
            let done = sys::rte_eth_tx_queue_setup(number, queue, tx, socket, std::ptr::null());
            check(|| open.doing("creating a queue to send to"), done)?;
        }
    }
    Ok(())
}

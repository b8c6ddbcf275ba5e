//! Finds DPDK, compiles the shim, and generates the bindings from the installed headers.

#[cfg(not(feature = "dpdk"))]
fn main() {}

#[cfg(feature = "dpdk")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::path::PathBuf;

    println!("cargo::rerun-if-changed=shim.h");
    println!("cargo::rerun-if-changed=shim.c");
    println!("cargo::rerun-if-changed=l3fwd.h");
    println!("cargo::rerun-if-changed=l3fwd.c");
    // pkg-config would link every library. Drivers are loaded at run time by the libraries, from a directory that is built
    // into them.
    let found =
        pkg_config::Config::new().atleast_version("22.11").cargo_metadata(false).probe("libdpdk").map_err(
            |error| {
                format!("DPDK 22.11 or later was not found (on Debian: apt install libdpdk-dev): {error}")
            },
        )?;
    // Flags are needed too: `-march` and `-include rte_config.h` determine layouts.
    let flags = pkg_config_words("--cflags")?;

    let mut build = cc::Build::new();
    build.warnings(false);
    for flag in &flags {
        build.flag(flag);
    }
    build.clone().file("shim.c").try_compile("scalebricks_dpdk_shim")?;
    // A peer of benchmarks, optimised as DPDK's examples are.
    build.file("l3fwd.c").opt_level(3).try_compile("scalebricks_dpdk_l3fwd")?;
    for path in &found.link_paths {
        println!("cargo::rustc-link-search=native={}", path.display());
    }
    for library in [
        "rte_ethdev",
        "rte_mbuf",
        "rte_mempool",
        "rte_mempool_ring",
        "rte_eal",
        "rte_bus_vdev",
        "rte_hash",
        "rte_efd",
        "rte_lpm",
        "rte_fib",
    ] {
        println!("cargo::rustc-link-lib=dylib={library}");
    }

    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    bindgen::Builder::default()
        .header("shim.h")
        .clang_args(&flags)
        .allowlist_function("sb_.*")
        .allowlist_function("rte_eal_(init|cleanup|hotplug_add|hotplug_remove|has_hugepages)")
        .allowlist_function("rte_(thread_register|thread_unregister|strerror|version)")
        .allowlist_function("rte_pktmbuf_(pool_create|free_bulk|clone)")
        .allowlist_function("rte_mempool_(free|avail_count|in_use_count)")
        .allowlist_function("rte_mbuf_(dynfield|dynflag)_register")
        .allowlist_function("rte_eth_dev_(count_avail|get_port_by_name|get_name_by_port|info_get|configure|start|stop|close)")
        .allowlist_function("rte_eth_dev_(set_mtu|get_mtu|adjust_nb_rx_tx_desc|is_valid_port|socket_id)")
        .allowlist_function("rte_eth_dev_set_link_(up|down)")
        .allowlist_function("rte_eth_(rx|tx)_queue_setup")
        .allowlist_function("rte_eth_(promiscuous|allmulticast)_(enable|disable|get)")
        .allowlist_function("rte_eth_(macaddr_get|link_get_nowait|stats_get|stats_reset)")
        .allowlist_function("rte_hash_(create|free|add_key_with_hash|del_key_with_hash|lookup_with_hash|lookup_with_hash_bulk)")
        .allowlist_function("rte_efd_(create|free|update|lookup|lookup_bulk)")
        .allowlist_function("rte_lpm6?_(create|free|add|delete)")
        .allowlist_function("rte_lpm6_lookup_bulk_func")
        .allowlist_function("rte_fib6?_(create|free|add|delete|lookup_bulk|select_lookup)")
        .allowlist_function("rte_vect_(get|set)_max_simd_bitwidth")
        .allowlist_type("rte_lpm6?_config|rte_fib6?_conf")
        .allowlist_type("sb_l3fwd|sb_l3fwd_queue")
        .allowlist_type("rte_hash_parameters|rte_mbuf|rte_mempool|rte_eth_(conf|dev_info|rxconf|txconf|stats|link)|rte_ether_addr|rte_mbuf_dynfield|rte_mbuf_dynflag")
        .allowlist_var("RTE_(MAX_ETHPORTS|ETH_NAME_MAX_LEN|PKTMBUF_HEADROOM|MBUF_DEFAULT_BUF_SIZE|ETHER_ADDR_LEN)")
        .allowlist_var("SB_.*|RTE_EFD_UPDATE_FAILED|RTE_EFD_VALUE_NUM_BITS")
        // Headers of protocols are packed and aligned at once, which Rust cannot say; none is used here.
        .opaque_type("rte_(arp|ipv4|ipv6|l2tpv2|ether|vlan|gre|gtp|mpls|icmp).*_hdr.*")
        .no_copy("rte_mbuf|rte_mempool")
        .derive_default(true)
        .layout_tests(true)
        .generate_comments(true)
        .generate()?
        .write_to_file(out.join("bindings.rs"))?;
    Ok(())
}

#[cfg(feature = "dpdk")]
fn pkg_config_words(what: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let out = std::process::Command::new("pkg-config").args([what, "libdpdk"]).output()?;
    if !out.status.success() {
        return Err(format!("pkg-config {what} libdpdk: {}", String::from_utf8_lossy(&out.stderr)).into());
    }
    Ok(String::from_utf8(out.stdout)?.split_whitespace().map(str::to_owned).collect())
}

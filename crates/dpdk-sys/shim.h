/* What the bindings are made from. DPDK's fast path is inline functions and macros, which have no symbols: those that
 * are needed get one here. Everything else is bound as it is. */
#ifndef SCALEBRICKS_DPDK_SHIM_H
#define SCALEBRICKS_DPDK_SHIM_H

#include <rte_config.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_efd.h>
#include <rte_errno.h>
#include <rte_ether.h>
#include <rte_ethdev.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_hash.h>
#include <rte_lcore.h>
#include <rte_lpm.h>
#include <rte_lpm6.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_mempool.h>
#include <rte_vect.h>
#include <rte_version.h>

#include "l3fwd.h"

/* The calling thread's rte_errno. */
int sb_errno(void);

/* Up to `count` packets of a queue; how many came. */
uint16_t sb_eth_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count);

/* Sends the first packets of `count`; how many went. Those belong to the driver from then on. */
uint16_t sb_eth_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count);

/* `count` fresh packets, or none: 0, or a negative errno. */
int sb_pktmbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **packets, unsigned int count);

/* Gives all segments of a packet back. */
void sb_pktmbuf_free(struct rte_mbuf *packet);

/* Copies all segments into the first. 0, or -1 if it has no room. */
int sb_pktmbuf_linearize(struct rte_mbuf *packet);

/* Puts a VLAN tag that was taken off on reception back into the packet. 0, or a negative errno if it has no room. */
int sb_vlan_restore(struct rte_mbuf *packet);

/* The socket of the calling thread, or SOCKET_ID_ANY. */
int sb_socket_id(void);

/* The entries of `count` addresses: a next hop with RTE_LPM_LOOKUP_SUCCESS, or without it no route. */
void sb_lpm_lookup_bulk(const struct rte_lpm *lpm, const uint32_t *addresses, uint32_t *entries, unsigned int count);

/* Constants behind macros that only a compiler can evaluate. */
extern const uint32_t SB_LPM_FOUND;
extern const uint64_t SB_RSS_IP;
extern const uint64_t SB_RSS_TCP;
extern const uint64_t SB_RSS_UDP;
extern const uint64_t SB_RSS_GTPU;
extern const uint32_t SB_MQ_RX_RSS;
extern const uint16_t SB_LINK_UP;
extern const uint64_t SB_VLAN_STRIPPED;
extern const uint64_t SB_BUFFER_ELSEWHERE;

#endif

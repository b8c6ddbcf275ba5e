/* DPDK's example l3fwd, its inner loop, as a peer of the router's benchmark: no package has the example, and its table is
 * limited to 1,024 routes. */
#ifndef SCALEBRICKS_L3FWD_H
#define SCALEBRICKS_L3FWD_H

#include <rte_fib.h>
#include <rte_lpm.h>
#include <rte_mbuf.h>

/* Ports. */
#define SB_L3FWD_PORTS 8
/* Most packets of a burst, as in l3fwd (MAX_PKT_BURST). */
#define SB_L3FWD_BURST 32

/* Packets that wait until a port has a burst of them. */
struct sb_l3fwd_queue {
	uint32_t count;
	struct rte_mbuf *packets[2 * SB_L3FWD_BURST];
};

struct sb_l3fwd {
	/* By port: destination and source address of frames; 4 bytes of padding. */
	uint8_t addresses[SB_L3FWD_PORTS][16];
	struct sb_l3fwd_queue queues[SB_L3FWD_PORTS];
	/* Packets that were freed: no IPv4 packet, a wrong header, or no such port. */
	uint64_t dropped;
};

/* Looks up a burst, rewrites it, and appends each packet to the queue of its port. A packet without a route goes back to
 * `from`. There must be no queue with SB_L3FWD_BURST packets or more. */
void sb_l3fwd_lpm(struct sb_l3fwd *state, const struct rte_lpm *table, struct rte_mbuf **packets, uint32_t count,
		  uint16_t from);
void sb_l3fwd_fib(struct sb_l3fwd *state, struct rte_fib *table, struct rte_mbuf **packets, uint32_t count);

/* Marks a packet as IPv4 over Ethernet, as a network card does. */
void sb_l3fwd_mark(struct rte_mbuf *packet);

#endif

#include "l3fwd.h"

#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_prefetch.h>
#include <rte_vect.h>

/* Words of a frame's first 16 bytes that are the two addresses. */
#define ADDRESS_WORDS 0x3f

/* No port. */
#define BAD UINT16_MAX

void sb_l3fwd_mark(struct rte_mbuf *packet)
{
	packet->packet_type = RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4;
}

static inline struct rte_ipv4_hdr *header(struct rte_mbuf *packet)
{
	return rte_pktmbuf_mtod_offset(packet, struct rte_ipv4_hdr *, sizeof(struct rte_ether_hdr));
}

static inline void prefetch(struct rte_mbuf **packets, uint32_t count)
{
	for (uint32_t at = 0; at < count; at++)
		rte_prefetch0(rte_pktmbuf_mtod(packets[at], void *));
}

/* The checks of RFC 1812 that l3fwd makes; the header's checksum is the network card's work. Decrements the TTL. */
static inline uint16_t check(struct rte_mbuf *packet, uint16_t port)
{
	struct rte_ipv4_hdr *ip = header(packet);

	if (!(packet->packet_type & RTE_PTYPE_L3_IPV4))
		return BAD;
	if (unlikely((uint8_t)(ip->version_ihl - 0x45) > 0x0a ||
		     rte_be_to_cpu_16(ip->total_length) < sizeof(struct rte_ipv4_hdr)))
		return BAD;
	ip->time_to_live--;
	ip->hdr_checksum++;
	return port;
}

/* Writes the addresses and queues the packets. */
static inline void queue(struct sb_l3fwd *state, struct rte_mbuf **packets, const uint16_t *ports, uint32_t count)
{
	for (uint32_t at = 0; at < count; at++) {
		uint16_t port = check(packets[at], ports[at]);

		if (unlikely(port >= SB_L3FWD_PORTS)) {
			rte_pktmbuf_free(packets[at]);
			state->dropped++;
			continue;
		}
		__m128i *start = rte_pktmbuf_mtod(packets[at], __m128i *);
		__m128i addresses = _mm_loadu_si128((const __m128i *)state->addresses[port]);

		_mm_storeu_si128(start, _mm_blend_epi16(_mm_loadu_si128(start), addresses, ADDRESS_WORDS));
		struct sb_l3fwd_queue *to = &state->queues[port];

		to->packets[to->count++] = packets[at];
	}
}

void sb_l3fwd_lpm(struct sb_l3fwd *state, const struct rte_lpm *table, struct rte_mbuf **packets, uint32_t count,
		  uint16_t from)
{
	const __m128i swap = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
	uint16_t ports[SB_L3FWD_BURST];
	uint32_t at = 0;

	count = RTE_MIN(count, (uint32_t)SB_L3FWD_BURST);
	prefetch(packets, count);
	for (; at + 4 <= count; at += 4) {
		__m128i addresses = _mm_set_epi32((int)header(packets[at + 3])->dst_addr, (int)header(packets[at + 2])->dst_addr,
						  (int)header(packets[at + 1])->dst_addr, (int)header(packets[at])->dst_addr);
		uint32_t hops[4];

		rte_lpm_lookupx4(table, _mm_shuffle_epi8(addresses, swap), hops, from);
		for (uint32_t lane = 0; lane < 4; lane++)
			ports[at + lane] = (uint16_t)hops[lane];
	}
	for (; at < count; at++) {
		uint32_t hop;
		uint32_t address = rte_be_to_cpu_32(header(packets[at])->dst_addr);

		ports[at] = rte_lpm_lookup(table, address, &hop) == 0 ? (uint16_t)hop : from;
	}
	queue(state, packets, ports, count);
}

void sb_l3fwd_fib(struct sb_l3fwd *state, struct rte_fib *table, struct rte_mbuf **packets, uint32_t count)
{
	uint32_t addresses[SB_L3FWD_BURST];
	uint64_t hops[SB_L3FWD_BURST];
	uint16_t ports[SB_L3FWD_BURST];

	count = RTE_MIN(count, (uint32_t)SB_L3FWD_BURST);
	prefetch(packets, count);
	for (uint32_t at = 0; at < count; at++)
		addresses[at] = rte_be_to_cpu_32(header(packets[at])->dst_addr);
	rte_fib_lookup_bulk(table, addresses, hops, (int)count);
	for (uint32_t at = 0; at < count; at++)
		ports[at] = hops[at] < SB_L3FWD_PORTS ? (uint16_t)hops[at] : BAD;
	queue(state, packets, ports, count);
}

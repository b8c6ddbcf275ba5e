#include "shim.h"

int sb_errno(void)
{
	return rte_errno;
}

uint16_t sb_eth_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count)
{
	return rte_eth_rx_burst(port, queue, packets, count);
}

uint16_t sb_eth_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, packets, count);
}

int sb_pktmbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **packets, unsigned int count)
{
	return rte_pktmbuf_alloc_bulk(pool, packets, count);
}

void sb_pktmbuf_free(struct rte_mbuf *packet)
{
	rte_pktmbuf_free(packet);
}

int sb_pktmbuf_linearize(struct rte_mbuf *packet)
{
	return rte_pktmbuf_linearize(packet);
}

int sb_vlan_restore(struct rte_mbuf *packet)
{
	return rte_vlan_insert(&packet);
}

int sb_socket_id(void)
{
	return (int)rte_socket_id();
}

void sb_lpm_lookup_bulk(const struct rte_lpm *lpm, const uint32_t *addresses, uint32_t *entries, unsigned int count)
{
	rte_lpm_lookup_bulk(lpm, addresses, entries, count);
}

const uint32_t SB_LPM_FOUND = RTE_LPM_LOOKUP_SUCCESS;
const uint64_t SB_RSS_IP = RTE_ETH_RSS_IP;
const uint64_t SB_RSS_TCP = RTE_ETH_RSS_TCP;
const uint64_t SB_RSS_UDP = RTE_ETH_RSS_UDP;
const uint64_t SB_RSS_GTPU = RTE_ETH_RSS_GTPU;
const uint32_t SB_MQ_RX_RSS = RTE_ETH_MQ_RX_RSS;
const uint16_t SB_LINK_UP = RTE_ETH_LINK_UP;
const uint64_t SB_VLAN_STRIPPED = RTE_MBUF_F_RX_VLAN_STRIPPED;
const uint64_t SB_BUFFER_ELSEWHERE = RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL;

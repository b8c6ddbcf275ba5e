// An IP router with two interfaces: eth0 is 192.0.2.1/24, eth1 is 198.51.100.1/24, and everything else goes to the
// gateway 198.51.100.254.
//
//   scalebricks graph run examples/router.click --pcap in:eth0=a.pcap --pcap in:eth1=b.pcap \
//       --pcap out:eth0=x.pcap --pcap out:eth1=y.pcap
//   scalebricks graph run examples/router.click --port eth0=net_af_packet0,iface=eth0 --port eth1=net_af_packet1,iface=eth1

AddressInfo(eth0 192.0.2.1/24 02:00:00:00:00:10,
            eth1 198.51.100.1/24 02:00:00:00:01:10);

// Received frames: ARP requests, ARP replies, IP, others.
from0 :: FromDevice(eth0) -> class0 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
from1 :: FromDevice(eth1) -> class1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
out0 :: Queue(200) -> to0 :: ToDevice(eth0);
out1 :: Queue(200) -> to1 :: ToDevice(eth1);

arp0 :: ARPQuerier(eth0) -> out0;
arp1 :: ARPQuerier(eth1) -> out1;
class0[0] -> ARPResponder(eth0) -> out0;
class1[0] -> ARPResponder(eth1) -> out1;
class0[1] -> [1]arp0;
class1[1] -> [1]arp1;
class0[3] -> other :: Discard;
class1[3] -> other;

// All IP packets pass here. The paint is the interface where a packet arrived.
ip :: Strip(14)
   -> CheckIPHeader(INTERFACES eth0 eth1)
   -> routes :: StaticIPLookup(192.0.2.1/32 0, 192.0.2.255/32 0, 192.0.2.0/32 0,
                               198.51.100.1/32 0, 198.51.100.255/32 0, 198.51.100.0/32 0,
                               192.0.2.0/24 1, 198.51.100.0/24 2, 0.0.0.0/0 198.51.100.254 2);
class0[2] -> HostEtherFilter(eth0, DROP_OTHER true) -> Paint(1) -> ip;
class1[2] -> HostEtherFilter(eth1, DROP_OTHER true) -> Paint(2) -> ip;

// Packets for the router itself: it answers pings.
routes[0] -> ping :: ICMPPingResponder -> routes;
ping[1] -> here :: Discard;

// Towards an interface: redirects, options, source address of errors, TTL, fragments.
routes[1] -> DropBroadcasts
    -> same0 :: PaintTee(1)
    -> options0 :: IPGWOptions(eth0)
    -> FixIPSrc(eth0)
    -> ttl0 :: DecIPTTL
    -> fragments0 :: IPFragmenter(1500)
    -> arp0;
same0[1] -> ICMPError(eth0, redirect, host) -> routes;
options0[1] -> ICMPError(eth0, parameterproblem) -> routes;
ttl0[1] -> ICMPError(eth0, timeexceeded) -> routes;
fragments0[1] -> ICMPError(eth0, unreachable, needfrag, PMTU 1500) -> routes;

routes[2] -> DropBroadcasts
    -> same1 :: PaintTee(2)
    -> options1 :: IPGWOptions(eth1)
    -> FixIPSrc(eth1)
    -> ttl1 :: DecIPTTL
    -> fragments1 :: IPFragmenter(1500)
    -> arp1;
same1[1] -> ICMPError(eth1, redirect, host) -> routes;
options1[1] -> ICMPError(eth1, parameterproblem) -> routes;
ttl1[1] -> ICMPError(eth1, timeexceeded) -> routes;
fragments1[1] -> ICMPError(eth1, unreachable, needfrag, PMTU 1500) -> routes;

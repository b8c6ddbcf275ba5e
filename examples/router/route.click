// An IP router, IPv4 and IPv6. Routes have these outputs: 0 is the router itself, N is port N, 3 answers that
// there is no route, 4 drops what is never forwarded.

define($ROUTES "examples/router/routes.txt");
define($ROUTES6 "examples/router/routes6.txt");
// Sources of IPv6 errors, by the paint: the port where a packet arrived.
define($SOURCES6 port1 port1 port2);
AddressInfo(port1 192.0.2.1/24 2001:db8:0:1::1 02:00:00:00:00:10);
AddressInfo(port2 198.51.100.1/24 2001:db8:0:2::1 02:00:00:00:01:10);

other :: Discard;
never :: Discard;
here :: Discard;

out1 :: Queue(1000) -> to1 :: ToDevice(eth0, BURST 128);
arp1 :: ARPQuerier(port1) -> out1;
nd1 :: IP6NDSolicitor(port1, port1) -> out1;
out2 :: Queue(1000) -> to2 :: ToDevice(eth1, BURST 128);
arp2 :: ARPQuerier(port2) -> out2;
nd2 :: IP6NDSolicitor(port2, port2) -> out2;

// All IPv4 packets pass here. The paint is the port where a packet arrived.
ip :: Strip(14)
    -> CheckIPHeader(INTERFACES port1 port2)
    -> routes :: DirectIPLookup(
        192.0.2.1/32 0,
        192.0.2.0/32 4, 192.0.2.255/32 4,
        192.0.2.0/24 1,
        198.51.100.1/32 0,
        198.51.100.0/32 4, 198.51.100.255/32 4,
        198.51.100.0/24 2,
        0.0.0.0/8 4, 127.0.0.0/8 4, 169.254.0.0/16 4, 224.0.0.0/3 4, 0.0.0.0/0 3, FILE $ROUTES);
routes[0] -> ping :: ICMPPingResponder -> routes;
ping[1] -> here;
routes[3] -> ICMPError(port1, unreachable, net) -> routes;
routes[4] -> never;

// All IPv6 packets pass here.
ip6 :: Strip(14)
    -> CheckIP6Header(BADADDRS ::1)
    -> routes6 :: LookupIP6Route(
        fe80::ff:fe00:10/128 0,
        2001:db8:0:1::1/128 0,
        2001:db8:0:1::/64 1,
        fe80::ff:fe00:110/128 0,
        2001:db8:0:2::1/128 0,
        2001:db8:0:2::/64 2,
        ::/127 4, fe80::/10 4, ff00::/8 4, ::/0 3, FILE $ROUTES6);
routes6[0] -> ping6 :: ICMP6PingResponder -> routes6;
ping6[1] -> here;
routes6[3] -> ICMP6Error(port1, unreachable, 0, PAINTED $SOURCES6) -> routes6;
routes6[4] -> never;

// Towards port 1: redirects, options, source address of errors, TTL, fragments; hop limit and size.
routes[1] -> DropBroadcasts -> same1 :: PaintTee(1) -> options1 :: IPGWOptions(port1)
    -> FixIPSrc(port1) -> ttl1 :: DecIPTTL -> fragments1 :: IPFragmenter(1500) -> arp1;
same1[1] -> ICMPError(port1, redirect, host) -> routes;
options1[1] -> ICMPError(port1, parameterproblem) -> routes;
ttl1[1] -> ICMPError(port1, timeexceeded) -> routes;
fragments1[1] -> ICMPError(port1, unreachable, needfrag, PMTU 1500) -> routes;
routes6[1] -> DropBroadcasts -> limit1 :: DecIP6HLIM -> size1 :: CheckLength(1500) -> nd1;
limit1[1] -> ICMP6Error(port1, timeexceeded, PAINTED $SOURCES6) -> routes6;
size1[1] -> ICMP6Error(port1, toobig, PMTU 1500, PAINTED $SOURCES6) -> routes6;

// Towards port 2: redirects, options, source address of errors, TTL, fragments; hop limit and size.
routes[2] -> DropBroadcasts -> same2 :: PaintTee(2) -> options2 :: IPGWOptions(port2)
    -> FixIPSrc(port2) -> ttl2 :: DecIPTTL -> fragments2 :: IPFragmenter(1500) -> arp2;
same2[1] -> ICMPError(port2, redirect, host) -> routes;
options2[1] -> ICMPError(port2, parameterproblem) -> routes;
ttl2[1] -> ICMPError(port2, timeexceeded) -> routes;
fragments2[1] -> ICMPError(port2, unreachable, needfrag, PMTU 1500) -> routes;
routes6[2] -> DropBroadcasts -> limit2 :: DecIP6HLIM -> size2 :: CheckLength(1500) -> nd2;
limit2[1] -> ICMP6Error(port2, timeexceeded, PAINTED $SOURCES6) -> routes6;
size2[1] -> ICMP6Error(port2, toobig, PMTU 1500, PAINTED $SOURCES6) -> routes6;

// Port 1 receives: ARP requests, ARP replies, neighbour solicitations and advertisements, IPv4, IPv6, others.
from1 :: FromDevice(eth0, BURST 128) -> class1 :: Classifier(
    12/0806 20/0001, 12/0806 20/0002, 12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/0800, 12/86dd, -);
class1[0] -> ARPResponder(port1) -> out1;
class1[1] -> [1] arp1;
class1[2] -> IP6NDAdvertiser(port1:ip6 fe80::ff:fe00:10 port1:eth) -> out1;
class1[3] -> [1] nd1;
class1[4] -> HostEtherFilter(port1, DROP_OTHER true) -> Paint(1) -> ip;
class1[5] -> HostEtherFilter(port1, DROP_OTHER true) -> Paint(1) -> ip6;
class1[6] -> other;

// Port 2 receives: ARP requests, ARP replies, neighbour solicitations and advertisements, IPv4, IPv6, others.
from2 :: FromDevice(eth1, BURST 128) -> class2 :: Classifier(
    12/0806 20/0001, 12/0806 20/0002, 12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/0800, 12/86dd, -);
class2[0] -> ARPResponder(port2) -> out2;
class2[1] -> [1] arp2;
class2[2] -> IP6NDAdvertiser(port2:ip6 fe80::ff:fe00:110 port2:eth) -> out2;
class2[3] -> [1] nd2;
class2[4] -> HostEtherFilter(port2, DROP_OTHER true) -> Paint(2) -> ip;
class2[5] -> HostEtherFilter(port2, DROP_OTHER true) -> Paint(2) -> ip6;
class2[6] -> other;

// An end of ESP tunnels. Port 1 is inside, port 2 outside. Routes have these outputs: 0 is the router
// itself, 1 is inside, 2 is what has to be encrypted, 3 answers that there is no route, 4 drops what is never
// forwarded.

define($KEYS "examples/router/sa.toml");
AddressInfo(port1 10.0.1.1/24 02:00:00:00:01:00);
AddressInfo(port2 192.0.2.1/24 02:00:00:00:01:01);

other :: Discard;
never :: Discard;
here :: Discard;

out1 :: Queue(1000) -> to1 :: ToDevice(eth0);
arp1 :: ARPQuerier(port1) -> out1;
out2 :: Queue(1000) -> to2 :: ToDevice(eth1);
arp2 :: ARPQuerier(port2) -> out2;

// Packets from inside and from tunnels.
ip :: CheckIPHeader(INTERFACES port1 port2)
    -> routes :: DirectIPLookup(
        10.0.1.1/32 0,
        10.0.1.0/32 4, 10.0.1.255/32 4,
        10.0.1.0/24 1,
        192.0.2.1/32 0,
        192.0.2.0/32 4, 192.0.2.255/32 4,
        192.0.2.0/24 2,
        0.0.0.0/8 4, 127.0.0.0/8 4, 169.254.0.0/16 4, 224.0.0.0/3 4, 0.0.0.0/0 2);
routes[0] -> ping :: ICMPPingResponder -> routes;
ping[1] -> here;
routes[1] -> DropBroadcasts -> options1 :: IPGWOptions(port1) -> FixIPSrc(port1) -> ttl1 :: DecIPTTL
    -> fragments1 :: IPFragmenter(1500) -> arp1;
options1[1] -> ICMPError(port1, parameterproblem) -> routes;
ttl1[1] -> ICMPError(port1, timeexceeded) -> routes;
fragments1[1] -> ICMPError(port1, unreachable, needfrag, PMTU 1500) -> routes;
routes[3] -> ICMPError(port1, unreachable, net) -> routes;
routes[4] -> never;

// What is routed outside is encrypted; the encrypted packets have routes of their own.
routes[2] -> DropBroadcasts -> ttl2 :: DecIPTTL -> encap :: IPsecEncap($KEYS, left-to-right,
        ETH port1:eth, PORT 2, ROUTES routes, OUTER outer, ARP arp1 arp2, INTERFACES port1 port2)
    -> outer :: RadixIPLookup(192.0.2.0/24 2, 0.0.0.0/0 0);
outer[2] -> arp2;
outer[0] -> lost :: Discard;
outer[1] -> lost;
ttl2[1] -> ICMPError(port1, timeexceeded) -> routes;
encap[1] -> ICMPError(port1, unreachable, needfrag, PMTU 1399) -> routes;

// What comes through a tunnel is routed as what comes from inside.
decap :: IPsecDecap($KEYS, right-to-left,
        ETH port2:eth, PORT 1, ROUTES routes, ARP arp1 arp2, INTERFACES port1 port2, MTU 1500)
    -> ip;
decap[1] -> clear :: Discard;

// Port 1 receives: ARP requests, ARP replies, IPv4, others.
from1 :: FromDevice(eth0, BURST 128) -> [1] encap;
encap[3] -> [1] to2;
encap[2]
    -> class1 :: Classifier(
    12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
class1[0] -> ARPResponder(port1) -> out1;
class1[1] -> [1] arp1;
class1[2] -> HostEtherFilter(port1, DROP_OTHER true) -> Strip(14) -> ip;
class1[3] -> other;

// Port 2 receives: ARP requests, ARP replies, IPv4, others.
from2 :: FromDevice(eth1, BURST 128) -> [1] decap;
decap[3] -> [1] to1;
decap[2]
    -> class2 :: Classifier(
    12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
class2[0] -> ARPResponder(port2) -> out2;
class2[1] -> [1] arp2;
class2[2] -> HostEtherFilter(port2, DROP_OTHER true) -> Strip(14) -> CheckIPHeader(INTERFACES port1 port2) -> decap;
class2[3] -> other;

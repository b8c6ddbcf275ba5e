// Node 0 of a cluster router of four nodes (RouteBricks): one external port of 10 Gb/s, eth0, and links to nodes 1, 2
// and 3 on eth1, eth2 and eth3. Node n has the networks 10.n.0.0/16 and 2001:db8:n::/48 at its port; all else leaves by a
// next hop on node 0's. Check it with
//
//     scalebricks graph check examples/router/cluster-node.click
//
// A packet is parsed and looked up once, where it arrives; the other nodes move it by its encoded destination address.

// Node, port and next hop of each network. 65535 is no next hop: the destination itself is a neighbour.
route :: RouterInput(
    10.0.0.0/16 0 0 65535, 10.1.0.0/16 1 0 65535, 10.2.0.0/16 2 0 65535, 10.3.0.0/16 3 0 65535, 0.0.0.0/0 0 0 1,
    2001:db8::/48 0 0 65535, 2001:db8:1::/48 1 0 65535, 2001:db8:2::/48 2 0 65535, 2001:db8:3::/48 3 0 65535, ::/0 0 0 2,
    MTU 1500);

steer :: Flowlets(0, 4, 10Gbps);
switch :: MacSwitch(0, 4);

// Which links work. All nodes have the same secret, and nobody else.
hello :: LinkHello(0, 4, FOLLOWERS steer switch, SECRET 1);

// The address of eth0, and the next hops behind it. Their MAC addresses are resolved ahead of traffic.
restore :: RestoreMac(02:00:00:00:00:10, 1 0 10.0.0.99, 2 0 2001:db8::99);
output :: RouterOutput(1, 10.0.0.1, 2001:db8::1 fe80::ff:fe00:10);
keeper :: NextHopKeeper(restore, arp0, nd0, output);

// A full link drops; it must not stop what goes elsewhere, nor hellos.
to0 :: Queue(1024) -> ToDevice(eth0);
to1 :: Queue(1024) -> [1] both1 :: PrioSched -> ToDevice(eth1);
to2 :: Queue(1024) -> [1] both2 :: PrioSched -> ToDevice(eth2);
to3 :: Queue(1024) -> [1] both3 :: PrioSched -> ToDevice(eth3);
hello[1] -> Queue(16) -> both1;
hello[2] -> Queue(16) -> both2;
hello[3] -> Queue(16) -> both3;

// Resolvers. Packets wait here for the MAC addresses of hosts on the node's own networks.
arp0 :: ARPQuerier(10.0.0.1, 02:00:00:00:00:10) -> to0;
nd0 :: IP6NDSolicitor(2001:db8::1, 02:00:00:00:00:10) -> to0;
keeper[0] -> [2] arp0;
keeper[1] -> [2] nd0;

// The port receives: ARP requests, ARP replies, neighbour solicitations and advertisements, IPv4, IPv6, others.
FromDevice(eth0) -> class0 :: Classifier(
    12/0806 20/0001, 12/0806 20/0002, 12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/0800, 12/86dd, -);
class0[0] -> ARPResponder(10.0.0.1 02:00:00:00:00:10) -> to0;
class0[1] -> [1] arp0;
class0[2] -> IP6NDAdvertiser(2001:db8::1 fe80::ff:fe00:10 02:00:00:00:00:10) -> to0;
class0[3] -> [1] nd0;
class0[4] -> HostEtherFilter(02:00:00:00:00:10) -> check4 :: CheckIPHeader(14, INTERFACES 10.0.0.1/16);
class0[5] -> HostEtherFilter(02:00:00:00:00:10) -> check6 :: CheckIP6Header(14, BADADDRS ::1);
class0[6] -> other :: Discard;

check4 -> ttl4 :: DecIPTTL -> route;
check6 -> ttl6 :: DecIP6HLIM -> [1] route;

// Packets for the node itself do not expire. Errors and replies are routed as any packet.
encap4 :: EtherEncap(0x0800, 0:0:0:0:0:0, 0:0:0:0:0:0) -> route;
encap6 :: EtherEncap(0x86dd, 0:0:0:0:0:0, 0:0:0:0:0:0) -> [1] route;
ttl4[1] -> own4 :: RadixIPLookup(10.0.0.1/32 0, 0.0.0.0/0 1);
own4[0] -> route;
own4[1] -> ICMPError(10.0.0.1, timeexceeded, transit, RATE 100, SET_FIX_ANNO false) -> encap4;
ttl6[1] -> own6 :: LookupIP6Route(2001:db8::1/128 0, fe80::ff:fe00:10/128 0, ::/0 1);
own6[0] -> [1] route;
own6[1] -> ICMP6Error(2001:db8::1, timeexceeded, RATE 100) -> encap6;
route[1] -> ICMPError(10.0.0.1, unreachable, net, RATE 100, SET_FIX_ANNO false) -> encap4;
route[2] -> ICMP6Error(2001:db8::1, unreachable, RATE 100) -> encap6;
route[3] -> fragments :: IPFragmenter(1500) -> CheckIPHeader(14) -> route;
fragments[1] -> ICMPError(10.0.0.1, unreachable, needfrag, PMTU 1500, RATE 100, SET_FIX_ANNO false) -> encap4;
route[4] -> ICMP6Error(2001:db8::1, toobig, PMTU 1500, RATE 100) -> encap6;

route[0] -> steer;
steer[0] -> restore;
steer[1] -> to1;
steer[2] -> to2;
steer[3] -> to3;

FromDevice(eth1) -> [1] switch;
FromDevice(eth2) -> [2] switch;
FromDevice(eth3) -> [3] switch;

switch[0] -> restore;
switch[1] -> to1;
switch[2] -> to2;
switch[3] -> to3;
switch[4] -> hello;

restore[0] -> to0;
restore[1] -> output;
output[0] -> ICMPPingResponder -> encap4;
output[1] -> ICMP6PingResponder -> encap6;
output[2] -> arp0;
output[3] -> nd0;

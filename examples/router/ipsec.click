// One end of an ESP tunnel between two networks. eth0 is the network inside, eth1 the path to the far end, which must be a
// neighbour. The keys are in sa.toml. The other end swaps the variables:
//
//   scalebricks graph run examples/router/ipsec.click --port eth0=… --port eth1=…
//   scalebricks graph run examples/router/ipsec.click INSIDE=10.0.2.1/24 INSIDE_MAC=02:00:00:00:02:00 \
//       OUTSIDE=192.0.2.2/24 OUTSIDE_MAC=02:00:00:00:02:01 SENDS=right-to-left RECEIVES=left-to-right --port …

define($INSIDE 10.0.1.1/24, $INSIDE_MAC 02:00:00:00:01:00,
       $OUTSIDE 192.0.2.1/24, $OUTSIDE_MAC 02:00:00:00:01:01,
       $INNER_MTU 1446, $KEYS examples/router/sa.toml, $SENDS left-to-right, $RECEIVES right-to-left);

AddressInfo(eth0 $INSIDE $INSIDE_MAC, eth1 $OUTSIDE $OUTSIDE_MAC);

// Received frames: ARP requests, ARP replies, IP, others.
FromDevice(eth0) -> class0 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
FromDevice(eth1) -> class1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
out0 :: Queue(1000) -> ToDevice(eth0);
out1 :: Queue(1000) -> ToDevice(eth1);

arp0 :: ARPQuerier(eth0) -> out0;
arp1 :: ARPQuerier(eth1) -> out1;
class0[0] -> ARPResponder(eth0) -> out0;
class1[0] -> ARPResponder(eth1) -> out1;
class0[1] -> [1]arp0;
class1[1] -> [1]arp1;
class0[3] -> other :: Discard;
class1[3] -> other;

// From inside: what no association is for is dropped. The next hop is the far end of the tunnel.
class0[2] -> HostEtherFilter(eth0, DROP_OTHER true)
    -> Strip(14)
    -> CheckIPHeader(INTERFACES eth0)
    -> DropBroadcasts
    -> ttl0 :: DecIPTTL
    -> fragments0 :: IPFragmenter($INNER_MTU)
    -> encap :: IPsecEncap($KEYS, $SENDS)
    -> arp1;
ttl0[1] -> ICMPError(eth0, timeexceeded) -> arp0;
// 1,500 bytes less 54 for the outer header, ESP, IV, trailer and ICV; 1,438 with aes-128-cbc-hmac-sha1-96. What may be
// fragmented is, before it is encrypted, so that the far end sees no fragment of an ESP packet.
fragments0[1] -> big0 :: ICMPError(eth0, unreachable, needfrag, PMTU $INNER_MTU) -> arp0;
encap[1] -> big0;

// From outside: what does not come through the tunnel is dropped.
class1[2] -> HostEtherFilter(eth1, DROP_OTHER true)
    -> Strip(14)
    -> CheckIPHeader
    -> decap :: IPsecDecap($KEYS, $RECEIVES)
    -> CheckIPHeader
    -> ttl1 :: DecIPTTL
    -> arp0;

// A NAT44 between an inside network on eth0 and the outside on eth1: subscribers 100.64.0.0/22 share 192.0.2.16/28, which
// the provider routes to 198.51.100.2. Each subscriber has one block of 512 ports, computed from its address.
//
//   scalebricks graph run examples/flows/nat44.click --port eth0=… --port eth1=…
//   scalebricks graph read nat.block_log

AddressInfo(inside 100.64.0.1/22 02:00:00:00:00:20);
AddressInfo(outside 198.51.100.2/24 02:00:00:00:01:20);

other :: Discard;
never :: Discard;
here :: Discard;

out1 :: Queue(1000) -> to1 :: ToDevice(eth0);
arp1 :: ARPQuerier(inside) -> out1;
out2 :: Queue(1000) -> to2 :: ToDevice(eth1);
arp2 :: ARPQuerier(outside) -> out2;

// After the translation: to a network of its own, or by the provider's router.
to_outside :: StaticIPLookup(198.51.100.0/24 0, 0.0.0.0/0 198.51.100.1 0);
to_outside[0] -> fragments2 :: IPFragmenter(1500) -> arp2;
to_inside :: StaticIPLookup(100.64.0.0/22 0, 0.0.0.0/0 1);
to_inside[0] -> fragments1 :: IPFragmenter(1500) -> arp1;
to_inside[1] -> never;

nat :: Nat44(100.64.0.0/22, 192.0.2.16/28, BLOCK 512, DETERMINISTIC true, KEY 7);
nat[0] -> to_outside;
nat[1] -> to_inside;
// What is refused: subscribers are told (RFC 6888 REQ-11), others are not (RFC 5382 REQ-4). The paint is the port.
nat[2] -> side :: PaintSwitch;
side[0] -> never;
side[1] -> ICMPError(inside, unreachable, host) -> to_inside;
side[2] -> never;

// Errors about translated packets that are too long pass the NAT, which translates what they quote.
fragments1[1] -> ICMPError(inside, unreachable, needfrag, PMTU 1500) -> nat;
fragments2[1] -> ICMPError(outside, unreachable, needfrag, PMTU 1500) -> [1] nat;

// From inside: the NAT's own address, or through the NAT.
ip1 :: Strip(14)
    -> CheckIPHeader(INTERFACES inside outside)
    -> own1 :: StaticIPLookup(100.64.0.1/32 0, 198.51.100.2/32 0, 0.0.0.0/8 1, 127.0.0.0/8 1, 169.254.0.0/16 1,
        224.0.0.0/3 1, 0.0.0.0/0 2);
own1[0] -> ping1 :: ICMPPingResponder -> to_inside;
ping1[1] -> here;
own1[1] -> never;
own1[2] -> ttl1 :: DecIPTTL -> nat;
ttl1[1] -> ICMPError(inside, timeexceeded) -> to_inside;

// From outside: the same.
ip2 :: Strip(14)
    -> CheckIPHeader(INTERFACES inside outside)
    -> own2 :: StaticIPLookup(198.51.100.2/32 0, 192.0.2.16/28 1, 0.0.0.0/0 2);
own2[0] -> ping2 :: ICMPPingResponder -> to_outside;
ping2[1] -> here;
own2[1] -> ttl2 :: DecIPTTL -> [1] nat;
ttl2[1] -> ICMPError(outside, timeexceeded) -> to_outside;
own2[2] -> never;

// Ports: ARP requests, ARP replies, IPv4, others.
from1 :: FromDevice(eth0) -> class1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
class1[0] -> ARPResponder(inside) -> out1;
class1[1] -> [1] arp1;
class1[2] -> HostEtherFilter(inside, DROP_OTHER true) -> Paint(1) -> ip1;
class1[3] -> other;

from2 :: FromDevice(eth1) -> class2 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
class2[0] -> ARPResponder(outside) -> out2;
class2[1] -> [1] arp2;
class2[2] -> HostEtherFilter(outside, DROP_OTHER true) -> Paint(2) -> ip2;
class2[3] -> other;

// An IP router between two networks, in the shape of Click's own example.
//
// eth0, 00:00:5e:00:53:01, 192.0.2.1, network 192.0.2.0/24
// eth1, 00:00:5e:00:53:02, 198.51.100.1, network 198.51.100.0/24
// Everything else goes to the gateway 198.51.100.254.

AddressInfo(left 192.0.2.1/24 00:00:5e:00:53:01,
            right 198.51.100.1/24 00:00:5e:00:53:02);

// What comes in:
// 0. ARP queries  1. ARP replies  2. IP  3. anything else
elementclass InputClassifier {
  input -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  c[0] -> [0]output;
  c[1] -> [1]output;
  c[2] -> [2]output;
  c[3] -> Print(strange) -> Discard;
}

from0 :: FromDevice(eth0, PROMISC false) -> c0 :: InputClassifier;
from1 :: FromDevice(eth1, PROMISC false) -> c1 :: InputClassifier;
out0 :: Queue(200) -> todevice0 :: ToDevice(eth0);
out1 :: Queue(200) -> todevice1 :: ToDevice(eth1);
tohost :: ToHost;

// Deliver ARP replies to the ARP queriers as well as to the host.
t :: Tee(3);
c0[1] -> t;
c1[1] -> t;
t[0] -> tohost;
arpq0 :: ARPQuerier(left, left:eth) -> out0;
arpq1 :: ARPQuerier(right, right:eth) -> out1;
t[1] -> [1]arpq0;
t[2] -> [1]arpq1;

// Answer ARP queries; on eth0 for the other network too.
c0[0] -> ar0 :: ARPResponder(192.0.2.1 00:00:5e:00:53:01,
                             198.51.100.0/24 00:00:5e:00:53:01) -> out0;
c1[0] -> ar1 :: ARPResponder(198.51.100.1 00:00:5e:00:53:02) -> out1;

// The routing table. Outputs: 0. this host  1. eth0  2. eth1
rt :: StaticIPLookup(192.0.2.1/32 0, 192.0.2.255/32 0, 192.0.2.0/32 0,
                     198.51.100.1/32 0, 198.51.100.255/32 0, 198.51.100.0/32 0,
                     192.0.2.0/24 1,
                     198.51.100.0/24 2,
                     255.255.255.255/32 0.0.0.0 0, 0.0.0.0/32 0,
                     0.0.0.0/0 198.51.100.254 2);

// Hand incoming IP packets to the routing table.
ip :: Strip(14)
   -> CheckIPHeader(INTERFACES 192.0.2.1/24 198.51.100.1/24)
   -> [0]rt;
c0[2] -> Paint(1) -> ip;
c1[2] -> Paint(2) -> ip;

// IP packets for this host; it expects Ethernet headers.
rt[0] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> tohost;

// The output paths. The compound's outputs after the first are what an ICMP error answers.
elementclass OutputPath { $color, $address, MTU $mtu |
  input -> DropBroadcasts
        -> cp :: PaintTee($color)
        -> gio :: IPGWOptions($address)
        -> FixIPSrc($address)
        -> dt :: DecIPTTL
        -> fr :: IPFragmenter($mtu)
        -> output;
  cp[1] -> ICMPError($address, redirect, host) -> [1]output;
  gio[1] -> ICMPError($address, parameterproblem) -> [1]output;
  dt[1] -> ICMPError($address, timeexceeded) -> [1]output;
  fr[1] -> ICMPError($address, unreachable, needfrag) -> [1]output;
}

rt[1] -> path1 :: OutputPath(1, 192.0.2.1, MTU 1500) -> [0]arpq0;
rt[2] -> path2 :: OutputPath(2, 198.51.100.1, MTU 1500) -> [0]arpq1;
path1[1], path2[1] -> [0]rt;

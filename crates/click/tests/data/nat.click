// A network address translator: hosts inside share the address outside.
require(package extras);
define($INSIDE eth0, $OUTSIDE eth1, $LIMIT 1Mbps);

AddressInfo(inside 10.0.0.1/24 02:00:00:00:00:01,
            outside 203.0.113.1/24 02:00:00:00:00:02,
            gateway 203.0.113.254);

elementclass Card { $device, $ip, $mac |
  from :: FromDevice($device) -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  to :: ToDevice($device);
  q :: Queue(1000) -> to;
  arpq :: ARPQuerier($ip, $mac) -> q;
  c[0] -> ARPResponder($ip $mac) -> q;
  c[1] -> [1]arpq;
  c[2] -> Strip(14) -> CheckIPHeader(VERBOSE true) -> output;
  c[3] -> Discard;
  input -> [0]arpq;
}

lan :: Card($INSIDE, inside:ip, inside:eth);
wan :: Card($OUTSIDE, outside:ip, outside:eth);

// Outputs: 0. to the outside  1. back to the inside  2. no mapping
rw :: IPRewriter(pattern 203.0.113.1 1024-65535 - - 0 1,
                 drop);

lan -> mine :: IPClassifier(dst host 10.0.0.1, -);
mine[0] -> ICMPPingResponder -> GetIPAddress(16) -> lan;
mine[1] -> [0]rw;
wan -> (
  -> answers :: IPClassifier(dst host 203.0.113.1 and (tcp or udp), icmp type echo, -);
  answers[0] -> [0];
  answers[1] -> ICMPPingResponder -> [1];
  answers[2] -> Discard
) => [1]rw, out :: Null;
out -> wan;

rw[0] -> SetIPChecksum -> GetIPAddress(16) -> wan;
rw[1] -> GetIPAddress(16) -> lan;

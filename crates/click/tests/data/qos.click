// Three classes of service on one link: voice first, then data by deficit round robin, all of it shaped.
define($LINK 100Mbps, $VOICE 64);

elementclass Service { QUEUE $size, RED $min |
  input -> red :: RED($min, ${max-50}, 0.02) -> q :: Queue($size) -> output;
|| QUEUE $size |
  input -> Queue($size) -> output;
}

FromDump(/var/tmp/trace.pcap, TIMING true, STOP true)
  -> MarkIPHeader(14)
  -> class :: IPClassifier(ip dscp 46, ip dscp 10 or ip dscp 12, -);

voice, gold :: Null;
best :: SetIPDSCP(0);
class => voice, gold, best;

prio :: PrioSched;
drr :: DRRSched;

voice -> meter :: Meter(1000000);
meter[0] -> Service(QUEUE $VOICE) -> [0]prio;
meter[1] -> Paint(3) -> Discard;
gold -> g :: Service(QUEUE 500, RED 5) -> [0]drr;
best -> b :: Service(QUEUE 1000, RED 20) -> [1]drr;
drr -> [1]prio;

prio -> BandwidthShaper($LINK) -> count :: Counter -> ToDump("/var/tmp/shaped.pcap", SNAPLEN 96);

Script(TYPE ACTIVE, print $(count.rate), wait 1s, loop);
ControlSocket(TCP, 7777);

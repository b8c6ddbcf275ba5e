// Reassembles a capture: streams.pcap has the bytes of each TCP stream once and in order, and datagrams.pcap has whole
// packets in place of fragments.
//
//   scalebricks graph run examples/flows/streams.click --pcap in=examples/flows/sample.pcap.gz --read streams.counts
//
// Between devices, give both elements copies of the packets, as here, and let the packets themselves go on from another
// output of the Tee.
FromDevice(eth0) -> ip :: Classifier(12/0800, 12/86dd, -);
ip[0] -> copies :: Tee(2);
ip[1] -> copies;
ip[2] -> Discard;

// A capture may lack packets, begin midway, and have checksums that a network card was to fill in.
copies[0] -> streams :: TCPStream(14, CAPTURE true, PICKUP true, CHECKSUMS false) -> ToDump(streams.pcap);
copies[1] -> datagrams :: Defragment(14, CHECKSUMS false) -> ToDump(datagrams.pcap);

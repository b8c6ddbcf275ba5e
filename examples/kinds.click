// Counts IPv4 packets by kind, and writes DNS queries to a separate capture file.
FromDevice(eth0) -> Classifier(12/0800) -> CheckIPHeader(OFFSET 14)
    -> kind :: IPClassifier(udp and port 53, tcp, icmp, -);
kind[0] -> names :: Counter -> ToDump(names.pcap) -> out :: Queue(1000);
kind[1] -> tcp :: Counter -> out;
kind[2] -> icmp :: Counter -> out;
kind[3] -> other :: Counter -> out;
out -> ToDevice(eth1);

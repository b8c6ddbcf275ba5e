// Counts the packets of a device, in total and per half of the flows, records them in a capture, and forwards them.
FromDevice(eth0) -> all :: Counter -> halves :: HashSwitch(26, 8);
halves[0] -> one :: Counter -> Paint(1) -> queue :: Queue(1000);
halves[1] -> other :: Counter -> Paint(2) -> queue;
queue -> ToDump(seen.pcap) -> ToDevice(eth1);
ControlSocket(UNIX, count.sock);

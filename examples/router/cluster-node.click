// Node 0 of a cluster router of four nodes (RouteBricks): one external port of 10 Gb/s, eth0, and links to nodes 1, 2
// and 3 on eth1, eth2 and eth3. Packets to the table's networks leave by any port of any node. Check it with
//
//     scalebricks graph check examples/router/cluster-node.click
//
// A packet is parsed and looked up once, where it arrives; the other nodes move it by its encoded destination address.

// Node, port and next hop of each network.
route :: RouterInput(10.0.0.0/16 0 0 1, 10.1.0.0/16 1 0 1, 10.2.0.0/16 2 0 1, 10.3.0.0/16 3 0 1);

steer :: Flowlets(0, 4, 10Gbps);
switch :: MacSwitch(0, 4);

// The address of eth0, and those of the next hops behind it.
restore :: RestoreMac(02:00:00:00:00:10, 1 02:00:00:00:00:99);

// A full link drops; it must not stop what goes elsewhere.
to0 :: Queue(1024) -> ToDevice(eth0);
to1 :: Queue(1024) -> ToDevice(eth1);
to2 :: Queue(1024) -> ToDevice(eth2);
to3 :: Queue(1024) -> ToDevice(eth3);

FromDevice(eth0) -> Classifier(12/0800) -> CheckIPHeader(14) -> DecIPTTL -> route -> steer;

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

restore -> to0;

// Minimal forwarding: port i to a fixed port j.

to1 :: ToDevice(eth0);
to2 :: ToDevice(eth1);
from1 :: FromDevice(eth0) -> to2;
from2 :: FromDevice(eth1) -> to1;

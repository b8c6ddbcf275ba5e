// A transparent firewall between two devices: inside may open connections, outside reaches only a web server and echo.
// ARP passes. `reject` closes UDP port 123 for inside; with nothing at output 3, its packets are dropped as rule_rejected.
FromDevice(inside) -> kind0 :: Classifier(12/0806, -);
FromDevice(outside) -> kind1 :: Classifier(12/0806, -);
to_outside :: Queue(1000) -> ToDevice(outside);
to_inside :: Queue(1000) -> ToDevice(inside);
kind0[0] -> to_outside;
kind1[0] -> to_inside;

fw :: Firewall(14, FLOWS 100000, YOUNG 10000, SOURCE_FLOWS 2000,
    RULE outside allow icmp6[0] >= 133 and icmp6[0] <= 136,
    RULE outside allow tcp dst port 443 and dst host 192.0.2.80,
    RULE outside allow icmp type echo,
    RULE inside reject udp dst port 123);
kind0[1] -> [0] fw;
kind1[1] -> [1] fw;
fw[0] -> to_outside;
fw[1] -> to_inside;

// A NAT44 between two networks, as an IP hop. Blocks are computed, so that the node that takes over continues flows.
elementclass Appliance {
  input[0] -> CheckIPHeader(14) -> out :: DecIPTTL -> [0] n :: Nat44(/* options */ OFFSET 14, DETERMINISTIC true);
  input[1] -> CheckIPHeader(14) -> in :: DecIPTTL -> [1] n;
  n[0] -> [0] output;
  n[1] -> [1] output;
  out[1] -> refused :: Null -> [2] output;
  in[1] -> refused;
  n[2] -> refused;
}

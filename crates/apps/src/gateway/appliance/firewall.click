// A stateful firewall between two networks, as an IP hop. Connections continue in midstream, because their node may have
// changed.
elementclass Appliance {
  input[0] -> CheckIPHeader(14) -> out :: DecIPTTL -> [0] f :: Firewall(/* options */ OFFSET 14, PICKUP true);
  input[1] -> CheckIPHeader(14) -> in :: DecIPTTL -> [1] f;
  f[0] -> [0] output;
  f[1] -> [1] output;
  out[1] -> refused :: Null -> [2] output;
  in[1] -> refused;
  f[2] -> refused;
  f[3] -> refused;
}

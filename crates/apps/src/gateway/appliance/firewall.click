// A stateful firewall between two networks, as an IP hop.
//
// Until the element `Firewall` is there, a tracker that continues connections in midstream takes its place, behind
// `Paint`, which keeps the direction. With it, `f :: Firewall(/* options */ OFFSET 14)` is behind `out` and `in`: out ->
// [0] f [0] -> [0] output; in -> [1] f [1] -> [1] output; f [2] -> refused.
elementclass Appliance {
  input[0] -> CheckIPHeader(14) -> out :: DecIPTTL -> Paint(0) -> tracker :: FlowTracker(OFFSET 14, PICKUP true);
  input[1] -> CheckIPHeader(14) -> in :: DecIPTTL -> Paint(1) -> tracker -> direction :: PaintSwitch;
  direction[0] -> [0] output;
  direction[1] -> [1] output;
  out[1] -> refused :: Null -> [2] output;
  in[1] -> refused;
  tracker[1] -> refused;
}

// A stateful firewall between two networks, as an IP hop.
//
// Until the element `Firewall` is there, each direction has a tracker that continues connections in midstream. With it,
// `f :: Firewall(/* options */ OFFSET 14)` takes their place: [0] f [0], [1] f [1], f [2] -> refused.
elementclass Appliance {
  input[0] -> CheckIPHeader(14) -> out :: DecIPTTL -> from_inside :: FlowTracker(OFFSET 14, PICKUP true) -> [0] output;
  input[1] -> CheckIPHeader(14) -> in :: DecIPTTL -> from_outside :: FlowTracker(OFFSET 14, PICKUP true) -> [1] output;
  out [1] -> refused :: Null -> [2] output;
  in [1] -> refused;
  from_inside [1] -> refused;
  from_outside [1] -> refused;
}

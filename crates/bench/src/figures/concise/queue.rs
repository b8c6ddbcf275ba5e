//! Simulates one queue with one core: packets wait while the core is busy, and waiting packets are taken
//! together.

/// Result of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Time from arrival to completion of each packet.
    pub delays: Vec<f64>,
    /// The share of time that the core was busy.
    pub busy: f64,
}

/// Ratio of waiting times in the last and second quarter above which the queue counts as growing. For
/// unbounded growth the ratio is 7/3.
const GROWTH: f64 = 1.5;

impl Outcome {
    /// Whether the queue only grew: the core was never idle, and waiting times increased. The delays then
    /// reflect the length of the simulation and not the core.
    pub fn is_saturated(&self) -> bool {
        let quarter = self.delays.len() / 4;
        let mean = |delays: &[f64]| delays.iter().sum::<f64>() / delays.len().max(1) as f64;
        let (second, last) = (mean(&self.delays[quarter..2 * quarter]), mean(&self.delays[3 * quarter..]));
        self.busy > 0.98 && last > GROWTH * second
    }
}

/// Packets arrive at these ascending times. The core takes up to `most` waiting packets as a batch, which
/// completes after `service(batch size)`; all packets of a batch complete together.
///
/// Takes one step per batch and stores no events.
pub fn simulate(arrivals: &[f64], most: usize, mut service: impl FnMut(usize) -> f64) -> Outcome {
    let (mut free, mut busy, mut first) = (0.0_f64, 0.0, 0);
    let mut delays = Vec::with_capacity(arrivals.len());
    while let Some(&arrival) = arrivals.get(first) {
        let start = free.max(arrival);
        let waiting = arrivals[first..].iter().take(most.max(1)).take_while(|&&at| at <= start).count();
        let taken = service(waiting);
        free = start + taken;
        busy += taken;
        delays.extend(arrivals[first..first + waiting].iter().map(|at| free - at));
        first += waiting;
    }
    Outcome { delays, busy: if free > 0.0 { busy / free } else { 0.0 } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::mix;

    #[test]
    fn a_few_packets_by_hand() {
        // The first packet is alone; the next two wait and form a batch; then the core is idle.
        let outcome = simulate(&[0.0, 1.0, 2.0, 20.0], 32, |batch| 4.0 + batch as f64);
        assert_eq!(outcome.delays, [5.0, 10.0, 9.0, 5.0]);
        assert!((outcome.busy - 16.0 / 25.0).abs() < 1e-12);
        assert_eq!(simulate(&[0.0, 0.0, 0.0], 2, |_| 3.0).delays, [3.0, 3.0, 6.0]);
        assert!(simulate(&[], 4, |_| 1.0).delays.is_empty());
    }

    /// Uniform numbers in (0, 1).
    fn uniform(number: u64) -> f64 {
        ((mix(number) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    #[test]
    fn one_at_a_time_is_lindleys_recursion() {
        let (mut at, mut wait) = (0.0, 0.0_f64);
        let (mut arrivals, mut services, mut want) = (Vec::new(), Vec::<f64>::new(), Vec::new());
        for number in 0..5000 {
            let (gap, service) = (uniform(2 * number) * 10.0, uniform(2 * number + 1) * 8.0);
            // W' = max(0, W + S − A).
            wait = if number == 0 { 0.0 } else { (wait + services[number as usize - 1] - gap).max(0.0) };
            at += gap;
            arrivals.push(at);
            services.push(service);
            want.push(wait + service);
        }
        let mut next = services.iter().copied();
        let outcome = simulate(&arrivals, 1, |_| next.next().unwrap());
        assert!(outcome.delays.iter().zip(&want).all(|(got, want)| (got - want).abs() < 1e-6));
    }

    #[test]
    fn a_queue_that_grows_is_saturated() {
        let arrivals: Vec<f64> = (0..40_000).map(|number| f64::from(number) * 10.0).collect();
        // One at a time takes 10.5 each: too slow. A batch of 32 takes 32 · 8: fast enough, and the core is
        // rarely idle.
        assert!(simulate(&arrivals, 1, |_| 10.5).is_saturated());
        assert!(!simulate(&arrivals, 32, |batch| 40.0 + 8.0 * batch as f64).is_saturated());
        assert!(!simulate(&arrivals, 32, |batch| 10.0 * batch as f64).is_saturated(), "as fast as they come");
        assert!(!simulate(&arrivals, 1, |_| 9.9).is_saturated());
        assert!(!simulate(&[], 1, |_| 1.0).is_saturated());
        // One long pause is not growth.
        let mut first = 1e5;
        assert!(!simulate(&arrivals, 1, |_| std::mem::replace(&mut first, 9.0)).is_saturated());
    }

    #[test]
    fn a_queue_with_random_arrivals_waits_as_pollaczek_and_khinchine_say() {
        let (load, service) = (0.7, 10.0);
        let mut at = 0.0;
        let arrivals: Vec<f64> = (0..400_000)
            .map(|number| {
                at -= uniform(number).ln() * service / load;
                at
            })
            .collect();
        let outcome = simulate(&arrivals, 1, |_| service);
        let mean = outcome.delays.iter().sum::<f64>() / outcome.delays.len() as f64;
        // M/D/1: a wait of ρ·s / (2·(1 − ρ)).
        let want = service + load * service / (2.0 * (1.0 - load));
        assert!((mean / want - 1.0).abs() < 0.03, "{mean} {want}");
        assert!((outcome.busy - load).abs() < 0.01, "{}", outcome.busy);
    }
}

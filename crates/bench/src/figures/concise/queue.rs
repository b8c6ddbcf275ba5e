//! One queue and one core behind it, simulated: packets wait while it is busy, and those that wait are taken together.

/// What became of the packets.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Time from arrival until done, of each packet.
    pub delays: Vec<f64>,
    /// The share of time for which the core was busy.
    pub busy: f64,
}

/// How much longer than in the second quarter packets wait in the last where a queue grows: without end, it would be 7/3.
const GROWTH: f64 = 1.5;

impl Outcome {
    /// Whether the queue only grew: the core was never idle, and packets waited ever longer. What they waited says then how
    /// long the simulation was, and nothing of the core.
    pub fn is_saturated(&self) -> bool {
        let quarter = self.delays.len() / 4;
        let mean = |delays: &[f64]| delays.iter().sum::<f64>() / delays.len().max(1) as f64;
        let (second, last) = (mean(&self.delays[quarter..2 * quarter]), mean(&self.delays[3 * quarter..]));
        self.busy > 0.98 && last > GROWTH * second
    }
}

/// Packets arrive at these times, ascending. The core takes as many as have arrived, `most` at a time, and is done with a batch
/// after the time that `service` says for its size; all of a batch are done at once.
///
/// Cost: one step a batch, no events are kept.
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
        // The first is alone; the next two wait for it and go together; then the core is idle.
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
        // Alone 10.5 each: too slow. 32 together in 32 · 8: fast enough, and never idle for long.
        assert!(simulate(&arrivals, 1, |_| 10.5).is_saturated());
        assert!(!simulate(&arrivals, 32, |batch| 40.0 + 8.0 * batch as f64).is_saturated());
        assert!(!simulate(&arrivals, 32, |batch| 10.0 * batch as f64).is_saturated(), "as fast as they come");
        assert!(!simulate(&arrivals, 1, |_| 9.9).is_saturated());
        assert!(!simulate(&[], 1, |_| 1.0).is_saturated());
        // One long pause is no growth.
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

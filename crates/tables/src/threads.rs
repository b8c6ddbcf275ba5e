//! Work for several threads at once.

use std::panic::resume_unwind;

/// No thread could be had.
#[derive(Debug)]
pub(crate) struct SpawnError(pub(crate) String);

/// So many threads; for 0 one for each core.
pub(crate) fn threads_or_all(threads: usize) -> usize {
    if threads == 0 { std::thread::available_parallelism().map_or(1, usize::from) } else { threads }
}

/// Calls `act` with each item on a thread of its own, one of them the caller's; the results in order, or the first error.
pub(crate) fn on_threads<T: Send, R: Send, E: Send + From<SpawnError>>(
    items: Vec<T>,
    act: impl Fn(T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    std::thread::scope(|scope| {
        let mut items = items.into_iter();
        let own = items.next();
        let act = &act;
        let helpers: Vec<_> = items
            .map(|item| {
                let spawned = std::thread::Builder::new().spawn_scoped(scope, move || act(item));
                spawned.map_err(|error| E::from(SpawnError(error.to_string())))
            })
            .collect();
        let mut results: Vec<Result<R, E>> = own.map(act).into_iter().collect();
        for helper in helpers {
            let joined = helper.map(|helper| helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
            results.push(joined.flatten());
        }
        results.into_iter().collect()
    })
}

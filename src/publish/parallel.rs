//! Rendering and compressing many bodies on all cores.

use crate::snapshot::Packed;

/// Renders and compresses bodies on all cores, in order.
pub(crate) fn in_parallel(
    range: std::ops::Range<usize>,
    render: &(dyn Fn(usize) -> Vec<u8> + Sync),
) -> Vec<Packed> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = range.len().div_ceil(cores).max(1);
    let pack =
        |range: std::ops::Range<usize>| range.map(|at| Packed::new(render(at))).collect::<Vec<_>>();
    if range.len() < cores * 4 {
        return pack(range);
    }
    std::thread::scope(|scope| {
        let shares = range
            .clone()
            .step_by(share)
            .map(|start| start..(start + share).min(range.end));
        let workers: Vec<_> = shares
            .map(|share| scope.spawn(move || pack(share)))
            .collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, Vec<Packed>>| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().flat_map(join).collect()
    })
}

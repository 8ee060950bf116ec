use super::*;
use crate::collect::faults_tests::{Spell, Trouble};
use crate::collect::simulated_collector_tests::Simulation;
use crate::collect::virtual_upstream_tests::VirtualUpstream;

/// The step is collected while the other endpoint still fails, and the run ends.
#[test]
fn one_run_collects_the_live_step_also_if_another_endpoint_fails() {
    for endpoint in [Endpoint::Platform, Endpoint::Catalogue] {
        let mut run = Simulation::new(VirtualUpstream::new(3, 60, 0), true);
        run.advance(UnixSeconds(run.now.0 + DAY_SECONDS), 1);
        assert_eq!(run.collector.next(run.now).unwrap(), Next::Done);
        // The next day.
        run.now.0 += DAY_SECONDS;
        run.collector = run.open();
        let end = UnixSeconds(run.now.0 + DAY_SECONDS);
        let spell = Spell::new(Trouble::Status(500), endpoint, run.now..end);
        run.upstream.spells.push(spell);
        run.advance(end, 1);
        assert!(run.now < end, "the run must end by itself");
        run.collector.finish(true, run.now).unwrap();
        let written = run.collector.counts.live_written;
        assert!(written > 0, "no step with faults of {endpoint:?}");
        assert!(run.collector.missing(run.now).is_err());
    }
}

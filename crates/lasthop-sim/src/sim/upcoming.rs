//! Prefetching of the state of the next event.
//!
//! The state of a large network exceeds the processor's cache, and each event waits for memory
//! several times. The deadline after the current one is probably the next event; its state is loaded
//! while the current event is handled.

use super::deadlines::{Due, MachineId};
use super::probe::Probe;
use super::world::{Machine, World};
use lasthop_base::packet::Extension;
use lasthop_base::prefetch::prefetch;

/// Minimum number of machines with which events are prefetched. Fewer gain nothing.
const MANY: usize = 4096;

impl<P: Probe, X: Extension> World<P, X> {
    /// Returns the earliest deadline and its machine, if all deadlines must be searched.
    #[inline(never)]
    pub(super) fn first_of_all(&mut self) -> (Due, MachineId) {
        let first = self.deadlines.first_of_all();
        if self.machines.len() >= MANY
            && let Some(next) = self.deadlines.following(first.1)
        {
            match self.machines[next.index()] {
                Machine::Line(line) => prefetch(&self.lines[line.index()]),
                Machine::Datagrams(source) => prefetch(&self.sources[source.index()]),
                _ => {}
            }
        }
        first
    }
}

//! The receiving half: collects units of blocks, which are delivered in order.

use super::{MOST_REPORTS, Unit};
use lasthop_base::coding::UnitSet;
use std::collections::VecDeque;

/// A block that has not been delivered.
#[derive(Clone, Copy, Debug)]
struct Arriving {
    start: u64,
    length: u64,
    data: u8,
    units: UnitSet,
}

/// Receiving half of one endpoint.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct BlockReceiver {
    /// Blocks in order of their first bytes.
    blocks: VecDeque<Arriving>,
    /// Start of the block and number of the latest unit that arrived, until it is acknowledged.
    echo: Option<(u64, u8)>,
}

impl BlockReceiver {
    pub fn reset(&mut self) {
        self.blocks.clear();
        self.echo = None;
    }

    /// Processes the arrival of a unit. Advances `next`, the next expected byte, over blocks that
    /// are delivered. Returns `false` if the unit contains no new information.
    pub fn on_unit(&mut self, unit: &Unit, next: &mut u64) -> bool {
        self.echo = Some((unit.start, unit.number));
        if unit.start < *next {
            return false;
        }
        let place = self.blocks.partition_point(|block| block.start < unit.start);
        if self.blocks.get(place).is_none_or(|block| block.start != unit.start) {
            let Unit { start, length, data, .. } = *unit;
            self.blocks.insert(place, Arriving { start, length, data, units: UnitSet::default() });
        }
        let is_new = self.blocks[place].units.insert(unit.number);
        while let Some(first) = self.blocks.front()
            && first.start == *next
            && first.units.len() >= u16::from(first.data)
        {
            *next += first.length;
            self.blocks.pop_front();
        }
        is_new
    }

    /// Returns the unit to which the next acknowledgment responds, if any.
    pub fn take_echo(&mut self) -> Option<(u64, u8)> {
        self.echo.take()
    }

    /// Fills in the reports of the next acknowledgment and returns their number: first bytes of
    /// blocks that have not been delivered, oldest first, each with the number of its units that
    /// have arrived.
    pub fn reports(&self, reports: &mut [(u32, u32); MOST_REPORTS]) -> usize {
        for (report, block) in reports.iter_mut().zip(&self.blocks) {
            *report = (block.start as u32, u32::from(block.units.len()));
        }
        self.blocks.len().min(MOST_REPORTS)
    }
}

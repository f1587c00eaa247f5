//! The receiving half: gathers units of blocks, which go up in order.

use super::{MOST_REPORTS, Unit};
use lasthop_base::coding::UnitSet;
use std::collections::VecDeque;

/// A block that has not gone up.
#[derive(Clone, Copy, Debug)]
struct Arriving {
    start: u64,
    length: u64,
    data: u8,
    units: UnitSet,
}

/// The receiving half of one end.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct BlockReceiver {
    /// By their first bytes.
    blocks: VecDeque<Arriving>,
    /// The unit that arrived last, until it is acknowledged.
    echo: Option<(u64, u8)>,
}

impl BlockReceiver {
    pub fn reset(&mut self) {
        self.blocks.clear();
        self.echo = None;
    }

    /// A unit arrived. Moves `next`, the byte expected next, over what goes up; false if the unit brings
    /// nothing new.
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

    /// The unit that the next acknowledgment answers.
    pub fn take_echo(&mut self) -> Option<(u64, u8)> {
        self.echo.take()
    }

    /// What the next acknowledgment reports: the first bytes of blocks that have not gone up, oldest first, each with the
    /// number of its units that have arrived.
    pub fn reports(&self, reports: &mut [(u32, u32); MOST_REPORTS]) -> usize {
        for (report, block) in reports.iter_mut().zip(&self.blocks) {
            *report = (block.start as u32, u32::from(block.units.len()));
        }
        self.blocks.len().min(MOST_REPORTS)
    }
}

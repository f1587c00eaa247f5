//! The receive window: what is not read closes it, its right edge never moves back, and it does not
//! open by little (RFC 9293, section 3.8.6.2.2).

use super::memory::Memory;

/// The window that a socket advertises.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveWindow {
    /// Bytes of the buffer.
    buffer: u64,
    /// The largest window that the header can say.
    largest: u64,
    /// Bytes of a full segment.
    segment: u64,
    /// One past the last byte that was allowed to the peer.
    right: u64,
    /// The window that was advertised last.
    latest: u64,
    /// Is what the scale cannot say rounded up, as in Linux, or down?
    rounds_up: bool,
    /// What bounds it in place of the buffer, as in Linux.
    memory: Option<Memory>,
    /// How far it is shifted on the wire.
    shift: u8,
    /// Bytes that the application has read.
    pub read: u64,
}

impl ReceiveWindow {
    pub fn new(buffer: u32, rounds_up: bool, memory: Option<Memory>) -> Self {
        let (buffer, largest) = (buffer.into(), u16::MAX.into());
        ReceiveWindow {
            buffer,
            largest,
            segment: 1,
            right: 0,
            latest: 0,
            rounds_up,
            memory,
            shift: 0,
            read: 0,
        }
    }

    /// That of a Linux host with default settings, which receives segments of `segment` bytes.
    pub fn of_host(segment: u64) -> Self {
        let (memory, latest) = Memory::of_host(segment);
        ReceiveWindow {
            buffer: 0,
            largest: u32::MAX.into(),
            segment,
            right: 1 + latest,
            latest,
            rounds_up: true,
            memory: Some(memory),
            shift: 0,
            read: 0,
        }
    }

    /// What bounds it as in Linux.
    pub fn memory(&mut self) -> Option<&mut Memory> {
        self.memory.as_mut()
    }

    /// The same, to look at.
    pub fn bounds(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }

    /// Bytes that a step of the scale comes to.
    pub fn unit(&self) -> u64 {
        1 << self.shift
    }

    /// Bytes of the window that was advertised last.
    pub fn latest(&self) -> u64 {
        self.latest
    }

    /// The buffer changes its size.
    pub fn resize(&mut self, buffer: u32) {
        self.buffer = buffer.into();
    }

    /// The connection is open; `syn_window` bytes were advertised with the SYN, later windows are shifted
    /// by `shift`. The peer's segments have `theirs` bytes at most, if it fills them, and those that the first window
    /// counts in have `first`.
    pub fn open(&mut self, segment: u32, (theirs, first): (u32, u32), syn_window: u32, shift: u8) {
        (self.segment, self.shift) = (segment.into(), shift);
        self.largest = u64::from(u16::MAX) << shift;
        self.right = 1 + u64::from(syn_window);
        self.latest = syn_window.into();
        if let Some(memory) = &mut self.memory {
            self.latest = memory.open(theirs.into(), first.into(), shift);
            self.right = 1 + self.latest;
        }
    }

    /// Bytes that the peer may send from `rcv_nxt` on, by what it was told.
    pub fn allowed(&self, rcv_nxt: u64) -> u64 {
        self.right.saturating_sub(rcv_nxt)
    }

    /// The right edge that could be advertised.
    fn edge(&self, rcv_nxt: u64) -> u64 {
        let unread = (rcv_nxt - 1).saturating_sub(self.read);
        let free = self.buffer.saturating_sub(unread).min(self.largest);
        // No silly window: nothing, until a segment or half of the buffer is free.
        if free < self.segment.min(self.buffer / 2) { rcv_nxt } else { rcv_nxt + free }
    }

    /// The window to advertise now, which the peer learns in units of its scale.
    pub fn offer(&self, rcv_nxt: u64) -> u32 {
        let shift = self.shift;
        if let Some(memory) = &self.memory {
            let window = self.keep(rcv_nxt, memory);
            return (window.min(self.largest) >> shift << shift) as u32;
        }
        let edge = self.edge(rcv_nxt);
        let open = edge.saturating_sub(rcv_nxt);
        let unit = self.unit();
        let window = if self.rounds_up { open.div_ceil(unit) } else { open / unit } * unit;
        // What was allowed stays so (RFC 9293, section 3.8.6): rounded up where the scale rounds.
        let right = self.right.max(rcv_nxt + window);
        let kept = right.saturating_sub(rcv_nxt).div_ceil(unit) * unit;
        kept.min(self.largest) as u32
    }

    /// The window that `memory` has room for; what was allowed stays so, rounded up where the scale rounds
    /// (`tcp_select_window`).
    fn keep(&self, rcv_nxt: u64, memory: &Memory) -> u64 {
        let (kept, new) = (self.allowed(rcv_nxt), memory.select(self.latest));
        if new < kept { kept.next_multiple_of(memory.unit()) } else { new }
    }

    /// A segment leaves that advertises `window` from `rcv_nxt` on.
    pub fn on_advertised(&mut self, rcv_nxt: u64, window: u32) {
        // Linux goes by what it would say if it could.
        let kept = self.memory.as_ref().map(|memory| self.keep(rcv_nxt, memory));
        self.latest = kept.unwrap_or(window.into());
        self.right = self.right.max(rcv_nxt + self.latest);
    }

    /// Is there as much room from `rcv_nxt` on as was advertised last, so that an acknowledgment moves the right edge?
    pub fn moves_edge(&self, rcv_nxt: u64) -> bool {
        if let Some(memory) = &self.memory {
            return memory.select(self.latest) >= self.latest;
        }
        self.edge(rcv_nxt).saturating_sub(rcv_nxt) >= self.latest.min(self.largest)
    }

    /// Has reading opened the window so far that the peer should hear of it? Linux's rule: it has
    /// doubled, and it was at most half of the buffer.
    pub fn has_opened(&self, rcv_nxt: u64) -> bool {
        let now = self.allowed(rcv_nxt);
        if let Some(memory) = &self.memory {
            let may_open = 2 * now <= memory.clamp();
            return may_open && memory.select(self.latest) >= (2 * now).max(1);
        }
        let new = self.edge(rcv_nxt).saturating_sub(rcv_nxt);
        2 * now <= self.buffer.min(self.largest) && new > 0 && new >= 2 * now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_move_the_right_edge_and_nothing_moves_it_back() {
        let mut window = ReceiveWindow::new(4000, false, None);
        window.open(1000, (1000, 1000), 4000, 0);
        // Arrived and read so far; what is advertised; is an update due before that?
        for (rcv_nxt, read, update, advertised) in [
            (1, 0, false, 4000),
            (1001, 0, false, 3000),
            (4001, 0, false, 0),
            (4001, 500, false, 0),
            (4001, 1000, true, 1000),
            (4001, 4000, true, 4000),
            (5001, 4000, false, 3000),
        ] {
            window.read = read;
            assert_eq!(window.has_opened(rcv_nxt), update, "{rcv_nxt} {read}");
            assert_eq!(window.offer(rcv_nxt), advertised, "{rcv_nxt} {read}");
            window.on_advertised(rcv_nxt, advertised);
        }
        window.resize(100);
        window.read = 5000;
        assert_eq!(window.offer(5001), 3000, "never shrinks");
    }
}

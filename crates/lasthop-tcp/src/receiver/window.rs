//! The receive window: unread data closes it, its right edge never moves back, and it opens only in
//! large steps (silly window avoidance, RFC 9293, section 3.8.6.2.2).

use super::memory::Memory;

/// The window that a socket advertises.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveWindow {
    /// Bytes of the buffer.
    buffer: u64,
    /// Maximum window that the header can represent.
    largest: u64,
    /// Bytes of a full segment.
    segment: u64,
    /// Right edge: one past the highest byte that the peer may send.
    right: u64,
    /// Window advertised last.
    latest: u64,
    /// Whether a window that the scale cannot represent is rounded up, as in Linux, or down.
    rounds_up: bool,
    /// Memory that limits the window instead of `buffer`, as in Linux.
    memory: Option<Memory>,
    /// Window scale: shift of the window field.
    shift: u8,
    /// Number of bytes that the application has read.
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

    /// Returns the window of a Linux host with default settings that receives segments of `segment`
    /// bytes.
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

    /// Memory that limits the window, as in Linux.
    pub fn memory(&mut self) -> Option<&mut Memory> {
        self.memory.as_mut()
    }

    /// Like [`Self::memory`], but read-only.
    pub fn bounds(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }

    /// Unit of the window field, bytes.
    pub fn unit(&self) -> u64 {
        1 << self.shift
    }

    /// Window advertised last, bytes.
    pub fn latest(&self) -> u64 {
        self.latest
    }

    /// Sets the size of the buffer.
    pub fn resize(&mut self, buffer: u32) {
        self.buffer = buffer.into();
    }

    /// Opens the connection. The SYN advertised `syn_window` bytes; later windows are shifted by
    /// `shift`. `theirs` is the size of the peer's full segments, and the first window is a
    /// multiple of `first`.
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

    /// Bytes that the peer may send from `rcv_nxt` onwards, by the windows advertised.
    pub fn allowed(&self, rcv_nxt: u64) -> u64 {
        self.right.saturating_sub(rcv_nxt)
    }

    /// Right edge that can be advertised.
    fn edge(&self, rcv_nxt: u64) -> u64 {
        let unread = (rcv_nxt - 1).saturating_sub(self.read);
        let free = self.buffer.saturating_sub(unread).min(self.largest);
        // Silly window avoidance: the window is closed until a segment or half of the buffer is
        // free.
        if free < self.segment.min(self.buffer / 2) { rcv_nxt } else { rcv_nxt + free }
    }

    /// Returns the window to advertise now, rounded to units of the scale.
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
        // The right edge does not move back (RFC 9293, section 3.8.6); it is rounded up to units of
        // the scale.
        let right = self.right.max(rcv_nxt + window);
        let kept = right.saturating_sub(rcv_nxt).div_ceil(unit) * unit;
        kept.min(self.largest) as u32
    }

    /// Returns the window for which `memory` has room, without moving the right edge back. If it
    /// would move back, the previous window is rounded up to units of the scale
    /// (`tcp_select_window`).
    fn keep(&self, rcv_nxt: u64, memory: &Memory) -> u64 {
        let (kept, new) = (self.allowed(rcv_nxt), memory.select(self.latest));
        if new < kept { kept.next_multiple_of(memory.unit()) } else { new }
    }

    /// Records that a segment advertises `window` from `rcv_nxt` onwards.
    pub fn on_advertised(&mut self, rcv_nxt: u64, window: u32) {
        // Linux stores the window before it is limited by the header.
        let kept = self.memory.as_ref().map(|memory| self.keep(rcv_nxt, memory));
        self.latest = kept.unwrap_or(window.into());
        self.right = self.right.max(rcv_nxt + self.latest);
    }

    /// Returns `true` if the free space from `rcv_nxt` onwards is at least the window advertised
    /// last, so that an acknowledgment advances the right edge.
    pub fn moves_edge(&self, rcv_nxt: u64) -> bool {
        if let Some(memory) = &self.memory {
            return memory.select(self.latest) >= self.latest;
        }
        self.edge(rcv_nxt).saturating_sub(rcv_nxt) >= self.latest.min(self.largest)
    }

    /// Returns `true` if reading has opened the window enough for a window update. Linux's rule: it
    /// has doubled, and it was at most half of the buffer.
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
        // RCV.NXT, bytes read, whether a window update is due, and the window advertised.
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

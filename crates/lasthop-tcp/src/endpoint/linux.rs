//! A connection of a Linux host: what its receiver is told, and how it sends a stream.

use super::{Admission, Endpoint, Role};
use crate::config::TIMESTAMPS;
use crate::receiver::Arriving;
use lasthop_base::packet::{TcpHeader, flags};
use lasthop_base::units::Instant;

impl<A: Admission> Endpoint<A> {
    /// Data, a SYN or a FIN of `length` numbers arrive at a Linux host.
    #[cold]
    pub(super) fn receive_at_host(
        &mut self,
        now: Instant,
        segment: &TcpHeader,
        seq: u64,
        length: u64,
    ) {
        let control = segment.flags & (flags::SYN | flags::FIN) != 0;
        if self.receiver.reads_at_once {
            self.owes_ack |= segment.flags & flags::SYN != 0 && self.role == Role::Opener;
            let arriving = self.arriving(now, segment, seq, segment.is_pushed());
            self.receiver.expect(&self.config, now, &arriving);
        }
        let before = self.receiver.rcv_nxt;
        let timers = &mut self.sender.flight.timers;
        self.receiver.receive(&self.config, timers, now, seq, seq + length, control);
        let rcv_nxt = self.receiver.rcv_nxt;
        if before == 0
            && self.role == Role::Opener
            && self.sender.flight.has_lost_syn()
            && !self.config.sack
        {
            self.sender.begin_after_lost_syn();
        }
        if before == 0
            && let Some(memory) = self.receiver.window.as_mut().and_then(|window| window.memory())
        {
            memory.begin(now);
        }
        if self.receiver.reads_at_once && rcv_nxt > before.max(1) {
            self.receiver.read_up_to(now, rcv_nxt - 1, true, true);
        }
    }

    /// What the receiver of a host is told of a segment before it is received.
    pub(crate) fn arriving(
        &self,
        now: Instant,
        segment: &TcpHeader,
        seq: u64,
        is_pushed: bool,
    ) -> Arriving {
        let has_stamps = segment.has_timestamps;
        let blocks = u64::from(segment.sack_blocks);
        let stamp_bytes = if has_stamps { TIMESTAMPS.into() } else { 0 };
        let stamp = segment.options.timestamps.1;
        let rtt = &self.sender.flight.rtt;
        Arriving {
            seq,
            payload: segment.payload.into(),
            options: stamp_bytes + if blocks > 0 { 4 + 8 * blocks } else { 0 },
            echo: (has_stamps && self.config.timestamps)
                .then(|| (stamp, now - self.unwrap_timestamp(now, stamp))),
            is_pushed,
            srtt: rtt.srtt(),
            rto: rtt.rto(),
            advertised: self.advertised_window.into(),
        }
    }

    /// Like [`Self::transmit`], of a host whose writes join.
    #[cold]
    pub(super) fn transmit_stream(
        &mut self,
        now: Instant,
        header: &mut TcpHeader,
        sent_to: u64,
    ) -> Option<u32> {
        if self.config.autotuning {
            return self.transmit_as_host(now, header);
        }
        let out = self.sender.poll_transmit(now);
        self.fill_in(now, header, out, sent_to)
    }

    /// The same of a host whose buffers grow.
    #[cold]
    fn transmit_as_host(&mut self, now: Instant, header: &mut TcpHeader) -> Option<u32> {
        let sent_to = self.sender.flight.snd_max;
        if std::mem::take(&mut self.owes_ack) {
            self.receiver.challenge();
            return self.fill_in(now, header, None, sent_to);
        }
        let mut out = self.sender.poll_as_host(now);
        if out.is_none() && self.sender.write_waiting() {
            out = self.sender.poll_as_host(now);
        }
        let bytes = self.fill_in(now, header, out, sent_to)?;
        if out.is_some_and(|out| out.payload > 0 && self.sender.flight.is_pushed(out.seq)) {
            header.flags |= flags::PSH;
        }
        Some(bytes)
    }
}

//! Connections that send blocks of an erasure code: their segments are units.

use super::{Admission, Endpoint};
use crate::blocks::{MOST_REPORTS, OPTION, Unit};
use lasthop_base::packet::{TcpHeader, flags};
use lasthop_base::units::Instant;

impl<A: Admission> Endpoint<A> {
    /// Processes a segment of a connection that sends blocks: a unit or an acknowledgment of one.
    #[cold]
    pub(super) fn receive_unit(&mut self, now: Instant, segment: &TcpHeader) {
        if self.receiver.rcv_nxt == 0 {
            return;
        }
        let ack = self.sender.unwrap(segment.ack);
        if self.sender.flight.snd_una == 0 {
            // The segment acknowledges the SYN.
            self.sender.on_any_ack(now, ack.min(1), &[], true, None);
        }
        let is_marked = self.ecn.as_mut().is_some_and(|ecn| ecn.on_segment(segment));
        let seq = self.receiver.unwrap(segment.seq);
        self.sender.update_peer_window(seq, ack, u64::from(segment.window));
        let Endpoint { sender, receiver, blocks: Some(blocks), .. } = self else { return };
        if segment.payload > 0
            && let Some(unit) = Unit::read(segment, seq)
        {
            let is_new = blocks.receiver.on_unit(&unit, &mut receiver.rcv_nxt);
            receiver.duplicates += u64::from(!is_new);
            receiver.challenge();
        }
        let mut echo = None;
        if segment.payload == 0 && segment.has_timestamps {
            let (start, number) = segment.options.timestamps;
            echo = Some((sender.unwrap(start), number as u8));
        }
        let mut reports = [(0, 0); MOST_REPORTS];
        let count = usize::from(segment.sack_blocks).min(MOST_REPORTS);
        for (report, wire) in reports[..count].iter_mut().zip(segment.sack_blocks()) {
            *report = (sender.unwrap(wire.0), wire.1);
        }
        let flight = &mut sender.flight;
        blocks.sender.on_ack(flight, now, ack, echo, &reports[..count], is_marked);
    }

    /// Returns the next unit or an acknowledgment of one.
    #[cold]
    pub(super) fn transmit_unit(&mut self, now: Instant, header: &mut TcpHeader) -> Option<u32> {
        let Endpoint { sender, blocks: Some(blocks), .. } = self else { return None };
        header.flags = flags::ACK;
        header.sack_blocks = 0;
        let unit = blocks.sender.poll(&mut sender.flight, now);
        let mut bytes = OPTION;
        if let Some(unit) = unit {
            unit.write(header);
            header.ack = self.receiver.rcv_nxt as u32;
            header.window = self.advertised_window;
        } else if self.receiver.is_ack_due() {
            header.seq = sender.flight.snd_nxt as u32;
            header.payload = 0;
            let echo = blocks.receiver.take_echo();
            let mut reports = [(0, 0); MOST_REPORTS];
            let count = blocks.receiver.reports(&mut reports);
            self.acknowledge(header);
            header.has_timestamps = echo.is_some();
            if let Some((start, number)) = echo {
                header.options.timestamps = (start as u32, u32::from(number));
                header.set_sack_blocks(&reports[..count]);
                bytes += if count > 0 { 4 + 8 * count as u32 } else { 0 };
            } else {
                bytes = 0;
            }
        } else {
            return None;
        }
        if let Some(ecn) = &mut self.ecn {
            // Parity units are also sent for the first time.
            ecn.stamp(header, unit.is_some(), self.sender.flight.counters.window_cuts, 0);
        }
        let headers = if header.payload > 0 {
            self.sender.flight.config.header
        } else {
            self.sender.flight.config.ack_size
        };
        Some(headers.get() as u32 + header.payload + bytes)
    }

    /// Requests polling, since units may be pending once the peer has answered.
    pub(super) fn wake(&mut self) {
        if self.blocks.is_some() && self.sender.flight.snd_una > 0 {
            self.sender.flight.stay_awake();
        }
    }
}

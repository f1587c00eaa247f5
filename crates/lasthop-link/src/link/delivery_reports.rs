//! Delivery reports of packets, buffered for agents that request them.

use lasthop_base::packet::DeliveryReport;
use std::collections::VecDeque;

/// Delivery reports of a protocol whose sender receives feedback.
pub trait ReportsDelivery<P> {
    /// Enables reports. Until then, none are stored.
    fn enable(&mut self);

    /// Returns the next report: first retransmission, acknowledgment, or discard of a packet.
    fn poll(&mut self) -> Option<(DeliveryReport, P)>;
}

/// Delivery reports in the order in which they become known. Empty until reports are requested.
#[derive(Clone, Debug)]
pub(super) struct Fates<P>(Option<Box<Kept<P>>>);

#[derive(Clone, Debug)]
struct Kept<P> {
    fates: VecDeque<(DeliveryReport, P)>,
    /// Numbers of packets that are being retransmitted and are neither acknowledged nor discarded.
    retrying: Vec<u64>,
}

impl<P> Default for Fates<P> {
    fn default() -> Self {
        Fates(None)
    }
}

impl<P> Fates<P> {
    /// Returns `true` if delivery reports are enabled.
    #[inline(always)]
    pub fn are_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Reports the first retransmission of packet `number`; later ones are not reported.
    #[inline(always)]
    pub fn retry(&mut self, number: u64, packet: &P)
    where
        P: Clone,
    {
        if self.are_kept() {
            self.keep_retry(number, packet);
        }
    }

    #[cold]
    fn keep_retry(&mut self, number: u64, packet: &P)
    where
        P: Clone,
    {
        if let Some(kept) = &mut self.0
            && !kept.retrying.contains(&number)
        {
            kept.retrying.push(number);
            kept.fates.push_back((DeliveryReport::Retrying, packet.clone()));
        }
    }

    /// Reports the acknowledgment or discard of packet `number`.
    #[inline(always)]
    pub fn finish(&mut self, number: u64, fate: DeliveryReport, packet: Option<P>) {
        if self.are_kept() {
            self.keep_finish(number, fate, packet);
        }
    }

    #[cold]
    fn keep_finish(&mut self, number: u64, fate: DeliveryReport, packet: Option<P>) {
        if let Some(kept) = &mut self.0 {
            kept.retrying.retain(|&retrying| retrying != number);
            kept.fates.extend(packet.map(|packet| (fate, packet)));
        }
    }
}

impl<P> ReportsDelivery<P> for Fates<P> {
    fn enable(&mut self) {
        self.0
            .get_or_insert_with(|| Box::new(Kept { fates: VecDeque::new(), retrying: Vec::new() }));
    }

    fn poll(&mut self) -> Option<(DeliveryReport, P)> {
        self.0.as_mut()?.fates.pop_front()
    }
}

//! What a sender learns of its packets, kept for agents that ask.

use lasthop_base::packet::LinkFate;
use std::collections::VecDeque;

/// Fates of packets, in the order in which they become known. Nothing is kept until somebody asks.
#[derive(Clone, Debug)]
pub(super) struct Fates<P>(Option<Box<Kept<P>>>);

#[derive(Clone, Debug)]
struct Kept<P> {
    fates: VecDeque<(LinkFate, P)>,
    /// Numbers of packets that are sent again, and are not finished.
    retrying: Vec<u64>,
}

impl<P> Default for Fates<P> {
    fn default() -> Self {
        Fates(None)
    }
}

impl<P> Fates<P> {
    /// Somebody asks from now on.
    pub fn keep(&mut self) {
        self.0
            .get_or_insert_with(|| Box::new(Kept { fates: VecDeque::new(), retrying: Vec::new() }));
    }

    /// Does somebody ask?
    #[inline(always)]
    pub fn are_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Packet `number` is sent again; that is told the first time.
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
            kept.fates.push_back((LinkFate::Retrying, packet.clone()));
        }
    }

    /// Packet `number` is acknowledged or given up.
    #[inline(always)]
    pub fn finish(&mut self, number: u64, fate: LinkFate, packet: Option<P>) {
        if self.are_kept() {
            self.keep_finish(number, fate, packet);
        }
    }

    #[cold]
    fn keep_finish(&mut self, number: u64, fate: LinkFate, packet: Option<P>) {
        if let Some(kept) = &mut self.0 {
            kept.retrying.retain(|&retrying| retrying != number);
            kept.fates.extend(packet.map(|packet| (fate, packet)));
        }
    }

    /// The fate that became known first, and is told now.
    pub fn poll(&mut self) -> Option<(LinkFate, P)> {
        self.0.as_mut()?.fates.pop_front()
    }
}

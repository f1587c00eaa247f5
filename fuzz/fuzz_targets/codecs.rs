//! The byte forms of all protocols: any bytes are a frame or an error, and a frame that is read may be
//! received by an endpoint in the middle of its work.
//!
//! Input: protocol, then for each frame its length and its bytes; a length of 0 lets the endpoint send.

#![no_main]

mod common;

use lasthop::link::{Endpoint, LinkEndpoint};
use lasthop::live::Side;
use lasthop::units::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, mut rest)) = data.split_first() else { return };
    let network = common::network(choice);
    let mut end: LinkEndpoint<Vec<u8>> =
        network.links()[0].end(Side::Forward).interface().endpoint.clone();
    let mut now = Instant::ZERO;
    while let Some((&length, more)) = rest.split_first() {
        now = now + Duration::from_millis(3);
        if end.next_timeout() <= now {
            end.handle_timeout(now);
        }
        let (bytes, after) = more.split_at(usize::from(length).min(more.len()));
        rest = after;
        if bytes.is_empty() {
            if end.wants_packet() {
                end.enqueue(now, vec![length; 40]);
            }
            if let Some(frame) = end.poll_transmit(now) {
                let mut form = Vec::new();
                end.encode(&frame, &mut form).expect("every frame of a machine has a byte form");
            }
        } else if let Ok(frame) = end.decode(bytes) {
            end.receive(now, frame);
        }
        while end.poll_deliver().is_some() {}
        while end.poll_event().is_some() {}
    }
});

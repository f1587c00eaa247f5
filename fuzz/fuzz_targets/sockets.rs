//! Sockets with an arbitrary peer and application: see [`hosts::sockets`].

#![no_main]

#[allow(dead_code, reason = "the other target does")]
mod hosts;

libfuzzer_sys::fuzz_target!(|data: &[u8]| hosts::sockets(data));

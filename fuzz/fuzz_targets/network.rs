//! Live links with arbitrary packets: see [`common::network`].

#![no_main]

#[allow(dead_code, reason = "the other targets do")]
mod common;

libfuzzer_sys::fuzz_target!(|data: &[u8]| common::network(data));

//! Stations of 802.11 with any queue discipline: see [`common::dcf`].

#![no_main]

#[allow(dead_code, reason = "the other targets do")]
mod common;

libfuzzer_sys::fuzz_target!(|data: &[u8]| common::dcf(data));

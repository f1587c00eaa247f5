//! Recordings: see [`common::recording`].

#![no_main]

#[allow(dead_code, reason = "the other targets do")]
mod common;

libfuzzer_sys::fuzz_target!(|data: &[u8]| common::recording(data));

//! Byte formats of all protocols: see [`common::codecs`].

#![no_main]

#[allow(dead_code, reason = "the other targets do")]
mod common;

libfuzzer_sys::fuzz_target!(|data: &[u8]| common::codecs(data));

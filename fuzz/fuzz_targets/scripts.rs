//! Arbitrary conformance scripts: see [`hosts::scripts`].

#![no_main]

#[allow(dead_code, reason = "the other target does")]
mod hosts;

libfuzzer_sys::fuzz_target!(|data: &[u8]| hosts::scripts(data));

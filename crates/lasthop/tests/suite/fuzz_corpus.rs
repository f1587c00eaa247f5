//! Inputs found by fuzzing, each of which reaches code that no other input reaches. Lines of
//! hexadecimal digits in `fuzz/corpus`; `fuzz/README.md` describes how to add inputs.

use proptest::prelude::*;

#[path = "../../../../fuzz/fuzz_targets/common.rs"]
mod targets;

#[path = "../../../../fuzz/fuzz_targets/hosts.rs"]
mod hosts;

/// The inputs of a target.
fn inputs(lines: &str) -> Vec<Vec<u8>> {
    let byte = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).expect("ASCII");
        u8::from_str_radix(digits, 16).expect("hexadecimal digits")
    };
    lines.lines().map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect()
}

#[test]
fn frames_of_any_bytes_are_frames_or_errors() {
    let inputs = inputs(include_str!("../../../../fuzz/corpus/codecs.txt"));
    assert!(inputs.len() > 50);
    inputs.iter().for_each(|input| targets::codecs(input));
}

#[test]
fn no_packet_leaves_a_live_link_that_did_not_enter_it() {
    let inputs = inputs(include_str!("../../../../fuzz/corpus/network.txt"));
    assert!(inputs.len() > 50);
    inputs.iter().for_each(|input| targets::network(input));
}

#[test]
fn recordings_of_any_bytes_are_recordings_or_errors() {
    let inputs = inputs(include_str!("../../../../fuzz/corpus/recording.txt"));
    assert!(inputs.len() > 50);
    inputs.iter().for_each(|input| targets::recording(input));
}

#[test]
fn no_peer_and_no_application_breaks_a_socket() {
    let inputs = inputs(include_str!("../../../../fuzz/corpus/sockets.txt"));
    assert!(inputs.len() > 50);
    inputs.iter().for_each(|input| hosts::sockets(input));
}

#[test]
fn scripts_of_any_text_are_played_or_refused() {
    let inputs = inputs(include_str!("../../../../fuzz/corpus/scripts.txt"));
    assert!(inputs.len() > 50);
    inputs.iter().for_each(|input| hosts::scripts(input));
}

#[test]
fn each_packet_of_a_fuzzed_wlan_is_dropped_or_finished() {
    let inputs = inputs(include_str!("../../../../fuzz/corpus/dcf.txt"));
    assert!(inputs.len() > 50);
    inputs.iter().for_each(|input| targets::dcf(input));
}

proptest! {
    #[test]
    fn each_packet_of_a_wlan_is_dropped_or_finished_whatever_its_parameters(
        input in prop::collection::vec(any::<u8>(), 11..200),
    ) {
        targets::dcf(&input);
    }
}

//! Recordings: any bytes are a recording or an error. The header is fixed, the records are the input;
//! without the first byte's lowest bit the whole file is.

#![no_main]

mod common;

use lasthop::live::recording::{Header, Recorder, replay};
use lasthop::rng::Streams;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, records)) = data.split_first() else { return };
    if choice & 1 == 0 {
        let _ = replay(records);
        return;
    }
    let header = Header {
        scenario: common::scenario(choice >> 1),
        base: ".".to_owned(),
        streams: Streams { seed: 1, replication: 0 },
        mtu: None,
    };
    let mut file = Vec::new();
    Recorder::new(&mut file, &header).expect("memory");
    file.extend_from_slice(records);
    let _ = replay(&file[..]);
});

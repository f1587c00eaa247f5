//! What each target does with its input. The tests of the library do the same with the inputs in
//! `fuzz/corpus` (`tests/suite/fuzz_corpus.rs`).

use lasthop::link::{Endpoint, LinkEndpoint};
use lasthop::live::recording::{Header, Recorder, replay};
use lasthop::live::{Network, Side};
use lasthop::rng::Streams;
use lasthop::scenario::Scenario;
use lasthop::units::{Duration, Instant};
use std::collections::HashSet;
use std::path::Path;
use std::sync::OnceLock;

/// Protocols with a byte form, and several services.
const PROTOCOLS: &[&str] = &[
    r#"{ kind = "raw" }"#,
    r#"{ kind = "selective-repeat", window = 8 }"#,
    r#"{ kind = "selective-repeat", window = 300 }"#,
    r#"{ kind = "go-back-n", window = 8 }"#,
    r#"{ kind = "stop-and-wait" }"#,
    r#"{ kind = "karn-rlp" }"#,
    r#"{ kind = "oos-rlp" }"#,
    r#"{ kind = "xor-fec" }"#,
    r#"{ kind = "xor-fec", block = 3, interleave = 4 }"#,
    r#"{ kind = "rlc-am" }"#,
    r#"{ kind = "harq", units = 4 }"#,
    r#"{ kind = "services", service.a.protocol = "raw", service.b.protocol = { kind = "selective-repeat", window = 8 } }"#,
];

/// A link with the protocol that `choice` selects, Snoop at one end and losses.
fn scenario(choice: u8) -> Scenario {
    let protocol = PROTOCOLS[usize::from(choice) % PROTOCOLS.len()];
    let text = format!(
        r#"
name = "fuzz"
[link.air]
between = ["a", "b"]
rate = "2 Mbps"
delay = "5 ms"
queue = "10 packets"
protocol = {protocol}
agent = {{ kind = "snoop", at = "a" }}
errors = {{ kind = "uniform", loss = "20 %" }}
[flow.f]
from = "a"
to = "b"
transport = {{ kind = "udp" }}
app = {{ kind = "on-off", rate = "1 kbps", on = "1 s", off = "0 s", packet = "100 B" }}
[run]
duration = "1 s"
"#
    );
    let document = Scenario::from_toml(&text, Path::new(".")).expect("a scenario");
    document.points().expect("a point").remove(0).scenario
}

/// The live link of that scenario; building it once saves most of a run's time.
fn link(choice: u8) -> Network {
    static ALL: OnceLock<Vec<Network>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let streams = Streams { seed: 1, replication: 0 };
        let build = |choice| Network::new(&scenario(choice as u8), streams, None);
        (0..PROTOCOLS.len()).map(|choice| build(choice).expect("a network")).collect()
    });
    all[usize::from(choice) % PROTOCOLS.len()].clone()
}

/// The byte forms of all protocols: any bytes are a frame or an error, and a frame that is read may be
/// received by an endpoint in the middle of its work.
///
/// Input: protocol, then for each frame its length and its bytes; a length of 0 lets the endpoint send.
pub fn codecs(data: &[u8]) {
    let Some((&choice, mut rest)) = data.split_first() else { return };
    let network = link(choice);
    let mut end: LinkEndpoint<Vec<u8>> =
        network.links()[0].end(Side::Forward).interface().endpoint.clone();
    let mut now = Instant::ZERO;
    while let Some((&length, more)) = rest.split_first() {
        now += Duration::from_millis(3);
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
}

/// Live links under arbitrary packets at arbitrary times: no panic, and no packet that did not go in.
///
/// Input: protocol, then for each packet a pause in 64 µs, a side, a length, bytes.
pub fn network(data: &[u8]) {
    let Some((&choice, mut rest)) = data.split_first() else { return };
    let mut network = link(choice);
    let (mut now, mut known) = (0u64, HashSet::new());
    while let [pause, side, high, low, more @ ..] = rest {
        now += u64::from(*pause) << 16;
        let length = (usize::from(*high) << 8 | usize::from(*low)).min(more.len());
        let (packet, after) = more.split_at(length);
        rest = after;
        let side = Side::BOTH[usize::from(side & 1)];
        if network.input(Instant::from_nanos(now), 0, side, packet.to_vec()) {
            known.insert(packet.to_vec());
        }
    }
    network.advance(Instant::from_nanos(now + 20_000_000_000));
    while let Some(delivery) = network.poll_delivery() {
        assert!(known.contains(&delivery.packet), "a packet that did not go in");
    }
}

/// Recordings: any bytes are a recording or an error. The header is fixed, the records are the input;
/// without the first byte's lowest bit the whole file is.
pub fn recording(data: &[u8]) {
    let Some((&choice, records)) = data.split_first() else { return };
    if choice & 1 == 0 {
        let _ = replay(records);
        return;
    }
    let header = Header {
        scenario: scenario(choice >> 1),
        base: ".".to_owned(),
        streams: Streams { seed: 1, replication: 0 },
        mtu: None,
    };
    let mut file = Vec::new();
    Recorder::new(&mut file, &header).expect("memory");
    file.extend_from_slice(records);
    let _ = replay(&file[..]);
}

//! What the targets share: scenarios of one link, one for each protocol that has a byte form.

use lasthop::live::Network;
use lasthop::rng::Streams;
use lasthop::scenario::Scenario;
use std::path::Path;
use std::sync::OnceLock;

/// Protocols with a byte form, and several services.
pub const PROTOCOLS: &[&str] = &[
    r#"{ kind = "raw" }"#,
    r#"{ kind = "selective-repeat", window = 8 }"#,
    r#"{ kind = "selective-repeat", window = 300 }"#,
    r#"{ kind = "go-back-n", window = 8 }"#,
    r#"{ kind = "stop-and-wait" }"#,
    r#"{ kind = "karn-rlp" }"#,
    r#"{ kind = "oos-rlp" }"#,
    r#"{ kind = "xor-fec" }"#,
    r#"{ kind = "rlc-am" }"#,
    r#"{ kind = "harq", units = 4 }"#,
    r#"{ kind = "services", service.a.protocol = "raw", service.b.protocol = { kind = "selective-repeat", window = 8 } }"#,
];

/// A link with the protocol that `choice` selects, Snoop at one end and losses.
pub fn scenario(choice: u8) -> Scenario {
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
#[allow(dead_code, reason = "not every target takes one")]
pub fn network(choice: u8) -> Network {
    static ALL: OnceLock<Vec<Network>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let streams = Streams { seed: 1, replication: 0 };
        let build = |choice| Network::new(&scenario(choice as u8), streams, None);
        (0..PROTOCOLS.len()).map(|choice| build(choice).expect("a network")).collect()
    });
    all[usize::from(choice) % PROTOCOLS.len()].clone()
}

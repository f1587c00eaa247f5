//! The conformance scripts under `data/tcp-scripts`: profile `rfc`, minimum RTO 200 ms, every segment
//! acknowledged at once. Each script quotes the sentence that it holds.

use lasthop::tcp::{Config, Overrides, Profile, Variant, presets};
use lasthop::tcp_script::{Negotiated, Script, ScriptError, Setup, play};
use lasthop::units::{Bytes, Duration};
use std::path::Path;

fn config(negotiated: Negotiated) -> Config {
    let set = Overrides {
        segment: Some(Bytes::new(negotiated.segment.into())),
        timestamps: Some(negotiated.timestamps),
        min_rto: Some(Duration::from_millis(200)),
        delayed_ack: Some(None),
        ..Overrides::default()
    };
    let variant = if negotiated.sack { Variant::Sack } else { Variant::NewReno };
    presets::config(variant, Profile::Rfc, &set)
}

fn run(text: &str) -> Result<(), ScriptError> {
    let setup = Setup { config: &config, tolerance: Duration::from_millis(4) };
    Script::parse(text).and_then(|script| play(&script, &setup))
}

#[test]
fn every_script_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/data/tcp-scripts");
    let mut failures = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "pkt") {
            count += 1;
            if let Err(error) = run(&std::fs::read_to_string(&path).unwrap()) {
                failures.push(format!("{}: {error}", path.file_name().unwrap().display()));
            }
        }
    }
    failures.sort();
    assert!(failures.is_empty(), "{} of {count} fail\n{}", failures.len(), failures.join("\n"));
    assert_eq!(count, 19);
}

const OPEN: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
    +0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
    +0 > S 0:0(0) <mss 1460>
    +.1 < S. 0:0(0) ack 1 win 20000 <mss 1000>
    +0 > . 1:1(0) ack 1
    +0 write(3, ..., 2000) = 2000\n";

/// A player that accepts everything would hold every script.
#[test]
fn what_differs_is_told_with_its_line() {
    for (more, found) in [
        ("+0 > . 1:1001(1000) ack 1\n+.1 > . 1001:2001(1000) ack 1", "line 8"),
        ("+0 > . 1:2002(2001) ack 1", "> . 1001:2001(1000) ack 1 at 0.1 s, then nothing"),
        ("+0 > . 1:1501(1500) ack 1", "> . 1001:2001(1000) ack 1"),
        ("+0 > F. 1:2001(2000) ack 1", "expected > F. 1:2001(2000) ack 1"),
        ("+0 > . 1:2001(2000) ack 2", "ack 1 at"),
        ("+0 > . 1:2001(2000) ack 1 <sack 1:2>", "found > . 1:1001(1000)"),
        ("+0 > . 1:2001(2000) ack 1 <TS val 1 ecr 2>", "found > . 1:1001(1000)"),
        ("+.31 > . 1:2001(2000) ack 1", "(asked for at 0.41 s)"),
        ("+0 %{ assert tcpi_snd_cwnd == 11 }%", "tcpi_snd_cwnd = 10"),
        ("+0 ioctl(3, SIOCINQ, [1]) = 0", "found 0"),
        ("+0 read(3, ..., 9) = 9", "9 bytes to read"),
    ] {
        match run(&format!("{OPEN}{more}")) {
            Err(error @ ScriptError::Differs { .. }) => {
                assert!(error.to_string().contains(found), "{more}: {error}");
            }
            other => panic!("{more}: {other:?}"),
        }
    }
    for more in ["+0 %{ assert tcpi_nonsense == 1 }%", "+0 epoll_wait(3, ..., 1, 0) = 0"] {
        let result = run(&format!("{OPEN}{more}"));
        assert!(matches!(result, Err(ScriptError::NotModelled { line: 7, .. })), "{result:?}");
    }
}

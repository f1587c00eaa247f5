//! The conformance scripts under `tests/tcp-scripts`, one folder per profile. Each script quotes
//! the sentence that it verifies.

use lasthop_script::{DEFAULT_TOLERANCE, Played, ScriptError, play};
use lasthop_tcp::Profile;
use std::path::Path;

fn run(text: &str) -> Played {
    play(text, Profile::Rfc, DEFAULT_TOLERANCE)
}

#[test]
fn every_script_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tcp-scripts");
    let mut failures = Vec::new();
    let mut count = 0;
    for (profile, name) in [(Profile::Rfc, "rfc"), (Profile::Linux, "linux")] {
        for entry in std::fs::read_dir(folder.join(name)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "pkt") {
                count += 1;
                let text = std::fs::read_to_string(&path).unwrap();
                if let Err(error) = play(&text, profile, DEFAULT_TOLERANCE).outcome {
                    failures.push(format!("{}: {error}", path.file_name().unwrap().display()));
                }
            }
        }
    }
    failures.sort();
    assert!(failures.is_empty(), "{} of {count} fail\n{}", failures.len(), failures.join("\n"));
    assert!(count >= 150, "{count}");
}

const OPEN: &str =
    "`sysctl -q net.ipv4.tcp_sack=0 net.ipv4.tcp_timestamps=0 net.ipv4.tcp_window_scaling=0`
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
    +0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
    +0 > S 0:0(0) <mss 1460>
    +.1 < S. 0:0(0) ack 1 win 20000 <mss 1000>
    +0 > . 1:1(0) ack 1
    +0 write(3, ..., 2000) = 2000\n";

/// A player that accepts everything would pass every script.
#[test]
fn what_differs_is_told_with_its_line() {
    for (more, found) in [
        ("+0 > . 1:1001(1000) ack 1\n+.1 > . 1001:2001(1000) ack 1", "line 9"),
        ("+0 > . 1:2002(2001) ack 1", "> . 1001:2001(1000) ack 1 win 65535 at 0.1 s, then nothing"),
        ("+0 > . 1:1501(1500) ack 1", "> . 1001:2001(1000) ack 1"),
        ("+0 > F. 1:2001(2000) ack 1", "expected > F. 1:2001(2000) ack 1"),
        ("+0 > . 1:2001(2000) ack 2", "ack 1 win"),
        ("+0 > . 1:2001(2000) ack 1 win 20000", "ack 1 win 65535"),
        ("+0 > . 1:2001(2000) ack 1 <sack 1:2>", "found > . 1:1001(1000)"),
        ("+0 > . 1:2001(2000) ack 1 <TS val 1 ecr 2>", "found > . 1:1001(1000)"),
        ("+.31 > . 1:2001(2000) ack 1", "(expected at 0.41 s)"),
        ("+0 %{ assert tcpi_snd_cwnd == 11 }%", "tcpi_snd_cwnd = 10"),
        ("+0 %{ x = 4; assert tcpi_snd_cwnd == x, 'no' }%", "tcpi_snd_cwnd = 10, x = 4"),
        ("+0 ioctl(3, SIOCINQ, [1]) = 0", "found [0]"),
        ("+0 read(3, ..., 9) = 9", "found -1 EAGAIN"),
        ("+0...0.2 read(3, ..., 9) = 9\n+.1 < . 1:10(9) ack 1 win 9", "a return at 0.3 s"),
        ("+0 getsockopt(3, SOL_TCP, TCP_MAXSEG, [999], [4]) = 0", "found [1000]"),
        ("+0 poll([{fd=3, events=POLLIN, revents=POLLIN}], 1, 0) = 1", "found 0x0"),
        (
            "+0 close(3) = 0\n+0 > . 1:2001(2000) ack 1\n+0 > . 2001:2001(0) ack 1",
            "found > F. 2001",
        ),
    ] {
        match run(&format!("{OPEN}{more}")).outcome {
            Err(error @ ScriptError::Differs { .. }) => {
                assert!(error.to_string().contains(found), "{more}: {error}");
            }
            other => panic!("{more}: {other:?}"),
        }
    }
    for more in [
        "+0 %{ assert tcpi_nonsense == 1 }%",
        "+0 splice(3, ..., 4, ..., 10, 0) = 10",
        "+0 setsockopt(3, SOL_TCP, TCP_MD5SIG, [1], 4) = 0",
        "+0 recv(3, ..., 9, MSG_OOB) = 9",
    ] {
        let result = run(&format!("{OPEN}{more}")).outcome;
        assert!(matches!(result, Err(ScriptError::NotModelled { line: 8, .. })), "{result:?}");
    }
}

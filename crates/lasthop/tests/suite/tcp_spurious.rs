//! Timeouts that were a mistake are counted exactly: the simulator knows what arrived.

use lasthop::packet::TcpHeader;
use lasthop::run::{self, Options};
use lasthop::scenario::Scenario;
use lasthop::tcp::{Connection, Overrides, Profile, Role, Variant, presets};
use lasthop::units::{Duration, Instant};
use std::path::Path;

/// Timeouts, those that were a mistake, retransmissions and duplicates of a file of 100 kB.
fn run(transport: &str, errors: &str) -> [f64; 4] {
    let text = format!(
        r#"
        name = "spurious"
        [link.air]
        between = ["a", "b"]
        rate = "1 Mbps"
        delay = "200 ms"
        errors = {errors}
        [flow.f]
        from = "a"
        to = "b"
        transport = {{ kind = "tcp", variant = "reno", handshake = false, {transport} }}
        app = {{ kind = "file", size = "100 kB" }}
        "#
    );
    let document = Scenario::from_toml(&text, Path::new(".")).unwrap();
    let scenarios: Vec<_> =
        document.points().unwrap().into_iter().map(|point| point.scenario).collect();
    let options = Options { replications: 1, first_replication: 0, seed: 1, jobs: 1 };
    let results = run::run(&scenarios, &options, &mut |_| true).unwrap();
    let value = |name: &str| {
        let name = format!("flow.f.{name}");
        let at = results.metrics.iter().position(|metric| *metric == name).unwrap();
        results.rows[0].values[at]
    };
    assert_eq!(value("complete"), 1.0, "{transport}");
    ["timeouts", "spurious_timeouts", "retransmissions", "duplicates_received"].map(value)
}

/// Nothing is lost, and the timer is shorter than the round trip.
#[test]
fn without_loss_every_timeout_is_a_mistake() {
    for profile in ["ns-2", "rfc"] {
        let clock = r#"min_rto = "0 s", initial_rto = "150 ms", max_rto = "150 ms""#;
        let transport = format!(r#"profile = "{profile}", {clock}"#);
        let [timeouts, mistakes, retransmissions, duplicates] =
            run(&transport, r#"{ kind = "none" }"#);
        assert!(timeouts >= 2.0, "{profile}: {timeouts}");
        // The run ends with the last ACK: copies of the 200 ms before, at most two timeouts, are still under way.
        assert!(
            (timeouts - 2.0..=timeouts).contains(&mistakes),
            "{profile}: {mistakes} {timeouts}"
        );
        assert!(duplicates >= mistakes && duplicates <= retransmissions, "{profile}");
    }
}

/// Frames are lost, and nothing takes longer than the timer: only lost ACKs can deceive the sender, which must be rare as
/// later ones make up for them.
#[test]
fn timeouts_after_losses_are_no_mistakes() {
    let errors = r#"{ kind = "uniform", loss = 0.2 }"#;
    for profile in ["ns-2", "rfc"] {
        let transport = format!(r#"profile = "{profile}", min_rto = "2 s""#);
        let [timeouts, mistakes, ..] = run(&transport, errors);
        assert!(timeouts >= 3.0 && mistakes <= timeouts / 2.0, "{profile}: {mistakes} {timeouts}");
    }
}

/// The original is late or lost: the copy that the timeout brings tells which, when it arrives.
#[test]
fn the_copy_tells_whether_the_original_was_late() {
    for (is_late, mistakes) in [(true, 1), (false, 0)] {
        let set = Overrides { handshake: Some(false), ..Overrides::default() };
        let config = presets::config(Variant::Reno, Profile::Rfc, &set);
        let [mut sender, mut receiver] = [Role::Opener, Role::Acceptor]
            .map(|role| Connection::new(&config, role, Duration::ZERO));
        sender.write(1000);
        let mut original = TcpHeader::default();
        assert!(sender.poll_transmit(Instant::ZERO, &mut original).is_some());
        let due = sender.next_timeout();
        sender.handle_timeout(due);
        sender.judge_timeout(&receiver);
        let mut copy = TcpHeader::default();
        assert!(sender.poll_transmit(due, &mut copy).is_some());
        assert_eq!((copy.seq, copy.payload), (original.seq, original.payload));
        let later = due + Duration::from_millis(100);
        if is_late {
            receiver.receive(later, &original);
        }
        receiver.receive(later, &copy);
        assert_eq!(receiver.spurious_timeouts(), mistakes);
        // What had arrived before the timer fired needs no copy to tell.
        let again = sender.next_timeout();
        sender.handle_timeout(again);
        sender.judge_timeout(&receiver);
        assert_eq!(sender.spurious_timeouts(), 1);
    }
}

//! The SNR of 802.11n, ac and ax in scenarios: distance, lists, recordings, fading, and rate control that follows.

use crate::scenarios::{self, Metrics, read, scenario};

fn metrics(text: &str) -> Metrics {
    scenarios::metrics(&scenario(text), 1, 5).remove(0)
}

/// An access point that sends packets of 1,500 B to a laptop above the capacity of the medium.
fn saturated(keys: &str, seconds: u64) -> String {
    format!(
        r#"
        name = "saturated"
        [wlan.cell]
        access_point = "ap"
        stations = ["laptop"]
        standard = "802.11n"
        {keys}
        [flow.down]
        from = "ap"
        to = "laptop"
        transport = {{ kind = "udp" }}
        app = {{ kind = "on-off", rate = "300 Mbps", on = "1000000 s", off = "0 s", packet = "1500 B" }}
        [run]
        duration = "{seconds} s"
        "#
    )
}

const GOODPUT: &str = "flow.down.goodput_bps";

/// 100.0 dB at 1 m, exponent 2: 60 dB at 100 m. 63.3 dB at 1 m, exponent 3: 33.3 dB at 10 m, with the key or with
/// positions. The runs are equal to those with the SNR itself, except for the scheduler of stations with positions,
/// which sends the same frames.
#[test]
fn an_snr_by_distance_is_that_of_its_path_loss() {
    let run = |snr: &str| metrics(&saturated(&format!("mcs = 5\nsnr = {snr}"), 2));
    let is_equal = |one: &Metrics, other: &Metrics| {
        for (name, value) in one.iter().filter(|(_, value)| !value.is_nan()) {
            assert_eq!(Some(value), other.get(name), "{name}");
        }
    };
    let far =
        "{ kind = \"distance\", distance = \"100 m\", exponent = 2, snr_at_1_m = \"61.5 dB\" }";
    let direct = run("\"21.5 dB\"");
    is_equal(&direct, &run(far));
    let lost = direct["link.cell.laptop.reverse.frames_lost"];
    assert!(lost > 100.0, "{lost}");
    let positions = "{ kind = \"distance\", exponent = 3, snr_at_1_m = \"51.5 dB\" }\n\
                     x = \"0 m\"\nstation = { laptop = { x = \"6 m\", y = \"8 m\" } }";
    let placed = run(positions);
    // The PPDU at the end of the run counts as lost only with positions.
    for name in [GOODPUT, "flow.down.packets_delivered", "link.cell.laptop.reverse.ppdus"] {
        assert_eq!(placed[name], direct[name], "{name}");
    }
}

/// 5 s at 40 dB and 5 s at 5 dB, at which MCS 7 loses everything: half of the goodput, from a list and from a
/// recording; repeated every 2 s, it is half as well.
#[test]
fn an_snr_that_changes_interrupts_the_link() {
    let folder = std::env::temp_dir().join(format!("lasthop-snr-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("walk.csv");
    std::fs::write(&file, "time,snr\n0,40\n5,-3\n").expect("a file");
    let keys = "mpdu_retry_limit = 255\nlifetime = \"100 ms\"\n";
    let run = |snr: &str| metrics(&saturated(&format!("{keys}snr = {snr}"), 10));
    let whole = run("\"40 dB\"")[GOODPUT];
    let list = run("{ kind = \"steps\", at = [[\"0 s\", \"40 dB\"], [\"5 s\", \"0 dB\"]] }");
    let trace = run(&format!("{{ kind = \"trace\", file = {:?} }}", file.display().to_string()));
    let repeated = run(
        "{ kind = \"steps\", at = [[\"0 s\", \"40 dB\"], [\"1 s\", \"0 dB\"]], repeat = \"2 s\" }",
    );
    for (measured, tolerance) in [(&list, 0.01), (&trace, 0.01), (&repeated, 0.05)] {
        let ratio = measured[GOODPUT] / whole;
        assert!((ratio - 0.5).abs() < tolerance, "{ratio}");
        assert!(measured["wlan.cell.expired"] > 64.0);
    }
    assert_eq!(list[GOODPUT], trace[GOODPUT]);
    std::fs::remove_dir_all(&folder).expect("the folder");
}

/// With fading that is slow compared with a PPDU, a fixed mode delivers a share of about the time in which the power
/// is above its threshold, exp(-threshold / SNR): MCS 7 needs 23.2 to 23.8 dB (1,542 B, losses of 90 to 10 % with
/// NIST). At a mean of 30 dB, these are 20.9 to 24.0 % of the mean power: 81.1 to 78.7 % of the time. 100 s with a
/// period of 50 ms contain some 2,000 independent fades; 5 standard errors are 5 %.
#[test]
fn rayleigh_fading_takes_the_share_of_time_below_the_threshold() {
    let keys = "mpdu_retry_limit = 1\nrts_threshold = \"60000 B\"\n";
    let run = |fading: &str| metrics(&saturated(&format!("{keys}snr = \"30 dB\"\n{fading}"), 100));
    let name = "link.cell.laptop.reverse.frames_lost";
    let share = |measured: &Metrics| {
        1.0 - measured[name] / measured["link.cell.laptop.reverse.frames_sent"]
    };
    let faded = share(&run("fading = { kind = \"rayleigh\", period = \"50 ms\" }"));
    assert!((0.75..0.85).contains(&faded), "{faded}");
    // A strong line of sight: 30 dB remain.
    let sight =
        share(&run("fading = { kind = \"rician\", period = \"50 ms\", k_factor = \"30 dB\" }"));
    assert!(sight > 0.99, "{sight}");
}

/// With slow fading, rate control gets more than any fixed mode, and the ideal choice more than Minstrel-HT; with
/// fast fading, the report of the ideal choice is stale, and its losses increase.
#[test]
fn rate_control_follows_slow_fading() {
    let run = |keys: &str, period: &str| {
        let fading = format!("fading = {{ kind = \"rayleigh\", period = \"{period}\" }}");
        metrics(&saturated(&format!("snr = \"25 dB\"\n{fading}\n{keys}"), 30))
    };
    let slow = "2 s";
    let fixed = (0..8).map(|mcs| run(&format!("mcs = {mcs}"), slow)[GOODPUT]).fold(0.0, f64::max);
    let ideal = run("rate_control = \"ideal\"", slow);
    let minstrel = run("rate_control = \"minstrel-ht\"", slow);
    assert!(ideal[GOODPUT] > 1.05 * fixed, "{} {fixed}", ideal[GOODPUT]);
    assert!(minstrel[GOODPUT] > 0.9 * fixed, "{} {fixed}", minstrel[GOODPUT]);
    let lost = |measured: &Metrics| {
        measured["link.cell.laptop.reverse.frames_lost"]
            / measured["link.cell.laptop.reverse.frames_sent"]
    };
    let fast = run("rate_control = \"ideal\"", "20 ms");
    assert!(lost(&fast) > 5.0 * lost(&ideal), "{} {}", lost(&fast), lost(&ideal));
}

#[test]
fn impossible_values_are_rejected() {
    for (keys, expected) in [
        ("snr = { kind = \"distance\" }", "the key distance, or positions"),
        (
            "fading = { kind = \"rayleigh\", period = \"1 s\" }",
            "an snr for each station with fading",
        ),
        ("snr = { kind = \"steps\", at = [[\"1 s\", \"10 dB\"]] }", "first time"),
        ("snr = { kind = \"trace\", file = \"missing.csv\" }", "cannot be read"),
        ("snr = \"101 dB\"", "from 0 dB to 100 dB"),
        ("snr = { kind = \"constant\", snr = \"101 dB\" }", "from 0 dB to 100 dB"),
        ("snr = \"30 dB\"\nfading = { kind = \"rayleigh\" }", "period"),
        ("snr = \"30 dB\"\nfading = { kind = \"rayleigh\", period = \"1 us\" }", "period"),
    ] {
        let error = read(&saturated(keys, 1)).expect_err(keys).to_string();
        assert!(error.contains(expected), "{keys}: {error}");
    }
}

/// 802.11a, g and b by SNR: NIST's curve for BPSK with rate 1/2 loses 1,500 B with a probability of 10 % at 3.96 dB
/// (MCS 0 of 802.11n has the same modulation), for 64-QAM with rate 3/4 at 22.62 dB; frames have 1,536 B.
#[test]
fn frames_of_802_11a_and_g_are_lost_as_the_error_curve_states() {
    for (standard, rate, snr) in [("802.11a", 6, "3.96"), ("802.11g", 54, "22.62")] {
        let keys = format!("rate = \"{rate} Mbps\"\nsnr = \"{snr} dB\"\nshort_retry_limit = 1");
        let text = saturated(&keys, 60).replace("802.11n", standard);
        let measured = metrics(&text);
        let side = |name: &str| measured[&format!("link.cell.laptop.reverse.{name}")];
        let (lost, sent) = (side("frames_lost"), side("frames_sent"));
        let expected = 1.0 - 0.9f64.powf(1_536.0 / 1_500.0);
        // At 6 Mbps, 26,000 frames: a standard error of 1.8 %; 0.01 dB are 1.5 % of the losses.
        assert!((lost / sent / expected - 1.0).abs() < 0.1, "{standard}: {lost} of {sent}");
    }
}

/// ARF reaches at least 80 % of the best fixed rate: one attempt in ten is a trial of a higher rate. At a high SNR it
/// stays at the highest rate.
#[test]
fn arf_reaches_the_best_fixed_rate() {
    for (standard, snr, rates) in [
        ("802.11a", "12 dB", &["6", "12", "18", "24", "36"][..]),
        ("802.11b", "3 dB", &["1", "2", "5.5", "11"]),
        ("802.11g", "40 dB", &["48", "54"]),
    ] {
        let run = |keys: &str| {
            let text = saturated(&format!("snr = \"{snr}\"\n{keys}"), 10);
            metrics(&text.replace("802.11n", standard))[GOODPUT]
        };
        let best =
            rates.iter().map(|rate| run(&format!("rate = \"{rate} Mbps\""))).fold(0.0, f64::max);
        let ratio = run("rate_control = \"arf\"") / best;
        assert!((0.8..=1.0).contains(&ratio), "{standard} {snr}: {ratio}");
    }
}

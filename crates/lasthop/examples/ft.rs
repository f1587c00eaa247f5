use lasthop::app::*;
use lasthop::channel::*;
use lasthop::queue::Limit;
use lasthop::rng::*;
use lasthop::sim::{builder::*, direction::*, probe::*};
use lasthop::tcp::*;
use lasthop::units::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let variant = match a[1].as_str() {
        "reno" => Variant::Reno,
        "newreno" => Variant::NewReno,
        _ => Variant::Sack,
    };
    let loss: f64 = a[2].parse().unwrap();
    let n: u64 = a[3].parse().unwrap();
    let cong = a[4] != "0";
    let lazy = a[4] != "2";
    let web = a.get(5).is_some();
    let over = Overrides { segment: Some(Bytes::new(252)), ..Default::default() };
    let config = presets::config(variant, Profile::Ns2, &over);
    let t = std::time::Instant::now();
    let mut events = 0;
    let mut all: Vec<Vec<f64>> = vec![];
    let mut names = vec![];
    for replication in 0..n {
        let s = Streams { seed: 1, replication };
        let mut b = Builder::new(s);
        let wire = |name| DirectionParameters {
            rate: Rate::from_bps(10_000_000),
            delay: Duration::from_millis(1),
            limit: Limit::Packets(50),
            header: Bytes::new(0),
            channel: {
                let _: &str = name;
                Channel::Clean
            },
        };
        let air = |name: &str| DirectionParameters {
            rate: Rate::from_bps(64_000),
            delay: Duration::from_millis(50),
            limit: Limit::Packets(50),
            header: Bytes::new(0),
            channel: if loss == 0.0 {
                Channel::Clean
            } else {
                Channel::Uniform(Uniform::new(Probability::new(loss).unwrap(), &s, name))
            },
        };
        b.raw_link(wire("w"), wire("x"));
        b.raw_link(air("wireless.forward"), air("wireless.reverse"));
        if web {
            b.web(
                "transfer",
                Instant::ZERO,
                &config,
                RoundTrip { there: &[0, 2], back: &[3, 1] },
                WebParameters { connections: 4, page_counts_itself: false },
            );
        } else {
            b.file(
                "transfer",
                Instant::ZERO,
                &config,
                RoundTrip { there: &[0, 2], back: &[3, 1] },
                Bytes::new(10_080_000),
            );
        }
        if cong {
            b.on_off(
                "cong",
                Instant::ZERO,
                OnOffParameters {
                    rate: Rate::from_bps(9_990_000),
                    on: DurationLaw::Exponential(Duration::from_secs(1)),
                    off: DurationLaw::Exponential(Duration::from_millis(1350)),
                    packet: Bytes::new(250),
                },
                &[0],
                lazy,
            );
        }
        let mut w = b.build(Silent);
        let end = w.run(
            Instant::from_nanos(if web { 2_000_000_000_000 } else { 100_000_000_000_000 }),
            !web,
            &Default::default(),
        );
        if replication == 0 {
            println!("{end:?}");
        }
        events += w.events();
        let mut row = vec![];
        names.clear();
        w.metrics(&["wired".into(), "wireless".into()], &mut |e, m, v| {
            names.push(format!("{e}.{m}"));
            row.push(v)
        });
        all.push(row);
    }
    let el = t.elapsed().as_secs_f64();
    println!(
        "{:.3} ms a replication, {} events, {:.1} ns/event",
        el / n as f64 * 1e3,
        events / n,
        el * 1e9 / events as f64
    );
    for i in 0..names.len() {
        let m = all.iter().map(|r| r[i]).sum::<f64>() / n as f64;
        let sd = (all.iter().map(|r| (r[i] - m).powi(2)).sum::<f64>() / (n as f64 - 1.0).max(1.0))
            .sqrt();
        println!("{:40} {:.5} +- {:.5}", names[i], m, 2.045 * sd / (n as f64).sqrt());
    }
}

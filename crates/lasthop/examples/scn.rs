use lasthop::{run::*, scenario::*};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut d =
        Scenario::from_toml(&std::fs::read_to_string(&a[1]).unwrap(), std::path::Path::new("."))
            .unwrap();
    let n: u64 = a[2].parse().unwrap();
    for kv in &a[3..] {
        let (k, v) = kv.split_once('=').unwrap();
        d.set(k, v).unwrap();
    }
    let pts = d.points().unwrap();
    let sc: Vec<Scenario> = pts.iter().map(|p| p.scenario.clone()).collect();
    let t = std::time::Instant::now();
    let r =
        run(&sc, &Options { replications: n, first_replication: 0, seed: 1, jobs: 1 }, &mut |_| {
            true
        })
        .unwrap();
    eprintln!("{:.3} ms/replication", t.elapsed().as_secs_f64() * 1e3 / r.rows.len() as f64);
    for (p, pt) in pts.iter().enumerate() {
        println!("{:?}", pt.parameters);
        for (i, m) in r.metrics.iter().enumerate() {
            let v: Vec<f64> =
                r.rows.iter().filter(|x| x.point == p as u32).map(|x| x.values[i]).collect();
            let mean = v.iter().sum::<f64>() / v.len() as f64;
            println!("{m:45} {mean:.5}");
        }
    }
}

//! The analytic models against tables computed elsewhere, to the last printed digit.
//! `data/analysis.toml` names the source of each table.

use lasthop_analysis::arq_efficiency::{ArqLink, rlp_residual_loss};
use lasthop_analysis::tcp_chain::{TcpChain, TcpOverArq};
use lasthop_analysis::tcp_formulas::TcpPath;
use lasthop_analysis::{ArqChain, GilbertElliottLaw, Restart, TransitionForm, block_codes};

fn tables() -> toml::Table {
    include_str!("data/analysis.toml").parse().unwrap()
}

/// Returns the rows of one table as text cells.
fn rows(name: &str) -> Vec<Vec<String>> {
    let tables = tables();
    let text = |cell: &toml::Value| cell.as_str().unwrap().to_owned();
    let row = |row: &toml::Value| row.as_array().unwrap().iter().map(text).collect();
    tables[name].as_array().unwrap().iter().map(row).collect()
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is not a number"))
}

/// Returns half a unit of the last digit of a printed number.
fn half_a_digit(text: &str) -> f64 {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let decimals = digits.split_once('.').map_or(0, |(_, after)| after.len() as i32);
    0.5 * 10f64.powi(exponent.parse::<i32>().unwrap() - decimals)
}

/// Collects the values that differ by more than half a unit of the last printed digit.
#[derive(Default)]
struct Check {
    compared: usize,
    wrong: Vec<String>,
}

impl Check {
    fn printed(&mut self, what: &str, value: f64, text: &str) {
        if text == "-" {
            return;
        }
        self.compared += 1;
        // A value exactly between two printed ones may be rounded either way.
        let most = half_a_digit(text) * (1.0 + 1e-6);
        let difference = (value - number(text)).abs();
        if difference.is_nan() || difference > most {
            self.wrong.push(format!("{what}: {value}, printed {text}"));
        }
    }

    fn equal(&mut self, what: &str, value: impl PartialEq<u32> + std::fmt::Debug, expected: u32) {
        self.compared += 1;
        if value != expected {
            self.wrong.push(format!("{what}: {value:?}, printed {expected}"));
        }
    }

    fn done(self, at_least: usize) {
        let Check { compared, wrong } = self;
        assert!(compared >= at_least, "only {compared} values");
        assert!(wrong.is_empty(), "{} of {compared} wrong:\n{}", wrong.len(), wrong.join("\n"));
    }
}

fn channel(b: f64) -> GilbertElliottLaw {
    GilbertElliottLaw::new(0.1, 1.0 - b, 0.01, 0.9).unwrap()
}

fn chain(b: f64, pdus: u32, spacing: u32) -> ArqChain {
    ArqChain::new(channel(b), pdus, spacing).unwrap()
}

#[test]
fn residual_losses_for_every_limit() {
    let (sdu, pdu) = (chain(0.9, 25, 1), chain(0.9, 1, 1));
    let by = |form| sdu.residual_losses_by(form).take(61).collect::<Vec<f64>>();
    let (entered, printed) = (by(TransitionForm::Entered), by(TransitionForm::AsPrinted));
    let single: Vec<f64> = pdu.residual_losses().take(61).collect();
    let mut check = Check::default();
    for row in rows("residual_loss") {
        let n: usize = row[0].parse().unwrap();
        check.printed(&format!("F({n})"), entered[n], &row[1]);
        check.printed(&format!("F({n}), misprinted Q"), printed[n], &row[2]);
        if n > 0 {
            let approximate = sdu.approximate_residual_loss(n as u32).unwrap();
            check.printed(&format!("approximate F({n})"), approximate, &row[3]);
            check.printed(&format!("F({n})"), sdu.residual_loss(n as u32).unwrap(), &row[1]);
        }
        check.printed(&format!("F({n}), 1 PDU"), single[n], &row[4]);
    }
    check.done(90);
}

#[test]
fn means_and_eigenvalues() {
    let mut check = Check::default();
    for row in rows("by_bad_sojourn") {
        let b = number(&row[0]);
        let sdu = chain(b, 25, 1);
        check.printed(&format!("b = {b}: share of bad"), channel(b).stationary()[1], &row[1]);
        check.printed(&format!("b = {b}: eigenvalue"), sdu.dominant_eigenvalue(), &row[2]);
        check.printed(&format!("b = {b}: E[η]"), sdu.mean_attempts().unwrap(), &row[3]);
        let n = sdu.transmissions_per_pdu(None).unwrap();
        check.printed(&format!("b = {b}: N"), n, &row[4]);
    }
    check.done(24);
}

#[test]
fn truncated_means() {
    let sdu = chain(0.9, 25, 1);
    let mut check = Check::default();
    for row in rows("by_limit") {
        let limit = row[0].parse().ok();
        let n = sdu.transmissions_per_pdu(limit).unwrap();
        check.printed(&format!("N, limit {limit:?}"), n, &row[1]);
        let (loss, mean) = limit.map_or((0.0, sdu.mean_attempts().unwrap()), |limit| {
            (sdu.residual_loss(limit).unwrap(), sdu.mean_attempts_limited(limit).unwrap())
        });
        check.printed(&format!("F, limit {limit:?}"), loss, &row[2]);
        check.printed(&format!("E[min(η, limit)], limit {limit:?}"), mean, &row[3]);
    }
    check.done(42);
}

#[test]
fn delays() {
    let tables = tables();
    let mut check = Check::default();
    for case in tables["delay_quantiles"].as_array().unwrap() {
        let sdu = chain(case["b"].as_float().unwrap(), 25, 1);
        let attempts = case["attempts"].as_array().unwrap();
        for (quantile, attempts) in case["quantiles"].as_array().unwrap().iter().zip(attempts) {
            let quantile = quantile.as_float().unwrap();
            let found = sdu.attempts_quantile(quantile, None).unwrap();
            check.equal(&format!("{quantile}"), found, attempts.as_integer().unwrap() as u32);
        }
    }
    for case in tables["delay_of_delivered"].as_array().unwrap() {
        let sdu = chain(case["b"].as_float().unwrap(), 25, 1);
        let means = case["means"].as_array().unwrap();
        for (limit, mean) in case["limits"].as_array().unwrap().iter().zip(means) {
            let limit = limit.as_integer().unwrap() as u32;
            let found = sdu.mean_attempts_of_delivered(limit).unwrap();
            check.printed(&format!("E[η | η ≤ {limit}]"), found, mean.as_str().unwrap());
        }
    }
    check.done(24);
}

#[test]
fn feedback_that_comes_late() {
    let mut check = Check::default();
    for row in rows("spaced") {
        let d: u32 = row[0].parse().unwrap();
        let sdu = chain(0.9, 25, d);
        check.printed(&format!("d = {d}: eigenvalue"), sdu.dominant_eigenvalue(), &row[1]);
        for (limit, text) in [2, 3, 5, 10, 15, 20, 30].into_iter().zip(&row[2..]) {
            let loss = sdu.residual_loss(limit).unwrap();
            check.printed(&format!("d = {d}: F({limit})"), loss, text);
        }
    }
    check.done(40);
}

#[test]
fn how_far_the_approximation_is_off() {
    let mut check = Check::default();
    for row in rows("asymptote") {
        let b = number(&row[0]);
        let sdu = chain(b, 25, 1);
        let n = 400;
        let slope = sdu.dominant_eigenvalue();
        let height = sdu.residual_loss(n).unwrap() / slope.powi(n as i32 - 1);
        let first = sdu.residual_loss(1).unwrap();
        check.printed(&format!("b = {b}: C"), height, &row[1]);
        check.printed(&format!("b = {b}: F(1)"), first, &row[2]);
        check.printed(&format!("b = {b}: C / F(1)"), height / first, &row[3]);
    }
    check.done(15);
}

#[test]
fn limits_for_a_target() {
    let tables = tables();
    let mut check = Check::default();
    for case in tables["inversion"].as_array().unwrap() {
        let b = case["b"].as_float().unwrap();
        let sdu = chain(b, 25, 1);
        for (index, target) in [1e-2, 1e-3, 1e-4].into_iter().enumerate() {
            let printed = |key: &str| case[key][index].as_integer().unwrap() as u32;
            let what = format!("b = {b}, target {target}");
            let approximate = sdu.limit_for_approximate(target).unwrap();
            check.equal(&format!("{what}: approximate limit"), approximate, printed("approximate"));
            let loss = sdu.residual_loss(approximate).unwrap();
            check.printed(&format!("{what}: loss"), loss, case["loss"][index].as_str().unwrap());
            let exact = sdu.limit_for(target).unwrap();
            check.equal(&format!("{what}: exact limit"), exact, printed("exact"));
            assert!(sdu.residual_loss(exact).unwrap() <= target);
            assert!(sdu.residual_loss(exact - 1).unwrap() > target);
        }
    }
    check.done(45);
}

#[test]
fn energy_ratios() {
    let mut check = Check::default();
    for row in rows("energy_ratio") {
        let limit = row[0].parse().unwrap();
        for (b, text) in [0.5, 0.7, 0.8, 0.9, 0.95].into_iter().zip(&row[1..]) {
            let ratio = chain(b, 25, 1).energy_ratio(limit, Restart::Stationary).unwrap();
            // The table prints 1 for values within a millionth of 1.
            check.printed(
                &format!("b = {b}, limit {limit}"),
                ratio,
                if text == "1" { "1.0000" } else { text },
            );
        }
    }
    check.done(160);
}

/// The values were simulated; their last digit is uncertain by about one.
#[test]
fn energy_ratios_by_restart() {
    let mut cases: Vec<(f64, u32, Restart, f64)> = Vec::new();
    for row in rows("energy_ratio_simulated") {
        let limit = row[0].parse().unwrap();
        cases.push((0.9, limit, Restart::Stationary, number(&row[1])));
        cases.push((0.9, limit, Restart::After(1), number(&row[2])));
    }
    cases.push((0.5, 1, Restart::After(1), 2.37));
    cases.push((0.5, 5, Restart::After(1), 1.05));
    for (b, limit, restart, simulated) in cases {
        let ratio = chain(b, 25, 1).energy_ratio(limit, restart).unwrap();
        println!("b = {b}, limit {limit}, {restart:?}: {ratio:.4}, simulated {simulated}");
        assert!((ratio - simulated).abs() < 0.015, "{b} {limit} {restart:?}: {ratio}, {simulated}");
        // A late restart equals one in the stationary channel.
        let late = chain(b, 25, 1).energy_ratio(limit, Restart::After(1000)).unwrap();
        let stationary = chain(b, 25, 1).energy_ratio(limit, Restart::Stationary).unwrap();
        assert!((late - stationary).abs() < 1e-9, "{late} {stationary}");
    }
}

#[test]
fn rows_and_law_of_the_window_chain() {
    let chain = TcpChain::new(0.1, Some(8)).unwrap();
    let mut check = Check::default();
    let rows = rows("window_rows");
    for from in 1..=8u32 {
        let row = chain.transitions(from).unwrap();
        let printed: Vec<_> = rows.iter().filter(|row| row[0] == from.to_string()).collect();
        check.equal(&format!("targets of {from}"), printed.len() as u32, row.len() as u32);
        for (cell, (to, probability)) in printed.iter().zip(row) {
            check.equal(&format!("target of {from}"), to, cell[1].parse().unwrap());
            check.printed(&format!("{from} to {to}"), probability, &cell[2]);
        }
    }
    let law = tables()["window_law"].as_array().unwrap().clone();
    assert_eq!(law.len(), chain.stationary().len());
    for (value, text) in chain.stationary().iter().zip(law) {
        check.printed("stationary distribution", *value, text.as_str().unwrap());
    }
    check.done(60);
}

#[test]
fn throughput_over_alpha() {
    let mut check = Check::default();
    let mut clean = 1.0;
    for row in rows("throughput_by_alpha") {
        let (wired, alpha) = (number(&row[0]), number(&row[1]));
        let loss = 1.0 - (1.0 - wired) * (1.0 - alpha * wired);
        let chain = TcpChain::new(loss, None).unwrap();
        let what = format!("p_f = {wired}, α = {alpha}");
        check.printed(&format!("{what}: loss"), chain.loss(), &row[2]);
        check.printed(&format!("{what}: mean window"), chain.mean_window(), &row[3]);
        for (capacity, text) in [5.0, 8.0, 10.0, 20.0, 25.0, 50.0, 100.0].into_iter().zip(&row[4..])
        {
            let share = chain.throughput(capacity, 1.1).unwrap() / capacity;
            check.printed(&format!("{what}: throughput at {capacity}"), share, text);
        }
        if alpha == 0.0 {
            clean = chain.mean_window();
        }
        check.printed(&format!("{what}: relative"), chain.mean_window() / clean, &row[11]);
        let unlimited = chain.throughput(f64::INFINITY, 1.1).unwrap();
        assert!((unlimited * 1.1 / chain.mean_window() - 1.0).abs() < 1e-12);
    }
    check.done(190);
}

#[test]
fn goodput_over_persistence() {
    let mut check = Check::default();
    let sdu = chain(0.9, 25, 1);
    for row in rows("goodput") {
        let (capacity, wired_loss) = (number(&row[0]), number(&row[1]));
        let goodput = |limit: Option<u32>| {
            let system = TcpOverArq {
                channel: channel(0.9),
                pdus: 25,
                spacing: 1,
                limit,
                frame: 0.01,
                capacity,
                wired_loss,
                wired_round_trip: number(&row[2]),
            };
            system.solve().unwrap().goodput * 8.0
        };
        let what = format!("C = {capacity}, p_f = {wired_loss}, T_f = {}", row[2]);
        for (limit, text) in [3, 5, 10, 20, 30].into_iter().zip(&row[3..]) {
            check.printed(&format!("{what}, limit {limit}"), goodput(Some(limit)), text);
        }
        let target = 0.1 * wired_loss;
        let approximate = sdu.limit_for_approximate(target).unwrap();
        check.printed(&format!("{what}, approximate"), goodput(Some(approximate)), &row[8]);
        check.equal(&format!("{what}, approximate"), approximate, row[9].parse().unwrap());
        let exact = sdu.limit_for(target).unwrap();
        check.printed(&format!("{what}, exact"), goodput(Some(exact)), &row[10]);
        check.equal(&format!("{what}, exact"), exact, row[11].parse().unwrap());
        check.printed(&format!("{what}, no limit"), goodput(None), &row[12]);
    }
    check.done(90);
}

#[test]
fn codes_protocols_and_formulas() {
    let mut check = Check::default();
    for row in rows("mds_failure") {
        let channel = GilbertElliottLaw::independent(number(&row[0])).unwrap();
        let parity: u32 = row[1].parse().unwrap();
        let block = block_codes::mds(&channel, 20, 20 - parity).unwrap();
        check.printed(&format!("MDS, {parity} of 20"), block.failure, &row[2]);
    }
    for row in rows("xor_residual") {
        let channel = GilbertElliottLaw::independent(number(&row[1]) / 100.0).unwrap();
        let block = block_codes::xor(&channel, row[0].parse().unwrap()).unwrap();
        check.printed(&format!("XOR, {} at {} %", row[0], row[1]), 100.0 * block.residual, &row[2]);
    }
    for row in rows("rlp_residual") {
        let loss = number(&row[0]) / 100.0;
        let residual = rlp_residual_loss(loss, loss, 1).unwrap();
        check.printed(&format!("RLP at {} %", row[0]), 100.0 * residual, &row[1]);
    }
    for row in rows("go_back_n") {
        let recovery = number(&row[0]);
        let link = ArqLink::new(number(&row[1]) / 100.0, 5.0, recovery).unwrap();
        let efficiency = link.go_back_n(64).unwrap();
        check.printed(&format!("go-back-N at {} %", row[1]), 100.0 * efficiency, &row[2]);
    }
    for row in rows("padhye") {
        for (round_trip, text) in [0.02, 0.04, 0.06, 0.08f64].into_iter().zip(&row[1..]) {
            let timeout = (2.0 * round_trip).max(0.2);
            let loss = number(&row[0]) / 100.0;
            let path = TcpPath::new(loss, round_trip, timeout, 1, f64::INFINITY).unwrap();
            let megabits = path.padhye_simplified() * 8e-3;
            check.printed(&format!("PFTK at {} %, {round_trip} s", row[0]), megabits, text);
        }
    }
    check.done(40);
}

//! Prints the speed of the analytic models on one core.
//!
//! `cargo run --release -p lasthop --example analysis_speed`

use lasthop::analysis::tcp_chain::{TcpChain, TcpOverArq};
use lasthop::analysis::{AnalysisError, ArqChain, GilbertElliottLaw, Restart};
use std::hint::black_box;
use std::time::Instant as Clock;

fn timed<T>(
    what: &str,
    points: u32,
    mut point: impl FnMut(f64) -> Result<T, AnalysisError>,
) -> Result<(), AnalysisError> {
    let clock = Clock::now();
    for index in 0..points {
        black_box(point(f64::from(index) / f64::from(points))?);
    }
    let seconds = clock.elapsed().as_secs_f64();
    let rate = f64::from(points) / seconds;
    println!("{what:<66} {rate:>10.0} points/s {:>9.3} ms per point", 1e3 / rate);
    Ok(())
}

fn main() -> Result<(), AnalysisError> {
    // Bad periods of 2 to 20 frames, good periods of 10.
    let channel = |x: f64| GilbertElliottLaw::new(0.1, 0.5 - 0.45 * x, 0.01, 0.9);
    timed("25 PDUs: E[η], F and E[min(η, 30)] at a limit of 30", 20_000, |x| {
        let chain = ArqChain::new(channel(x)?, 25, 1)?;
        Ok((chain.mean_attempts()?, chain.residual_loss(30)?, chain.mean_attempts_limited(30)?))
    })?;
    timed("25 PDUs: smallest limit for 1 %, exactly and approximately", 20_000, |x| {
        let chain = ArqChain::new(channel(x)?, 25, 1)?;
        Ok((chain.limit_for(0.01)?, chain.limit_for_approximate(0.01)?))
    })?;
    timed("25 PDUs: both energy ratios at a limit of 10", 20_000, |x| {
        let chain = ArqChain::new(channel(x)?, 25, 1)?;
        let stationary = chain.energy_ratio(10, Restart::Stationary)?;
        Ok((stationary, chain.energy_ratio(10, Restart::After(1))?))
    })?;
    timed("200 PDUs: E[η]", 500, |x| ArqChain::new(channel(x)?, 200, 1)?.mean_attempts())?;
    timed("200 PDUs: F(0) to F(60)", 500, |x| {
        ArqChain::new(channel(x)?, 200, 1)?.residual_loss(60)
    })?;
    timed("window chain: stationary distribution at losses of 0.1 to 10 %", 2_000, |x| {
        Ok(TcpChain::new(0.001 * 100f64.powf(x), None)?.mean_window())
    })?;
    timed("window chain: stationary distribution at a loss of 1e-8", 2, |_| {
        Ok(TcpChain::new(1e-8, None)?.mean_window())
    })?;
    timed("TCP over ARQ: both chains, limit 45", 2_000, |x| {
        let system = TcpOverArq {
            channel: channel(x)?,
            pdus: 25,
            spacing: 1,
            limit: Some(45),
            frame: 0.01,
            capacity: 100.0,
            wired_loss: 0.01,
            wired_round_trip: 1.1,
        };
        Ok(system.solve()?.goodput)
    })
}

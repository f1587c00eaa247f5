//! Speed of encoding and decoding blocks of N units, in bytes of packets per second on one core:
//! `cargo bench --bench coding`. Each line is a packet size, a block, and the number of its lost
//! data units; the best of 20 rounds, as other load on the machine only reduces the speed.

use lasthop::coding::ReedSolomon;
use std::hint::black_box;
use std::time::Instant;

fn main() {
    println!("packet   N  K  lost   coded GB/s  decoded GB/s");
    for (packet, units, data, lost) in [
        (1500, 20, 18u8, 2u8),
        (1500, 20, 16, 4),
        (1500, 20, 14, 6),
        (1500, 20, 10, 10),
        (9000, 20, 14, 6),
        (65_535, 20, 14, 6),
    ] {
        let unit = usize::div_ceil(packet, usize::from(data));
        let block: Vec<u8> = (0..unit * usize::from(data)).map(|i| ((i * 31) >> 3) as u8).collect();
        let pieces: Vec<&[u8]> = block.chunks_exact(unit).collect();
        let mut coder = ReedSolomon::new();
        let mut parities = vec![vec![0; unit]; usize::from(units - data)];
        let coded = rate(packet, || {
            for (number, parity) in (data..).zip(&mut parities) {
                coder.parity(black_box(&pieces), number, parity);
            }
        });
        let mut received: Vec<(u8, &[u8])> =
            (lost..data).map(|number| (number, pieces[usize::from(number)])).collect();
        received.extend((data..).zip(parities.iter().map(Vec::as_slice)));
        let mut output = Vec::with_capacity(block.len());
        let decoded = rate(packet, || {
            output.clear();
            coder.decode(data, black_box(&received), &mut output).expect("enough units");
        });
        assert_eq!(output, block);
        println!("{packet:6}  {units:2}  {data:2}  {lost:4}  {coded:11.2}  {decoded:12.2}");
    }
}

/// Returns the speed of `work` on packets of `packet` bytes, in gigabytes per second.
fn rate(packet: usize, mut work: impl FnMut()) -> f64 {
    let times = 4_000_000 / packet;
    let round = |_| {
        let start = Instant::now();
        for _ in 0..times {
            work();
        }
        start.elapsed().as_secs_f64()
    };
    let best = (0..20).map(round).fold(f64::INFINITY, f64::min);
    (packet * times) as f64 / best / 1e9
}

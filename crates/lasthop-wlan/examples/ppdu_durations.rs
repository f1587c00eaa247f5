//! Prints the duration of PPDUs of 802.11n, ac and ax at 5 GHz in the form of ns-3: format, MCS of a stream,
//! spatial streams, MHz, guard interval in ns, bytes, duration in ns. `tools/compare_ns3.py` compares the list
//! with that of `tools/ns3/ppdu_durations.cc`.

use lasthop_base::units::Bytes;
use lasthop_wlan::phy::{
    Band, Coding, Form, Format, GuardInterval, Mode, PacketExtension, PpduTiming, Width,
};

fn main() {
    let timing = PpduTiming {
        band: Band::Ghz5,
        form: Form::Ns3,
        coding: Coding::Bcc,
        packet_extension: PacketExtension::Us0,
    };
    let intervals = [
        (GuardInterval::Ns400, 400),
        (GuardInterval::Ns800, 800),
        (GuardInterval::Ns1600, 1_600),
        (GuardInterval::Ns3200, 3_200),
    ];
    for format in [Format::Ht, Format::Vht, Format::He] {
        for mcs in 0..=format.max_mcs() {
            for streams in [1, 2] {
                for width in [Width::Mhz20, Width::Mhz40, Width::Mhz80] {
                    for (interval, nanos) in intervals {
                        // Combinations that the standard does not define.
                        let Ok(mode) = Mode::new(format, mcs, streams, width, interval) else {
                            continue;
                        };
                        for bytes in [14, 76, 78, 1_000, 1_538, 1_542, 3_086, 7_998, 43_230, 65_534]
                        {
                            let time = timing.duration(mode, Bytes::new(bytes)).as_nanos();
                            let (name, mhz) = (format.word(), width.mhz());
                            println!("{name} {mcs} {streams} {mhz} {nanos} {bytes} {time}");
                        }
                    }
                }
            }
        }
    }
}

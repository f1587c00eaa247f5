//! Capture of the packets at both ends of every link of a live run, as a pcapng file
//! (draft-ietf-opsawg-pcapng). Each end is an interface, `LINK at HOST`. Packets sent by the host
//! are outbound; packets delivered by the link are inbound.

use lasthop_base::units::Instant;
use lasthop_sim::scenario::Scenario;
use lasthop_sim::sim::ids::Side;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};
use std::io::{self, Write};
use std::time::Duration;

/// Timestamp resolution: nanoseconds, in the encoding of the option if_tsresol.
const NANOSECONDS: u8 = 9;

/// A capture being written.
pub struct Capture<W: Write> {
    out: PcapNgWriter<W>,
    /// Wall-clock time at which the clock of the run was zero.
    origin: Duration,
}

/// Direction of a packet, in the encoding of the option epb_flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the link to the host.
    Inbound = 1,
    /// From the host to the link.
    Outbound = 2,
}

fn failed(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        error => io::Error::other(error),
    }
}

impl<W: Write> Capture<W> {
    /// Starts a capture of all links of `scenario`.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn new(out: W, scenario: &Scenario, origin: Duration) -> io::Result<Self> {
        let mut out = PcapNgWriter::new(out).map_err(failed)?;
        for link in scenario.links.iter() {
            for host in &link.between {
                let name = format!("{} at {host}", link.name);
                let block = InterfaceDescriptionBlock {
                    linktype: DataLink::RAW,
                    snaplen: 0,
                    options: vec![
                        InterfaceDescriptionOption::IfName(name.into()),
                        InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                    ],
                };
                out.write_pcapng_block(block).map_err(failed)?;
            }
        }
        Ok(Capture { out, origin })
    }

    /// Records a packet at the end `side` of link number `link`.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn packet(
        &mut self,
        at: Instant,
        (link, side): (usize, Side),
        way: Way,
        packet: &[u8],
    ) -> io::Result<()> {
        let block = EnhancedPacketBlock {
            interface_id: (2 * link + side as usize) as u32,
            timestamp: self.origin + Duration::from_nanos(at.as_nanos()),
            original_len: packet.len() as u32,
            data: packet.into(),
            options: vec![EnhancedPacketOption::Flags(way as u32)],
        };
        self.out.write_pcapng_block(block).map_err(failed).map(|_| ())
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.get_mut().flush()
    }
}

//! Recording of the input and output of the links of a live run, and its replay in virtual time.
//!
//! `docs/live.md` documents the format:
//!
//! ```text
//!   "lasthop recording 1\n"
//!   header: one line of JSON
//!   records, numbers least significant byte first:
//!     'A' arrival   | link u16 | side u8 | time u64 | length u32 | packet ...
//!     'D' delivery  | link u16 | side u8 | time u64 | length u32 | hash u64 of the packet (FNV-1a)
//!     'F' frame     | link u16 | side u8 | start u64 | end u64 | bits u64 | lost u8
//!     'C' change    | time u64 | length u32 | JSON text
//!     'E' end       | time u64
//! ```

use super::change::Change;
use super::network::Network;
use super::outbox::{Delivery, FrameFate};
use super::refusal::Refused;
use super::report::Reporter;
use lasthop_base::rng::Streams;
use lasthop_base::units::Instant;
use lasthop_link::channel::Airtime;
use lasthop_sim::scenario::Scenario;
use lasthop_sim::sim::ids::Side;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;

/// The first line of a recording.
const MAGIC: &str = "lasthop recording 1\n";

/// Maximum length of the header, in bytes.
const LONGEST_HEADER: u64 = 16 << 20;

/// Maximum duration of a replayed recording: 30 days. Periodic timers would take too long in a
/// longer one.
const LONGEST: Instant = Instant::from_nanos(30 * 86_400 * 1_000_000_000);

/// Header of a recording: all parameters that determine the behaviour of its links.
#[derive(Clone, Debug)]
pub struct Header {
    /// The scenario, fully resolved.
    pub scenario: Scenario,
    /// Folder to which the names of its files are relative.
    pub base: String,
    /// Seed and replication.
    pub streams: Streams,
    /// Requested maximum packet length.
    pub mtu: Option<u32>,
}

/// Error of a replay.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The file is not a recording.
    #[error("at byte {at}: found {found}; expected {allowed}")]
    Format {
        /// Offset of the error in bytes.
        at: u64,
        /// Value found.
        found: String,
        /// Values allowed.
        allowed: &'static str,
    },
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] lasthop_sim::scenario::ScenarioError),
    /// The links cannot be built.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// Writes a recording.
#[derive(Debug)]
pub struct Recorder<W: Write> {
    out: W,
}

impl<W: Write> Recorder<W> {
    /// Starts a recording.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn new(mut out: W, header: &Header) -> io::Result<Self> {
        out.write_all(MAGIC.as_bytes())?;
        let header = json!({
            "engine": lasthop_sim::run::ENGINE_VERSION,
            "scenario": header.scenario.to_json(),
            "base": header.base,
            "seed": header.streams.seed,
            "replication": header.streams.replication,
            "mtu": header.mtu,
            "links": header.scenario.links.iter().map(|link| &link.name).collect::<Vec<_>>(),
        });
        out.write_all(format!("{header}\n").as_bytes())?;
        Ok(Recorder { out })
    }

    fn place(&mut self, kind: u8, link: usize, side: Side) -> io::Result<()> {
        self.out.write_all(&[kind])?;
        self.out.write_all(&(link as u16).to_le_bytes())?;
        self.out.write_all(&[side as u8])
    }

    fn number(&mut self, number: u64) -> io::Result<()> {
        self.out.write_all(&number.to_le_bytes())
    }

    /// Records a packet sent by a host over a link.
    ///
    /// # Errors
    /// If the output cannot be written, now or in an earlier call.
    pub fn arrival(
        &mut self,
        at: Instant,
        link: usize,
        side: Side,
        packet: &[u8],
    ) -> io::Result<()> {
        self.place(b'A', link, side)?;
        self.number(at.as_nanos())?;
        self.out.write_all(&(packet.len() as u32).to_le_bytes())?;
        self.out.write_all(packet)
    }

    /// Records a delivered packet.
    ///
    /// # Errors
    /// As for [`Self::arrival`].
    pub fn delivery(&mut self, delivery: &Delivery) -> io::Result<()> {
        self.place(b'D', delivery.link, delivery.side)?;
        self.number(delivery.at.as_nanos())?;
        self.out.write_all(&(delivery.packet.len() as u32).to_le_bytes())?;
        self.number(hash(&delivery.packet))
    }

    /// Records a transmitted frame.
    ///
    /// # Errors
    /// As for [`Self::arrival`].
    pub fn frame(&mut self, frame: &FrameFate) -> io::Result<()> {
        self.place(b'F', frame.link, frame.side)?;
        let Airtime { start, end, bits } = frame.airtime;
        for number in [start.as_nanos(), end.as_nanos(), bits] {
            self.number(number)?;
        }
        self.out.write_all(&[frame.is_lost.into()])
    }

    /// Records a change of the links: the text that [`Change::read`] reads.
    ///
    /// # Errors
    /// As for [`Self::arrival`].
    pub fn change(&mut self, at: Instant, text: &str) -> io::Result<()> {
        self.out.write_all(b"C")?;
        self.number(at.as_nanos())?;
        self.out.write_all(&(text.len() as u32).to_le_bytes())?;
        self.out.write_all(text.as_bytes())
    }

    /// Records the end of the run.
    ///
    /// # Errors
    /// As for [`Self::arrival`].
    pub fn end(&mut self, at: Instant) -> io::Result<()> {
        self.out.write_all(b"E")?;
        self.number(at.as_nanos())?;
        self.out.flush()
    }
}

/// Returns the 64-bit FNV-1a hash.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A record without its packet.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Record {
    Arrival { at: Instant, link: usize, side: Side, packet: Vec<u8> },
    Output(Output),
    Change(Instant, String),
    End(Instant),
}

/// An output, for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Delivery { at: Instant, link: usize, side: Side, length: u32, hash: u64 },
    Frame(FrameFate),
}

impl From<&Delivery> for Output {
    fn from(delivery: &Delivery) -> Self {
        let Delivery { at, link, side, ref packet } = *delivery;
        Output::Delivery { at, link, side, length: packet.len() as u32, hash: hash(packet) }
    }
}

/// Reader of records; returns an error for invalid bytes.
struct Reader<R> {
    input: R,
    at: u64,
    links: usize,
}

impl<R: BufRead> Reader<R> {
    fn wrong<T>(
        &self,
        found: impl Into<String>,
        allowed: &'static str,
    ) -> Result<T, RecordingError> {
        Err(RecordingError::Format { at: self.at, found: found.into(), allowed })
    }

    /// Reads a line without its terminator.
    fn line(&mut self, most: u64) -> Result<String, RecordingError> {
        let mut line = Vec::new();
        let read = self.input.by_ref().take(most).read_until(b'\n', &mut line)?;
        let text = String::from_utf8(line)
            .ok()
            .and_then(|text| text.strip_suffix('\n').map(str::to_owned));
        let Some(text) = text else {
            return self.wrong("no line of text", "a recording of lasthop live");
        };
        self.at += read as u64;
        Ok(text)
    }

    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn u64(&mut self) -> io::Result<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn time(&mut self) -> Result<Instant, RecordingError> {
        let time = Instant::from_nanos(self.u64()?);
        if time > LONGEST {
            return self.wrong(format!("a time of {time:?}"), "up to 30 days");
        }
        Ok(time)
    }

    fn place(&mut self) -> Result<(usize, Side), RecordingError> {
        let link = usize::from(u16::from_le_bytes(self.bytes()?));
        let [side] = self.bytes()?;
        if link >= self.links {
            return self.wrong(format!("link {link}"), "a number below that of the links");
        }
        match side {
            0 => Ok((link, Side::Forward)),
            1 => Ok((link, Side::Reverse)),
            _ => self.wrong(format!("side {side}"), "0 or 1"),
        }
    }

    fn length(&mut self) -> Result<u32, RecordingError> {
        match u32::from_le_bytes(self.bytes()?) {
            length @ 0..=65_535 => Ok(length),
            length => self.wrong(format!("a packet of {length} B"), "up to 65535 B"),
        }
    }

    /// Returns the next record; `None` at the end of the file, or if the last record is truncated.
    fn next(&mut self) -> Result<Option<Record>, RecordingError> {
        match self.record() {
            Err(RecordingError::Read(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    fn record(&mut self) -> Result<Record, RecordingError> {
        let [kind] = self.bytes()?;
        match kind {
            b'A' => {
                let (link, side) = self.place()?;
                let at = self.time()?;
                let mut packet = vec![0; self.length()? as usize];
                self.input.read_exact(&mut packet)?;
                self.at += packet.len() as u64;
                Ok(Record::Arrival { at, link, side, packet })
            }
            b'D' => {
                let (link, side) = self.place()?;
                let (at, length, hash) = (self.time()?, self.length()?, self.u64()?);
                Ok(Record::Output(Output::Delivery { at, link, side, length, hash }))
            }
            b'F' => {
                let (link, side) = self.place()?;
                let airtime = Airtime { start: self.time()?, end: self.time()?, bits: self.u64()? };
                let is_lost = self.bytes()? != [0];
                Ok(Record::Output(Output::Frame(FrameFate { link, side, airtime, is_lost })))
            }
            b'C' => {
                let at = self.time()?;
                let length = u64::from(u32::from_le_bytes(self.bytes()?)).min(LONGEST_HEADER);
                let mut text = String::new();
                if self.input.by_ref().take(length).read_to_string(&mut text)? < length as usize {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
                self.at += length;
                Ok(Record::Change(at, text))
            }
            b'E' => Ok(Record::End(self.time()?)),
            other => self.wrong(format!("a record of kind {other:#04x}"), "A, D, F, C or E"),
        }
    }
}

/// Result of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// The scenario of the recording.
    pub scenario: Scenario,
    /// The links at the end of the replay.
    pub network: Network,
    /// Number of packets sent by hosts.
    pub arrivals: u64,
    /// Number of outputs that are identical in every byte and nanosecond.
    pub same: u64,
    /// The first output that differs, if any.
    pub difference: Option<String>,
    /// Whether the recording is complete. A killed run leaves an incomplete one.
    pub is_complete: bool,
}

fn header(line: &str, at: u64) -> Result<Header, RecordingError> {
    let wrong = |found: String| RecordingError::Format {
        at,
        found,
        allowed: "the header of a recording: scenario, base, seed, replication, mtu",
    };
    let value: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
    let number =
        |key: &str| value[key].as_u64().ok_or_else(|| wrong(format!("{key}: {}", value[key])));
    let base = value["base"].as_str().unwrap_or(".").to_owned();
    let document = Scenario::from_json_text(&value["scenario"].to_string(), Path::new(&base))?;
    let point = document.points()?.into_iter().next();
    let Some(point) = point else { return Err(wrong("no scenario".to_owned())) };
    let mtu = match &value["mtu"] {
        Value::Null => None,
        mtu => Some(
            mtu.as_u64()
                .and_then(|mtu| u32::try_from(mtu).ok())
                .ok_or_else(|| wrong(format!("mtu: {mtu}")))?,
        ),
    };
    let streams = Streams { seed: number("seed")?, replication: number("replication")? };
    Ok(Header { scenario: point.scenario, base, streams, mtu })
}

/// Replays the arrivals of a recording in virtual time and compares the outputs.
///
/// # Errors
/// If the input is not a recording, or its links cannot be built.
///
/// ```
/// use lasthop_live::recording::replay;
///
/// let error = replay("lasthop recording 2\n".as_bytes()).expect_err("another version");
/// assert!(error.to_string().contains("lasthop recording 1"), "{error}");
/// ```
pub fn replay(input: impl BufRead) -> Result<Replayed, RecordingError> {
    read(input, None)
}

/// Like [`replay`]; `tell` receives the messages of a live run about the state of the links, with
/// samples.
///
/// # Errors
/// As for [`replay`].
pub fn replay_with(
    input: impl BufRead,
    tell: &mut dyn FnMut(Value),
) -> Result<Replayed, RecordingError> {
    read(input, Some(tell))
}

/// Replays a recording and reports to `tell`, if any.
fn read(
    input: impl BufRead,
    mut tell: Option<&mut dyn FnMut(Value)>,
) -> Result<Replayed, RecordingError> {
    let mut reader = Reader { input, at: 0, links: 0 };
    if reader.line(MAGIC.len() as u64)? != MAGIC.trim_end() {
        return reader.wrong("another first line", "lasthop recording 1");
    }
    let line = reader.line(LONGEST_HEADER)?;
    let Header { scenario, streams, mtu, base } = header(&line, reader.at)?;
    let mut present = scenario.clone();
    let mut network = Network::new(&scenario, streams, mtu)?;
    network.keep_frames();
    reader.links = network.len();
    let mut replayed =
        Replayed { scenario, network, arrivals: 0, same: 0, difference: None, is_complete: false };
    // Frames and deliveries are compared separately; their relative order in the file may differ.
    let mut queues = [Compared::default(), Compared::default()];
    let mut last = Instant::ZERO;
    let mut reporter = Reporter::new(replayed.network.len(), true);
    while let Some(record) = reader.next()? {
        if let Some(tell) = &mut tell
            && let Record::Arrival { at, .. } | Record::Change(at, _) | Record::End(at) = record
        {
            replayed.report(at, &mut reporter, &mut queues, tell);
        }
        let network = &mut replayed.network;
        match record {
            Record::Arrival { at, link, side, packet } => {
                if at < network.now() {
                    return reader.wrong("an arrival before the last one", "arrivals in order");
                }
                network.input(at, link, side, packet);
                replayed.arrivals += 1;
            }
            Record::Output(output) => {
                if let Output::Delivery { at, .. } = output {
                    last = last.max(at);
                }
                queues[usize::from(matches!(output, Output::Frame(_)))].recorded.push_back(output);
            }
            Record::Change(at, text) => {
                if at < network.now() {
                    return reader.wrong("a change before the last arrival", "records in order");
                }
                let change = Change::read(&text, Path::new(&base), &present)?;
                network.change(at, &change, &mut present, streams)?;
                if let Some(tell) = &mut tell {
                    let value: Value = serde_json::from_str(&text).unwrap_or_default();
                    let (words, link) = (&value["text"], &value["link"]);
                    let time = at.as_secs_f64();
                    tell(json!({"kind": "change", "time": time, "text": words, "link": link}));
                }
            }
            Record::End(at) => {
                if at < network.now() {
                    return reader.wrong("an end before the last arrival", "the end at last");
                }
                network.advance(at);
                replayed.is_complete = true;
            }
        }
        replayed.compare(&mut queues);
    }
    if !replayed.is_complete {
        replayed.network.advance(last.max(replayed.network.now()));
        replayed.compare(&mut queues);
    }
    let now = replayed.network.now();
    if let Some(tell) = tell {
        for message in reporter.last(now, &mut replayed.network, &replayed.scenario) {
            tell(message);
        }
    }
    for Compared { recorded, replayed: again } in &queues {
        let left = recorded.front().map(|output| format!("recorded only: {output:?}"));
        let more = again.front().filter(|_| replayed.is_complete);
        let left = left.or(more.map(|output| format!("replayed only: {output:?}")));
        replayed.difference = replayed.difference.take().or(left);
    }
    Ok(replayed)
}

/// Outputs that are not yet compared.
#[derive(Default)]
struct Compared {
    recorded: VecDeque<Output>,
    replayed: VecDeque<Output>,
}

impl Replayed {
    /// Sends the reports that are due before `until`, each at its own time.
    fn report(
        &mut self,
        until: Instant,
        reporter: &mut Reporter,
        queues: &mut [Compared; 2],
        tell: &mut dyn FnMut(Value),
    ) {
        while reporter.next() < until {
            let at = reporter.next();
            if at > self.network.now() {
                self.network.advance(at);
                self.compare(queues);
            }
            while let Some(message) = reporter.poll(at, &mut self.network, &self.scenario) {
                tell(message);
            }
        }
    }

    /// Compares the outputs so far.
    fn compare(&mut self, [deliveries, frames]: &mut [Compared; 2]) {
        while let Some(delivery) = self.network.poll_delivery() {
            deliveries.replayed.push_back((&delivery).into());
        }
        frames.replayed.extend(self.network.drain_frames().map(Output::Frame));
        for Compared { recorded, replayed } in [deliveries, frames] {
            while let (Some(one), Some(other)) = (recorded.front(), replayed.front()) {
                if one == other {
                    self.same += 1;
                } else if self.difference.is_none() {
                    self.difference = Some(format!("recorded {one:?}, replayed {other:?}"));
                }
                recorded.pop_front();
                replayed.pop_front();
            }
        }
    }
}

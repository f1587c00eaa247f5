//! Replay of a recorded loss trace with one line per frame.
//!
//! Two formats. *Text*: each line is `0` or `ok` (received), `1` or `lost`; lines that start with
//! `#` are comments. *CSV*: the same four words in one column, which is selected by name (then the
//! first line contains the column names) or by number from 1. Cells may be enclosed in double
//! quotes. Blank lines are allowed only at the end: elsewhere they are more likely frames that the
//! recorder failed to write.
//!
//! The k-th frame sent is decided by the k-th line after the start. A recording is one sample path.
//! To vary replications, each starts at a random frame, given by one number from the stream `trace
//! start`. After the last line it continues at the first one. The start does not depend on the
//! protocol. With `start = 0` every replication begins with the first line.
//!
//! Not modelled: time (idle periods do not consume the trace), the length of frames, quoted line
//! breaks inside CSV cells.
//! breaks inside CSV cells.

use super::{Airtime, ErrorProcess};
use super::{ChannelError, ErrorKeys, HeaderRule};
use lasthop_base::rng::Streams;
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::files::{ALLOWED, quoted, read_text};
use lasthop_base::schema::keys::{
    Field, Key, Kind, Limits, Node, Read, Shape, Table, choice, table,
};
use lasthop_base::units::Probability;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The outcomes that a line may contain.
const OUTCOMES: &str = "0 or ok (received), 1 or lost";

/// Expected contents of a line, for error messages.
const LINE_ALLOWED: &str = "1 or lost for a lost frame, 0 or ok for a received one";

/// The reason why a text is not a loss trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line does not contain an outcome.
    #[error("line {line}: invalid outcome ({found}): expected {OUTCOMES}")]
    Outcome {
        /// Line number, from 1.
        line: usize,
        /// The contents of the line, or a description of them.
        found: String,
    },
    /// A CSV line has too few columns.
    #[error("line {line}: number of columns is {found}: expected at least {needed}")]
    TooFewColumns {
        /// Line number, from 1.
        line: usize,
        /// Number of columns in the line.
        found: usize,
        /// Number of columns needed.
        needed: usize,
    },
    /// A CSV cell has an unclosed quote, or characters after the closing quote.
    #[error("line {line}: misplaced double quote: expected cells quoted as a whole")]
    Quote {
        /// Line number, from 1.
        line: usize,
    },
    /// The header of a CSV file does not contain the column.
    #[error("line 1: unknown column `{wanted}`: expected {}", columns(found))]
    NoSuchColumn {
        /// Requested name.
        wanted: String,
        /// Names in the header.
        found: Vec<String>,
    },
    /// The header of a CSV file contains the column more than once.
    #[error("line 1: {count} columns `{wanted}`: expected only one with this name")]
    Ambiguous {
        /// Requested name.
        wanted: String,
        /// Number of columns with this name.
        count: usize,
    },
    /// Columns are numbered from 1.
    #[error("invalid column number `0`: expected 1 for the first column, and so on")]
    ColumnZero,
    /// The trace contains no frames.
    #[error("missing frames: expected at least one line with {OUTCOMES}")]
    Empty,
}

table! {
    /// Keys of a recorded trace.
    struct Keys {
        /// Name of a text file with one line per frame, 1 or lost for a lost frame and 0 or ok for
        /// a received one, relative to the scenario file. Lines that begin with # are comments;
        /// blank lines are allowed only at the end.
        file: String;
        /// Name of the column to read. The file is comma-separated and its first line contains the
        /// column names.
        column: Option<String>;
        /// Continuation after the last frame of the recording.
        at_end: TraceEnd = "repeat";
        /// Index of the frame at which a replication starts, 0 for the first; "random" is a
        /// different frame in each replication, equal for all protocols. Default: "random" if the
        /// recording repeats, otherwise 0.
        start: Option<TraceStart>;
        /// Probability that the header of a lost frame is readable, for receivers that read the
        /// headers of damaged packets. Without it, no headers are readable.
        readable_headers: Option<Probability>;
    }
}

/// Purpose of the stream from which the start is sampled.
const TRACE_START: &str = "trace start";

/// Keyword for a random start.
const RANDOM: &str = "random";

/// The frame of a recording at which a replication starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceStart {
    /// A different one in each replication.
    Random,
    /// The frame with this index, from 0.
    Frame(u32),
}

impl Field for TraceStart {
    const HAS_LIMITS: bool = true;
    const SHAPE: Shape = Shape::IntegerOr(RANDOM);
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        if node.value.as_str() == Some(RANDOM) {
            return Ok(TraceStart::Random);
        }
        u32::read(node, limits).map(TraceStart::Frame).map_err(|mut error| {
            error.allowed = format!("{}, or \"{RANDOM}\"", error.allowed);
            error
        })
    }
    fn write(&self) -> Value {
        match self {
            TraceStart::Random => RANDOM.into(),
            TraceStart::Frame(frame) => (*frame).into(),
        }
    }
}

choice! {
    /// Continuation after the end of a recording.
    pub enum TraceEnd {
        /// The recording is repeated from its first frame.
        Repeat = "repeat",
        /// No more losses.
        Clean = "clean",
    }
}

/// A recorded sequence of lost and received frames, read from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceKeys {
    /// File name as given in the scenario.
    pub file: PathBuf,
    /// Name of the column, if the file has several columns.
    pub column: Option<String>,
    /// Continuation after the last frame of the recording.
    pub at_end: TraceEnd,
    /// The frame at which a replication starts.
    pub start: TraceStart,
    /// Probability that the header of a lost frame is readable.
    pub readable_headers: Option<Probability>,
    /// Contents of the file.
    pub record: LossRecord,
}

impl Keys {
    /// Reads the recording.
    fn record(&self, node: &Node<'_>, path: &Path) -> Read<LossRecord> {
        let text = read_text(path).map_err(|error| {
            node.key_error(
                "file",
                format!("{:?}, which cannot be read ({error})", self.file),
                format!("{ALLOWED}, relative to {}", node.files.base_dir().display()),
            )
        })?;
        let record = match &self.column {
            None => LossRecord::parse_text(&text),
            Some(name) => LossRecord::parse_csv(&text, &CsvColumn::Named(name.clone())),
        };
        record.map_err(|error| self.refused(node, error))
    }

    /// Converts an error of the recording into an error of the key that caused it.
    fn refused(&self, node: &Node<'_>, error: TraceError) -> ScenarioError {
        let in_line = |found: String, line| format!("{found} in line {line} of {:?}", self.file);
        let (key, found, allowed) = match error {
            TraceError::NoSuchColumn { wanted, found } => {
                let name = format!("{wanted:?}, which is not a column of {:?}", self.file);
                ("column", name, columns(&found))
            }
            TraceError::Ambiguous { wanted, count } => {
                let found = format!("{wanted:?}, which names {count} columns of {:?}", self.file);
                ("column", found, "a name that only one column has".to_owned())
            }
            TraceError::Outcome { line, found } => {
                ("file", in_line(found, line), LINE_ALLOWED.to_owned())
            }
            TraceError::TooFewColumns { line, found, needed } => {
                let found = format!("{found} column{}", if found == 1 { "" } else { "s" });
                ("file", in_line(found, line), format!("at least {needed} columns"))
            }
            TraceError::Quote { line } => {
                let found = in_line("a misplaced double quote".to_owned(), line);
                ("file", found, "cells that are quoted as a whole".to_owned())
            }
            TraceError::Empty | TraceError::ColumnZero => {
                let found = format!("no frame in {:?}", self.file);
                ("file", found, format!("one line per frame: {LINE_ALLOWED}"))
            }
        };
        node.key_error(key, found, allowed)
    }
}

impl Kind for TraceKeys {
    const KIND: &'static str = "trace";
    const ABOUT: &'static str = "A recorded sequence of lost and received frames.";
}

impl Table for TraceKeys {
    const KEYS: &'static [Key] = Keys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        let keys = Keys::read(node)?;
        let part = format!("{:?}", keys.column);
        let record = node.files.read_once(&keys.file, &part, |path| keys.record(node, path))?;
        let Keys { file, column, at_end, start, readable_headers } = keys;
        let start = start.unwrap_or(match at_end {
            TraceEnd::Repeat => TraceStart::Random,
            TraceEnd::Clean => TraceStart::Frame(0),
        });
        match start {
            TraceStart::Random if at_end == TraceEnd::Clean => {
                let found = format!("\"{RANDOM}\" with at_end = \"clean\"");
                let allowed = "a frame of the recording, 0 for the first: frames before a random start \
                               would never be used";
                return Err(node.key_error("start", found, allowed));
            }
            TraceStart::Frame(frame) if frame as usize >= record.frames() => {
                let allowed = format!("up to {}, the last frame of {file:?}", record.frames() - 1);
                return Err(node.key_error("start", frame.to_string(), allowed));
            }
            _ => {}
        }
        Ok(TraceKeys { file: file.into(), column, at_end, start, readable_headers, record })
    }

    fn write(&self) -> Map<String, Value> {
        let keys = Keys {
            file: self.file.to_string_lossy().into_owned(),
            column: self.column.clone(),
            at_end: self.at_end,
            start: Some(self.start),
            readable_headers: self.readable_headers,
        };
        keys.write()
    }
}

impl ErrorKeys for TraceKeys {
    type Process = Trace;

    fn build(&self, streams: &Streams, component: &str) -> Result<Trace, ChannelError> {
        let start = match self.start {
            TraceStart::Frame(frame) => frame as usize,
            TraceStart::Random => {
                let uniform = streams.stream(component, TRACE_START).uniform();
                (uniform * self.record.frames() as f64) as usize
            }
        };
        Ok(Trace::new(self.record.clone(), self.at_end, start))
    }

    fn header(&self) -> Option<HeaderRule> {
        self.readable_headers.map(HeaderRule::Share)
    }

    fn contents(&self) -> Vec<u8> {
        self.record.outcomes().iter().map(|lost| u8::from(*lost)).collect()
    }
}

/// The column of a CSV file that contains the outcomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CsvColumn {
    /// The column with this name; the first line is the header.
    Named(String),
    /// The column with this number, from 1.
    Numbered {
        /// Number of the column, from 1.
        column: usize,
        /// Whether the first line is a header, which is skipped.
        header: bool,
    },
}

/// A recorded sequence of outcomes. Cheap to clone: replications share it.
///
/// ```
/// use lasthop_link::channel::{LossRecord, TraceError};
///
/// let record = LossRecord::parse_text("# recorded\n0\n1\nok\nlost\n")?;
/// assert_eq!(record.frames(), 4);
/// assert!(LossRecord::parse_text("maybe\n").is_err());
/// # Ok::<(), TraceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossRecord(Arc<[bool]>);

impl LossRecord {
    /// Creates a record from outcomes, `true` for a lost frame.
    pub fn new(lost: Vec<bool>) -> Result<Self, TraceError> {
        if lost.is_empty() { Err(TraceError::Empty) } else { Ok(LossRecord(lost.into())) }
    }

    /// Parses the text format.
    pub fn parse_text(text: &str) -> Result<Self, TraceError> {
        let lines = numbered_lines(text).filter(|(_, line)| !line.trim_start().starts_with('#'));
        Self::new(lines.map(|(line, text)| outcome(line, text)).collect::<Result<_, _>>()?)
    }

    /// Parses the CSV format.
    pub fn parse_csv(text: &str, column: &CsvColumn) -> Result<Self, TraceError> {
        let mut lines = numbered_lines(text);
        let index = match column {
            CsvColumn::Named(wanted) => {
                let header = match lines.next() {
                    Some((line, text)) => cells(line, text)?,
                    None => return Err(TraceError::Empty),
                };
                let count = header.iter().filter(|&name| name == wanted).count();
                if count > 1 {
                    return Err(TraceError::Ambiguous { wanted: wanted.clone(), count });
                }
                header.iter().position(|name| name == wanted).ok_or_else(|| {
                    TraceError::NoSuchColumn { wanted: wanted.clone(), found: header }
                })?
            }
            CsvColumn::Numbered { column, header } => {
                if *header {
                    lines.next();
                }
                column.checked_sub(1).ok_or(TraceError::ColumnZero)?
            }
        };
        let outcomes = lines.map(|(line, text)| {
            let cells = cells(line, text)?;
            let cell = cells.get(index).ok_or(TraceError::TooFewColumns {
                line,
                found: cells.len(),
                needed: index + 1,
            })?;
            outcome(line, cell)
        });
        Self::new(outcomes.collect::<Result<_, _>>()?)
    }

    /// The outcomes in order, true for a lost frame.
    pub fn outcomes(&self) -> &[bool] {
        &self.0
    }

    /// Number of frames.
    pub fn frames(&self) -> usize {
        self.0.len()
    }

    /// Number of lost frames.
    pub fn losses(&self) -> usize {
        self.0.iter().filter(|&&lost| lost).count()
    }
}

/// Lines with their numbers, without blank lines at the end.
fn numbered_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.trim_end().lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Describes the columns that can be requested: by name if the header contains names, otherwise by
/// number.
fn columns(header: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_- ()%/".contains(c);
    let is_name = |cell: &String| cell.len() <= 24 && cell.chars().all(is_plain);
    if header.len() > 1 && header.iter().all(is_name) {
        let names: String = header.join(", ").chars().take(200).collect();
        format!("one of the file's columns: {names}")
    } else {
        let names = "whose first line does not contain column names";
        format!("a column of the file, {names} ({} found, separated by commas)", header.len())
    }
}

fn outcome(line: usize, text: &str) -> Result<bool, TraceError> {
    match text.trim() {
        "0" | "ok" => Ok(false),
        "1" | "lost" => Ok(true),
        found => Err(TraceError::Outcome { line, found: quoted(found) }),
    }
}

/// Cells of one CSV line, trimmed, quotes removed.
fn cells(line: usize, text: &str) -> Result<Vec<String>, TraceError> {
    let (mut cells, mut rest) = (Vec::new(), text);
    loop {
        let after = if let Some(mut quoted) = rest.trim_start().strip_prefix('"') {
            let mut cell = String::new();
            loop {
                let end = quoted.find('"').ok_or(TraceError::Quote { line })?;
                cell.push_str(&quoted[..end]);
                quoted = &quoted[end + 1..];
                match quoted.strip_prefix('"') {
                    Some(more) => {
                        cell.push('"');
                        quoted = more;
                    }
                    None => break,
                }
            }
            cells.push(cell);
            quoted.trim_start()
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            cells.push(rest[..end].trim().to_owned());
            &rest[end..]
        };
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(cells),
            None => return Err(TraceError::Quote { line }),
        }
    }
}

/// Error process that replays a recorded trace.
#[derive(Clone, Debug)]
pub struct Trace {
    record: LossRecord,
    at_end: TraceEnd,
    position: usize,
}

impl Trace {
    /// Replays `record` from the frame with index `start`.
    pub fn new(record: LossRecord, at_end: TraceEnd, start: usize) -> Self {
        debug_assert!(start < record.frames(), "a trace starts at one of its frames");
        Trace { record, at_end, position: start }
    }
}

impl ErrorProcess for Trace {
    #[inline]
    fn is_lost(&mut self, _airtime: Airtime) -> bool {
        if self.position == self.record.0.len() {
            match self.at_end {
                TraceEnd::Repeat => self.position = 0,
                TraceEnd::Clean => return false,
            }
        }
        let lost = self.record.0[self.position];
        self.position += 1;
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::super::Channel;
    use super::super::testing::*;
    use super::*;
    use lasthop_base::units::Duration;

    fn replay(text: &str, at_end: TraceEnd, frames: usize) -> Vec<bool> {
        let record = LossRecord::parse_text(text).expect("a valid trace");
        let mut channel = Channel::Trace(Trace::new(record, at_end, 0));
        let airtimes = back_to_back(8, Duration::from_millis(1)).take(frames);
        airtimes.map(|airtime| channel.is_lost(airtime)).collect()
    }

    #[test]
    fn frames_meet_lines_in_order() {
        let text = "# recorded in a lift\n0\nlost\r\nok\n 1\n\n";
        assert_eq!(replay(text, TraceEnd::Repeat, 6), [false, true, false, true, false, true]);
        assert_eq!(replay(text, TraceEnd::Clean, 6)[4..], [false, false]);
    }

    #[test]
    fn replications_start_at_frames_of_their_own() {
        let outcomes: Vec<bool> = (0..1000u32).map(|frame| frame.is_power_of_two()).collect();
        let keys = TraceKeys {
            file: PathBuf::new(),
            column: None,
            at_end: TraceEnd::Repeat,
            start: TraceStart::Random,
            readable_headers: None,
            record: LossRecord::new(outcomes.clone()).expect("frames"),
        };
        let start = |streams: &Streams, component: &str| {
            let mut trace = keys.build(streams, component).expect("a process");
            let start = trace.position;
            let airtimes = back_to_back(8, Duration::from_millis(1)).take(1500);
            // The whole recording, and then again from the start.
            for (index, airtime) in airtimes.enumerate() {
                assert_eq!(trace.is_lost(airtime), outcomes[(start + index) % 1000]);
            }
            start
        };
        let starts: Vec<usize> = (0..400)
            .map(|replication| start(&Streams { seed: 1, replication }, "link.air.forward"))
            .collect();
        let first = Streams { seed: 1, replication: 0 };
        assert_eq!(start(&first, "link.air.forward"), starts[0]);
        assert_ne!(start(&first, "link.air.reverse"), starts[0]);
        // Uniform: the count in each quarter is binomial; four tests below 1e-6 each.
        for quarter in 0..4 {
            let within = starts.iter().filter(|&&start| start / 250 == quarter).count();
            assert_binomial(within as u64, 400, 0.25);
        }
    }

    #[test]
    fn columns_are_found_by_name_or_number() {
        let text = "time,\"was \"\"it\"\" lost\",size\n0.1,0,8\n0.2, \"1\" ,8\n";
        let named = CsvColumn::Named("was \"it\" lost".to_owned());
        let numbered = CsvColumn::Numbered { column: 2, header: true };
        for column in [named, numbered] {
            let record = LossRecord::parse_csv(text, &column).expect("a valid trace");
            assert_eq!((record.frames(), record.losses()), (2, 1));
        }
    }

    #[test]
    fn errors_say_where_and_what_is_allowed() {
        let text = |text| LossRecord::parse_text(text).unwrap_err().to_string();
        assert_eq!(
            text("0\nmaybe\n"),
            "line 2: invalid outcome (text that is not a number): expected 0 or ok (received), 1 or lost"
        );
        assert!(text("0\n\n1\n").starts_with("line 2: invalid outcome (\"\")"));
        assert!(text("# nothing\n\n").starts_with("missing frames"));
        let csv = |text, column| {
            LossRecord::parse_csv(text, &column).expect_err("an invalid trace").to_string()
        };
        let number = |column| CsvColumn::Numbered { column, header: false };
        assert_eq!(
            csv("0,1\n0\n", number(2)),
            "line 2: number of columns is 1: expected at least 2"
        );
        assert!(csv("0\n", number(0)).contains("column number `0`"));
        assert!(csv("\"0\n", number(1)).contains("line 1: misplaced"));
        assert!(csv("\"0\"1\n", number(1)).contains("line 1: misplaced"));
        assert!(csv("", CsvColumn::Named("lost".to_owned())).contains("missing frames"));
        let error = csv("time,size\n", CsvColumn::Named("lost".to_owned()));
        let expected = "one of the file's columns: time, size";
        assert_eq!(error, format!("line 1: unknown column `lost`: expected {expected}"));
        for secret in ["root:*:19000:0:99999:7:::\n", "key\n", "a:b, c\n"] {
            let error = csv(secret, CsvColumn::Named("lost".to_owned()));
            assert!(error.contains("does not contain column names"), "{error}");
            assert!(!error.contains(secret.trim()), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,60}(\n[01,\" a]{0,9}){0,5}", column in 0usize..4) {
            let _ = LossRecord::parse_text(&text);
            let _ = LossRecord::parse_csv(&text, &CsvColumn::Numbered { column, header: false });
            let _ = LossRecord::parse_csv(&text, &CsvColumn::Named("a".to_owned()));
        }
    }
}

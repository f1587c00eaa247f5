//! Recordings of values that change with time: text files that keys of several components name.

use super::files::{ALLOWED, quoted, read_text};
use super::keys::{Field, Key, Kind, Limits, Map, Node, Read, Table, Value};
use crate::units::Duration;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

/// Start times in nanoseconds, each with the value that applies from then.
pub type StepList<T> = Arc<[(u64, T)]>;

/// Line number (0 for the whole file), value found, values allowed.
pub type Refused = (usize, String, &'static str);

/// Maximum duration of a recording: one year.
const LONGEST_SECONDS: f64 = 366.0 * 86_400.0;

const MILLISECOND_ALLOWED: &str =
    "a whole number of milliseconds a line, not before that of the line before";
/// Returns the lines that are neither empty nor comments, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Reads lines of a time in seconds and a value, separated by a comma; `value` parses the value.
/// The first time is 0, and times increase. The first line may contain column names.
///
/// # Errors
/// For the first invalid line; `allowed` describes valid lines.
pub fn steps<T>(
    text: &str,
    value: impl Fn(&str) -> Option<T>,
    allowed: &'static str,
) -> Result<StepList<T>, Refused> {
    let mut steps: Vec<(u64, T)> = Vec::new();
    for (index, (number, line)) in lines(text).enumerate() {
        let pair = line.split_once(',').map(|(time, value)| (time.trim(), value.trim()));
        if index == 0 && pair.is_some_and(|(time, _)| time.parse::<f64>().is_err()) {
            continue;
        }
        let step = pair.and_then(|(time, text)| {
            let time = time.parse::<f64>().ok().filter(|s| (0.0..=LONGEST_SECONDS).contains(s))?;
            Some(((time * 1e9).round() as u64, value(text)?))
        });
        let follows = |&(at, _): &(u64, T)| match steps.last() {
            None => at == 0,
            Some(&(last, _)) => at > last,
        };
        steps.push(step.filter(follows).ok_or((number, quoted(line), allowed))?);
    }
    if steps.is_empty() { Err((0, "no line".to_owned(), allowed)) } else { Ok(steps.into()) }
}

/// Reads delivery opportunities in the format of mahimahi's link shell: one line per opportunity,
/// with its time in whole milliseconds from the start. Several lines may have the same time. The
/// list repeats after the last time, which is above 0. Returns times in nanoseconds.
///
/// # Errors
/// For the first invalid line.
pub fn opportunities(text: &str) -> Result<Arc<[u64]>, Refused> {
    let mut times: Vec<u64> = Vec::new();
    for (number, line) in lines(text) {
        let time = line.parse::<u64>().ok().filter(|&ms| ms as f64 <= LONGEST_SECONDS * 1e3);
        let time = time.map(|ms| ms * 1_000_000).filter(|time| times.last() <= Some(time));
        times.push(time.ok_or((number, quoted(line), MILLISECOND_ALLOWED))?);
    }
    match times.last() {
        Some(&last) if last > 0 => Ok(times.into()),
        _ => Err((0, "no opportunity after 0 ms".to_owned(), MILLISECOND_ALLOWED)),
    }
}

/// Reads the recording that the key `file` of `node` names with `parse`. `part` names the requested
/// part.
///
/// # Errors
/// If the file cannot be read or `parse` rejects it.
pub fn read<T: Clone + Send + Sync + 'static>(
    node: &Node<'_>,
    file: &str,
    part: &str,
    parse: impl FnOnce(&str) -> Result<T, Refused>,
) -> Read<T> {
    let read = |path: &Path| {
        let text = read_text(path).map_err(|error| {
            let found = format!("{file:?}, which cannot be read ({error})");
            let base = node.files.base_dir().display();
            node.key_error("file", found, format!("{ALLOWED}, relative to {base}"))
        })?;
        parse(&text).map_err(|(line, found, allowed)| {
            let place = if line == 0 { String::new() } else { format!(" in line {line}") };
            node.key_error("file", format!("{found}{place} of {file:?}"), allowed)
        })
    };
    node.files.read_once(file, part, read)
}

/// Returns the period after which a list repeats.
///
/// # Errors
/// If the key `repeat` of `node` is not after the last step.
pub fn check_repeat<T>(steps: &[(u64, T)], repeat: Option<Duration>, node: &Node<'_>) -> Read<()> {
    let last = steps.last().map_or(0, |&(at, _)| at);
    match repeat {
        Some(repeat) if repeat.as_nanos() <= last => {
            let allowed = format!("more than the last time, {}", Duration::from_nanos(last));
            Err(node.key_error("repeat", format!("\"{repeat}\""), allowed))
        }
        _ => Ok(()),
    }
}

/// Returns the long-run mean of a quantity in whole units; `unit` converts a value. Without
/// `repeat`, the last value applies forever.
pub fn mean<T: Copy>(steps: &[(u64, T)], repeat: Option<Duration>, unit: impl Fn(T) -> u64) -> u64 {
    let Some(period) = repeat.map(Duration::as_nanos) else {
        return steps.last().map_or(0, |&(_, value)| unit(value));
    };
    let ends = steps.iter().skip(1).map(|&(begin, _)| begin).chain([period]);
    let parts = steps.iter().zip(ends);
    let parts =
        parts.map(|(&(begin, value), end)| u128::from(end - begin) * u128::from(unit(value)));
    (parts.sum::<u128>() / u128::from(period)) as u64
}

/// A quantity of which a recording lists the values: see [`Recorded`].
pub trait Quantity: Clone + Debug + PartialEq {
    /// A value.
    type Value: Clone + Debug + PartialEq + Send + Sync + 'static;
    /// Name.
    const NAME: &'static str;
    /// Description of the recording.
    const ABOUT: &'static str;
    /// Description of the key `file`.
    const FILE: &'static str;
    /// Description of the key `repeat`.
    const REPEAT: &'static str;
    /// Description of a valid line.
    const ALLOWED: &'static str;

    /// Returns the value of a line, if it is valid.
    fn parse(text: &str) -> Option<Self::Value>;
}

/// Keys of a recording of lines with a time and a value of the quantity `Q` from this time onwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded<Q: Quantity> {
    /// File name as given in the scenario.
    pub file: String,
    /// Time after which the recording is repeated.
    pub repeat: Option<Duration>,
    /// Contents of the file.
    pub record: StepList<Q::Value>,
}

impl<Q: Quantity> Kind for Recorded<Q> {
    const KIND: &'static str = "trace";
    const ABOUT: &'static str = Q::ABOUT;
}

impl<Q: Quantity> Table for Recorded<Q> {
    const KEYS: &'static [Key] = &[
        Key {
            name: "file",
            was: None,
            about: Q::FILE,
            default: None,
            optional: false,
            limits: Limits::ANY,
            shape: String::SHAPE,
        },
        Key {
            name: "repeat",
            was: None,
            about: Q::REPEAT,
            default: None,
            optional: true,
            limits: Limits::POSITIVE,
            shape: Option::<Duration>::SHAPE,
        },
    ];

    fn read(node: &Node<'_>) -> Read<Self> {
        let [file, repeat] = Self::KEYS else { unreachable!("two keys") };
        let (file, repeat) = (node.field::<String>(file)?, node.field(repeat)?);
        let record = read(node, &file, Q::NAME, |text| steps(text, Q::parse, Q::ALLOWED))?;
        check_repeat(&record, repeat, node)?;
        Ok(Recorded { file, repeat, record })
    }

    fn write(&self) -> Map<String, Value> {
        let repeat = self.repeat.map(|repeat| ("repeat".to_owned(), repeat.write()));
        [("file".to_owned(), self.file.write())].into_iter().chain(repeat).collect()
    }
}

//! Calls that read and write: their arguments and progress.

use super::ScriptError;
use super::calls::{Returned, number_of};
use super::constants::{errno, number, value};
use super::player::Player;
use lasthop_base::units::Instant;
use lasthop_tcp::host::{Socket, WriteOptions};

/// Arguments of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub bytes: u64,
    /// Minimum number of bytes for which it waits.
    pub least: u64,
    /// Whether it leaves the data unread (`MSG_PEEK`).
    pub peeks: bool,
    /// Expected number of unread bytes afterwards, if the script specifies it (`TCP_CM_INQ`).
    pub left: Option<u64>,
}

/// Arguments and progress of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writing {
    pub bytes: u64,
    pub done: u64,
    pub options: WriteOptions,
    /// Whether it has found the buffer full.
    pub has_waited: bool,
    /// Whether its memory is used without a copy (`MSG_ZEROCOPY`).
    pub is_uncopied: bool,
}

impl Writing {
    pub fn of(bytes: u64, options: WriteOptions) -> Self {
        Writing { bytes, done: 0, options, has_waited: false, is_uncopied: false }
    }
}

impl Player {
    /// Parses the arguments of a call that reads.
    pub(super) fn reading(
        &self,
        line: u32,
        name: &str,
        arguments: &[String],
    ) -> Result<Reading, ScriptError> {
        let argument = |at: usize| arguments.get(at).map_or("", |text| text.as_str());
        let (bytes, bits) = match name {
            "readv" => (Some(vector_bytes(argument(1))), ""),
            "recvmsg" => (Some(vector_bytes(argument(1))), argument(2)),
            "read" => (number_of(argument(2)), ""),
            _ => (number_of(argument(2)), argument(3)),
        };
        let Some(bytes) = bytes else { return Self::missing(line, "a read of unknown length") };
        let bits = value(if bits.is_empty() { "0" } else { bits }).unwrap_or(0);
        let has = |name: &str| number(name).is_some_and(|bit| bits & bit != 0);
        if has("MSG_OOB") {
            return Self::missing(line, "urgent data");
        }
        let least = if has("MSG_WAITALL") { bytes } else { self.ends.least_read().min(bytes) };
        let inquiry = argument(1).split_once("TCP_CM_INQ").map(|(_, rest)| rest);
        let left = inquiry.and_then(|rest| rest.split_once("cmsg_data=")).map(|(_, data)| data);
        let left = left.and_then(|data| number_of(data.split(['}', ',']).next()?));
        Ok(Reading { bytes, least, peeks: has("MSG_PEEK"), left })
    }

    /// Parses the arguments of a call that writes.
    pub(super) fn writing(
        &self,
        line: u32,
        name: &str,
        arguments: &[String],
    ) -> Result<Writing, ScriptError> {
        let argument = |at: usize| arguments.get(at).map_or("", |text| text.as_str());
        let (bytes, bits) = match name {
            "sendmsg" => (Some(vector_bytes(argument(1))), argument(2)),
            "writev" => (Some(vector_bytes(argument(1))), ""),
            "write" => (number_of(argument(2)), ""),
            _ => (number_of(argument(2)), argument(3)),
        };
        let Some(bytes) = bytes else { return Self::missing(line, "a write of unknown length") };
        let bits = value(if bits.is_empty() { "0" } else { bits }).unwrap_or(0);
        let has = |name: &str| number(name).is_some_and(|bit| bits & bit != 0);
        for (name, what) in [("MSG_FASTOPEN", "Fast Open"), ("MSG_OOB", "urgent data")] {
            if has(name) {
                return Self::missing(line, what);
            }
        }
        let options = WriteOptions { more: has("MSG_MORE"), end_of_record: has("MSG_EOR") };
        let is_uncopied = has("MSG_ZEROCOPY") && self.ends.options.get("SO_ZEROCOPY") == Some(&1);
        Ok(Writing { is_uncopied, ..Writing::of(bytes, options) })
    }
}

/// Writes as much as the send buffer has room for; the rest waits.
pub(super) fn write(socket: &mut Socket, now: Instant, writing: &mut Writing) -> Returned {
    let left = writing.bytes - writing.done;
    match socket.write_some(now, left, writing.options, !writing.has_waited) {
        Ok(bytes) => writing.done += bytes,
        Err(_) if writing.done > 0 => return Returned::Value(writing.done as i64),
        Err(error) => return Returned::Error(errno(error).0),
    }
    if writing.done == writing.bytes {
        return Returned::Value(writing.bytes as i64);
    }
    writing.has_waited = true;
    Returned::Waits
}

/// Total bytes of a vector: `[{..., 40}, {..., 20}]`, alone or within a message.
fn vector_bytes(text: &str) -> u64 {
    let inside = text.split_once("msg_iov").map_or(text, |(_, rest)| rest);
    let pieces = inside.split("...,").skip(1);
    pieces.filter_map(|piece| number_of(piece.split('}').next().unwrap_or_default())).sum()
}

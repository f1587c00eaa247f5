//! Requests of the command line to a driver, a JSON object per line.
//!
//! ```text
//!   {"interrupt": true}                       SIGINT to the last program
//!   {"kill": true}                            end all programs immediately
//!   {"id": 1, "text": ..., "change": {...}}   change the links, see `Change::read`
//! ```
//!
//! The end of the pipe ends all programs, with SIGTERM first.

use super::{Context, Fault};
use serde_json::Value;
use std::os::fd::OwnedFd;

/// Maximum length of a request, in bytes.
const LONGEST: usize = 16 << 20;

/// Length of a read, in bytes.
const CHUNK: usize = 65_536;

/// A request of the command line.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Interrupt the last program.
    Interrupt,
    /// End all programs immediately.
    Kill,
    /// Change the links.
    Change {
        /// Number of the request, for the response.
        id: u64,
        /// The change in the words of the user.
        text: String,
        /// The text that `Change::read` reads.
        change: String,
    },
}

/// The pipe from the command line.
#[derive(Debug)]
pub struct Control {
    pipe: OwnedFd,
    received: Vec<u8>,
    is_closed: bool,
}

impl Control {
    /// Reads requests from `pipe`.
    pub fn new(pipe: OwnedFd) -> Result<Self, Fault> {
        rustix::fs::fcntl_setfl(&pipe, rustix::fs::OFlags::NONBLOCK).context("the control pipe")?;
        Ok(Control { pipe, received: Vec::new(), is_closed: false })
    }

    /// Returns the pipe.
    pub fn pipe(&self) -> &OwnedFd {
        &self.pipe
    }

    /// Returns `true` if the command line has closed the pipe.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns the requests that have arrived. Other lines are ignored.
    pub fn read(&mut self) -> Vec<Command> {
        let mut buffer = [0; CHUNK];
        loop {
            match rustix::io::read(&self.pipe, &mut buffer[..]) {
                Ok(0) => self.is_closed = true,
                Ok(length) if self.received.len() + length <= LONGEST => {
                    self.received.extend_from_slice(&buffer[..length]);
                    continue;
                }
                Ok(_) => self.received.clear(),
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => {}
                Err(_) => self.is_closed = true,
            }
            break;
        }
        let end = self.received.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.received.drain(..end).collect();
        lines.split(|&byte| byte == b'\n').filter_map(command).collect()
    }
}

fn command(line: &[u8]) -> Option<Command> {
    let value: Value = serde_json::from_slice(line).ok()?;
    if value["kill"] == true {
        return Some(Command::Kill);
    }
    if value["interrupt"] == true {
        return Some(Command::Interrupt);
    }
    Some(Command::Change {
        id: value["id"].as_u64()?,
        text: value["text"].as_str()?.to_owned(),
        change: value["change"].is_object().then(|| value["change"].to_string())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn requests_are_lines() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let mut control = Control::new(reader.into()).expect("a pipe");
        assert_eq!(control.read(), []);
        writer.write_all(b"{\"kill\": true}\nno JSON\n{\"interrupt\": ").unwrap();
        assert_eq!(control.read(), [Command::Kill]);
        writer.write_all(b"true}\n{\"id\": 3, \"text\": \"t\", \"change\": {}}\n").unwrap();
        let change = Command::Change { id: 3, text: "t".to_owned(), change: "{}".to_owned() };
        assert_eq!(control.read(), [Command::Interrupt, change]);
        assert!(!control.is_closed());
        drop(writer);
        assert_eq!(control.read(), []);
        assert!(control.is_closed());
    }
}

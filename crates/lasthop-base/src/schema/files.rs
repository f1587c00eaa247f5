//! Files that a scenario names. Each file is read once per document, for all points of a sweep.
//!
//! A scenario may come from an untrusted source. Only regular files of limited size are read, so
//! that a device, a pipe or an endless file neither blocks the reader nor exhausts memory. Messages
//! quote numbers of a file but no other text, which may be confidential.

use std::any::Any;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum size of a text file that a scenario names, in bytes.
const LARGEST: u64 = 256_000_000;

/// Requirements on such a file, for messages.
pub const ALLOWED: &str = "a regular text file of at most 256 MB";

/// Maximum number of characters of a file that a message quotes.
const LONGEST_QUOTE: usize = 40;

/// Opens a regular file for reading.
///
/// # Errors
/// If the file cannot be opened, or is a device, a pipe, a socket or a folder.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Prevents a pipe without a writer from blocking.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("no regular file")) }
}

/// Reads a regular text file of at most 256 MB.
///
/// # Errors
/// If the file cannot be read, is not a regular file, is too large, or is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    read_at_most(path, LARGEST)
}

fn read_at_most(path: &Path, largest: u64) -> io::Result<String> {
    let file = open_regular(path)?;
    let mut text = String::new();
    // One more byte detects files above the limit whose reported size is 0, as in /proc.
    let size = if file.metadata()?.len() > largest {
        largest + 1
    } else {
        file.take(largest + 1).read_to_string(&mut text)? as u64
    };
    if size > largest {
        return Err(io::Error::other(format!("larger than {} MB", largest / 1_000_000)));
    }
    Ok(text)
}

/// Quotes a part of a file for a message: in quotation marks if it consists of numbers, otherwise
/// by a general description.
pub fn quoted(text: &str) -> String {
    let is_plausible = |c: char| c.is_ascii_digit() || "+-.eE, ".contains(c);
    if text.len() <= LONGEST_QUOTE && text.chars().all(is_plausible) {
        format!("{text:?}")
    } else {
        "text that is not a number".to_owned()
    }
}

/// Directory and cached contents of the files of a scenario.
#[derive(Debug)]
pub struct Files {
    base_dir: PathBuf,
    /// By the name of the file and the part of it that is requested.
    contents: Mutex<HashMap<(String, String), Arc<dyn Any + Send + Sync>>>,
}

/// Files are equal if they resolve equal names to equal files.
impl PartialEq for Files {
    fn eq(&self, other: &Self) -> bool {
        self.base_dir == other.base_dir
    }
}

impl Files {
    /// Creates a cache of files whose names are relative to `base_dir`.
    pub fn new(base_dir: &Path) -> Self {
        Files { base_dir: base_dir.to_owned(), contents: Mutex::default() }
    }

    /// Returns the directory to which file names are relative.
    pub fn base_dir(&self) -> &Path {
        &self.base_dir
    }

    /// Returns the result of `read` for the path of a file, and caches it if `read` succeeds.
    /// `part` names the requested part of a file that contains several.
    pub fn read_once<T, E>(
        &self,
        file: &str,
        part: &str,
        read: impl FnOnce(&Path) -> Result<T, E>,
    ) -> Result<T, E>
    where
        T: Clone + Send + Sync + 'static,
    {
        // A panic cannot leave the map inconsistent.
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (file.to_owned(), part.to_owned());
        if let Some(known) = contents.get(&key).and_then(|known| known.downcast_ref::<T>()) {
            return Ok(known.clone());
        }
        let content = read(&self.base_dir.join(file))?;
        contents.insert(key, Arc::new(content.clone()));
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_limited_size_are_read() {
        let folder = std::env::temp_dir().join(format!("lasthop-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("file");
        std::fs::write(&file, "12345").expect("a file");
        assert_eq!(read_at_most(&file, 5).expect("a regular file"), "12345");
        let refusal = |path: &Path, largest| read_at_most(path, largest).unwrap_err().to_string();
        assert_eq!(refusal(&file, 4), "larger than 0 MB");
        assert_eq!(refusal(&folder, 5), "no regular file");
        #[cfg(unix)]
        for device in ["/dev/zero", "/dev/random", "/dev/null"] {
            assert_eq!(refusal(Path::new(device), 5), "no regular file");
        }
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            // The pipe has no writer: a blocking open would never return.
            let pipe = folder.join("pipe");
            mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
            assert_eq!(refusal(&pipe, 5), "no regular file");
        }
        std::fs::remove_dir_all(&folder).expect("own folder");
    }

    #[test]
    fn messages_repeat_numbers_only() {
        for number in ["", "2", "1,3000000", "-0.5e3, 7"] {
            assert_eq!(quoted(number), format!("{number:?}"));
        }
        for other in ["root:*:19000:0:99999:7:::", "hunter2", "0x10", &"1".repeat(41)] {
            assert_eq!(quoted(other), "text that is not a number");
        }
    }

    #[test]
    fn a_file_is_read_once_for_each_part_and_again_after_an_error() {
        let files = Files::new(Path::new("/base"));
        let mut reads = Vec::new();
        let mut read = |file: &str, part: &str, result: Result<u32, ()>| {
            files.read_once(file, part, |path| {
                reads.push(path.to_owned());
                result
            })
        };
        assert_eq!(read("a", "", Err(())), Err(()));
        assert_eq!(read("a", "", Ok(1)), Ok(1));
        assert_eq!(read("a", "", Ok(2)), Ok(1));
        assert_eq!(read("a", "column", Ok(3)), Ok(3));
        assert_eq!(read("b", "", Ok(4)), Ok(4));
        assert_eq!(reads, ["/base/a", "/base/a", "/base/a", "/base/b"].map(PathBuf::from));
    }
}

//! The files that a scenario names. Each is read once for a document, however many points it has.
//!
//! A scenario may be somebody else's: only regular files of a limited size are read, so that a device,
//! a pipe or an endless file neither blocks nor exhausts memory. Messages repeat numbers of a file, not
//! its text, which may be secret.

use std::any::Any;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum size of a text file that a scenario names.
const LARGEST: u64 = 256_000_000;

/// What such a file must be.
pub const ALLOWED: &str = "a regular text file of at most 256 MB";

/// Longest piece of a file that a message repeats.
const LONGEST_QUOTE: usize = 40;

/// Opens a regular file for reading.
///
/// # Errors
/// If it cannot be opened, or if it is a device, a pipe, a socket or a folder.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // A pipe without a writer does not block.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("no regular file")) }
}

/// The text of a regular file of at most 256 MB.
///
/// # Errors
/// If it cannot be read, is not a regular file, is too large, or is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    read_at_most(path, LARGEST)
}

fn read_at_most(path: &Path, largest: u64) -> io::Result<String> {
    let file = open_regular(path)?;
    let mut text = String::new();
    // One byte more shows that there is more. The size that the system tells may be 0, as in /proc.
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

/// A piece of a file as a message repeats it: in quotation marks if it consists of numbers, as a
/// recording should, else in general words.
pub fn quoted(text: &str) -> String {
    let is_plausible = |c: char| c.is_ascii_digit() || "+-.eE, ".contains(c);
    if text.len() <= LONGEST_QUOTE && text.chars().all(is_plausible) {
        format!("{text:?}")
    } else {
        "text that is no number".to_owned()
    }
}

/// Where files stand, and what has been read from them.
#[derive(Debug)]
pub struct Files {
    base_dir: PathBuf,
    /// By name of the file and the part of it that was wanted.
    contents: Mutex<HashMap<(String, String), Arc<dyn Any + Send + Sync>>>,
}

/// Equal files are those that equal names stand for.
impl PartialEq for Files {
    fn eq(&self, other: &Self) -> bool {
        self.base_dir == other.base_dir
    }
}

impl Files {
    /// Files whose names are relative to `base_dir`.
    pub fn new(base_dir: &Path) -> Self {
        Files { base_dir: base_dir.to_owned(), contents: Mutex::default() }
    }

    /// What names of files are relative to.
    pub fn base_dir(&self) -> &Path {
        &self.base_dir
    }

    /// What `read` makes of a file, from its path; kept if it succeeds. `part`: what is wanted of
    /// the file, where it holds several things.
    pub fn read_once<T, E>(
        &self,
        file: &str,
        part: &str,
        read: impl FnOnce(&Path) -> Result<T, E>,
    ) -> Result<T, E>
    where
        T: Clone + Send + Sync + 'static,
    {
        // The map is whole whenever the lock is free.
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
            // Nobody writes to this pipe: a blocking open would last for ever.
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
            assert_eq!(quoted(other), "text that is no number");
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

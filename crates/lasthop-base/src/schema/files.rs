//! The files that a scenario names. Each is read once for a document, however many points it has.

use std::any::Any;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

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

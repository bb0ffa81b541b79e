//! The files that a configuration is read from.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::Hasher as _;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use siphasher::sip::SipHasher13;

use super::ConfigCaps;

/// Reads the files that a configuration names, each once, within its caps.
#[derive(Debug)]
pub(crate) struct Files {
    caps: ConfigCaps,
    /// The total size of all files in bytes.
    bytes: usize,
    read: HashMap<PathBuf, Content>,
    /// Whether no file is read.
    is_alone: bool,
}

/// The content of a file, or the reason why there is none.
pub(crate) type Content = Result<Arc<[u8]>, String>;

impl Files {
    /// Makes a value without read files; the main file has `bytes`.
    pub(super) fn new(caps: ConfigCaps, bytes: usize) -> Self {
        Self { caps, bytes, read: HashMap::new(), is_alone: false }
    }

    /// Makes a value that reads no file.
    pub(super) fn none(caps: ConfigCaps, bytes: usize) -> Self {
        Self { is_alone: true, ..Self::new(caps, bytes) }
    }

    /// Returns whether no file and no variable is read.
    pub(super) const fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Makes a value with files whose content is already known.
    #[cfg(feature = "watch")]
    pub(crate) fn known(caps: ConfigCaps, bytes: usize, read: HashMap<PathBuf, Content>) -> Self {
        Self { read, ..Self::new(caps, bytes) }
    }

    /// Returns the content of a file.
    pub(super) fn get(&mut self, path: &Path) -> Content {
        if let Some(content) = self.read.get(path) {
            return content.clone();
        }
        if self.is_alone {
            return Err(
                "the text is read without other files: write their content into it".to_owned()
            );
        }
        let left = self.caps.max_bytes.saturating_sub(self.bytes);
        let content = read(path, left);
        if let Ok(bytes) = &content {
            self.bytes += bytes.len();
        }
        self.read.insert(path.to_owned(), content.clone());
        content
    }

    /// Returns the contents of the files that were asked for.
    pub(super) const fn contents(&self) -> &HashMap<PathBuf, Content> {
        &self.read
    }

    /// Returns the paths of the files that were asked for.
    pub(super) fn into_paths(self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = self.read.into_keys().collect();
        paths.sort();
        paths
    }
}

/// Identifies the content of a config file and of the files that it names. Equal contents have equal digests in all
/// processes.
pub(crate) fn digest(file: &[u8], others: &HashMap<PathBuf, Content>) -> u64 {
    let mut others: Vec<_> = others.iter().collect();
    others.sort_unstable();
    // Where the files are may differ from machine to machine. The config file has their names.
    let contents = others.into_iter().map(|(_, content)| content.as_deref().unwrap_or_default());
    let mut hasher = SipHasher13::new();
    for content in std::iter::once(file).chain(contents) {
        hasher.write(&content.len().to_le_bytes());
        hasher.write(content);
    }
    hasher.finish()
}

/// Reads a regular file of at most `max` bytes.
pub(crate) fn read(path: &Path, max: usize) -> Content {
    let bytes = read_up_to(path, max).map_err(|error| error.to_string())?;
    if bytes.len() > max {
        return Err(format!(
            "with it the configuration has more than {max} bytes more than it may have: raise the \
             maximum with --config-max-bytes, or in code with `ConfigCaps`"
        ));
    }
    Ok(bytes.into())
}

/// Reads a regular file. If it has more than `max` bytes, reads one byte more than that.
pub(crate) fn read_up_to(path: &Path, max: usize) -> io::Result<Vec<u8>> {
    // Reading anything else, such as a pipe, could block.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(super::one_more(max)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

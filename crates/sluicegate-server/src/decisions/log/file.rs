//! The file of the decision log, which may be moved, removed or full.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memchr::memchr_iter;

/// The file to which lines are appended, or standard output.
#[derive(Debug)]
pub(super) struct LogFile {
    /// Path of the file; `None` for standard output.
    path: Option<PathBuf>,
    /// `None` while the file can't be opened.
    file: Option<File>,
    /// Whether the file ends within a line.
    is_torn: bool,
    checked: Option<Instant>,
}

/// The result of writing lines.
#[derive(Debug)]
pub(super) struct Written {
    /// Number of lines that are in the file.
    pub(super) lines: u64,
    /// Number of lines that aren't.
    pub(super) lost: u64,
    pub(super) error: Option<io::Error>,
}

impl LogFile {
    /// Time between two looks at the path.
    const LOOK: Duration = Duration::from_secs(1);

    /// Opens a file, or standard output for the path `-`.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let is_stdout = super::is_stdout(path);
        let path = (!is_stdout).then(|| path.to_owned());
        let mut file = Self { path, file: None, is_torn: false, checked: None };
        if is_stdout {
            file.file = Some(File::from(io::stdout().as_fd().try_clone_to_owned()?));
        } else {
            file.reopen()?;
        }
        Ok(file)
    }

    /// Opens the file again. Standard output stays.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        self.file = None;
        // The keys in it may be personal data.
        let file = OpenOptions::new().append(true).create(true).mode(0o640).open(path)?;
        self.is_torn = ends_within_a_line(path, &file.metadata()?);
        self.file = Some(file);
        Ok(())
    }

    /// Opens the file again if its path has another file, or none. Looks at most once a second.
    pub(super) fn follow(&mut self, now: Instant) -> io::Result<()> {
        let is_due =
            self.checked.is_none_or(|last| now.saturating_duration_since(last) >= Self::LOOK);
        let Some(path) = self.path.as_ref().filter(|_| is_due) else { return Ok(()) };
        self.checked = Some(now);
        let identity = |about: Metadata| (about.dev(), about.ino());
        let own = self.file.as_ref().and_then(|file| file.metadata().ok()).map(identity);
        let there = path.metadata().ok().map(identity);
        if own.is_some() && own == there { Ok(()) } else { self.reopen() }
    }

    /// Appends whole lines. After a failure the rest of a line may be in the file, so that the next line begins with a
    /// line break.
    pub(super) fn write(&mut self, lines: &[u8]) -> Written {
        let none = |error| Written { lines: 0, lost: count_lines(lines), error: Some(error) };
        let Some(file) = &mut self.file else {
            return none(io::Error::from(io::ErrorKind::NotFound));
        };
        if self.is_torn {
            match file.write(b"\n") {
                Ok(1) => self.is_torn = false,
                Ok(_) => return none(io::Error::from(io::ErrorKind::WriteZero)),
                Err(error) => return none(error),
            }
        }
        let ((written, rest), error) = write_up_to_a_failure(file, lines);
        self.is_torn = written.last().is_some_and(|last| *last != b'\n');
        Written { lines: count_lines(written), lost: count_lines(rest), error }
    }
}

/// Writes as much as possible, and returns that, the rest and the failure.
fn write_up_to_a_failure<'l>(
    file: &mut File,
    lines: &'l [u8],
) -> ((&'l [u8], &'l [u8]), Option<io::Error>) {
    let mut rest = lines;
    let error = loop {
        if rest.is_empty() {
            break None;
        }
        match file.write(rest) {
            Ok(0) => break Some(io::Error::from(io::ErrorKind::WriteZero)),
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Some(error),
        }
    };
    (lines.split_at(lines.len() - rest.len()), error)
}

fn count_lines(bytes: &[u8]) -> u64 {
    super::count(memchr_iter(b'\n', bytes).count())
}

/// Returns `true` if a file's last line isn't whole: a process ended while it wrote.
fn ends_within_a_line(path: &Path, about: &Metadata) -> bool {
    let last = || -> io::Result<u8> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        Ok(last[0])
    };
    about.is_file() && about.len() > 0 && last().is_ok_and(|last| last != b'\n')
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_moved_file_is_replaced_at_the_next_look() {
        let folder = tempfile::tempdir().unwrap();
        let [path, moved] = ["log", "log.1"].map(|name| folder.path().join(name));
        let start = tokio::time::Instant::now().into_std();
        let mut log = LogFile::open(&path).unwrap();
        assert_eq!(log.write(b"1\n2\n").lines, 2);
        log.follow(start).unwrap();
        fs::rename(&path, &moved).unwrap();
        log.follow(start + Duration::from_millis(999)).unwrap();
        log.write(b"3\n");
        log.follow(start + Duration::from_secs(1)).unwrap();
        log.write(b"4\n");
        assert_eq!(fs::read_to_string(&moved).unwrap(), "1\n2\n3\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "4\n");
    }

    #[test]
    fn without_its_folder_lines_are_lost_until_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/log");
        let start = tokio::time::Instant::now().into_std();
        assert!(LogFile::open(&path).is_err());
        fs::create_dir(folder.path().join("logs")).unwrap();
        let mut log = LogFile::open(&path).unwrap();
        fs::remove_dir_all(folder.path().join("logs")).unwrap();
        assert!(log.follow(start).is_err());
        let written = log.write(b"1\n2\n");
        assert_eq!((written.lines, written.lost, written.error.is_some()), (0, 2, true));
        fs::create_dir(folder.path().join("logs")).unwrap();
        log.follow(start + Duration::from_secs(1)).unwrap();
        assert_eq!(log.write(b"3\n").lines, 1);
        assert_eq!(fs::read_to_string(&path).unwrap(), "3\n");
    }

    #[test]
    fn half_a_line_ends_before_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "1\n{\"ti").unwrap();
        LogFile::open(&path).unwrap().write(b"2\n");
        LogFile::open(&path).unwrap().write(b"3\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n{\"ti\n2\n3\n");
    }

    #[test]
    fn a_full_disk_loses_lines_and_nothing_else() {
        let mut log = LogFile::open(Path::new("/dev/full")).unwrap();
        let written = log.write(b"1\n2\n");
        assert_eq!((written.lines, written.lost), (0, 2));
        assert_eq!(written.error.unwrap().kind(), io::ErrorKind::StorageFull);
    }
}

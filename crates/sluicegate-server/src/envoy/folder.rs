//! The files of a folder with rules.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use sluicegate_envoy::incumbent::Rules;

/// A folder whose files are loaded together, or a single file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folder<'p> {
    pub(super) path: &'p Path,
    /// Whether names that begin with a dot are left out.
    pub(super) ignores_dotfiles: bool,
}

/// The name and the content of a file.
type Content = (String, Vec<u8>);

impl Folder<'_> {
    /// Reads all files, in the order of their names.
    ///
    /// # Errors
    /// Returns a message that names the file or folder that can't be read.
    pub(super) fn read(self) -> Result<Vec<Content>, String> {
        let read = |path: PathBuf| {
            let content = content(&path).map_err(|error| failure(&path, &error))?;
            Ok((path.display().to_string(), content))
        };
        self.files()?.into_iter().map(read).collect()
    }

    /// Returns the paths of all files, also of those in folders in it, in the order of their names.
    ///
    /// A symbolic link to a file counts as the file. One to a folder is left out, so that a folder that Kubernetes
    /// mounts isn't read twice.
    ///
    /// # Errors
    /// Returns a message that names the file or folder that can't be read.
    pub(super) fn files(self) -> Result<Vec<PathBuf>, String> {
        let about = self.path.metadata().map_err(|error| failure(self.path, &error))?;
        if !about.is_dir() {
            return Ok(vec![self.path.to_owned()]);
        }
        let mut files = Vec::new();
        // Deepest last, so that names are in order.
        let mut open = vec![self.path.to_owned()];
        while let Some(path) = open.pop() {
            let about = path.symlink_metadata().map_err(|error| failure(&path, &error))?;
            if about.is_dir() || path == self.path {
                let mut inside: Vec<_> = fs::read_dir(&path)
                    .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
                    .map_err(|error: io::Error| failure(&path, &error))?;
                inside.sort_unstable_by(|one, other| other.cmp(one));
                inside.retain(|path| !(self.ignores_dotfiles && is_dotfile(path)));
                open.extend(inside);
            } else if path.metadata().map_err(|error| failure(&path, &error))?.is_file() {
                files.push(path);
            }
        }
        Ok(files)
    }
}

fn failure(path: &Path, error: &io::Error) -> String {
    format!("{}: can't be read: {error}", path.display())
}

fn is_dotfile(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Reads a file, at most one byte more than all files may have: that byte shows that it is too large.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(Rules::MAX_BYTES as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_read_once_in_order_and_through_links() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        // As Kubernetes mounts a map of files.
        fs::create_dir_all(root.join("..2026/deep")).unwrap();
        symlink("..2026", root.join("..data")).unwrap();
        for name in ["b.yaml", "deep/c.yaml"] {
            fs::write(root.join("..2026").join(name), name).unwrap();
        }
        symlink("..data/b.yaml", root.join("b.yaml")).unwrap();
        fs::write(root.join("a.yaml"), "a").unwrap();
        let names = |ignores_dotfiles| {
            let read = Folder { path: root, ignores_dotfiles }.read().unwrap();
            let name = |(name, _): &Content| name.rsplit('/').next().unwrap().to_owned();
            read.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(names(true), ["a.yaml", "b.yaml"]);
        assert_eq!(names(false), ["b.yaml", "c.yaml", "a.yaml", "b.yaml"]);
        let one = Folder { path: &root.join("b.yaml"), ignores_dotfiles: true }.read().unwrap();
        assert_eq!(one[0].1, b"b.yaml");
        let error = Folder { path: &root.join("x"), ignores_dotfiles: true }.read().unwrap_err();
        assert!(error.contains("x: can't be read"), "{error}");
        // The folder itself may be a link, which is swapped for a new one.
        symlink(root, temp.path().join("current")).unwrap();
        let current = temp.path().join("current");
        let read = Folder { path: &current, ignores_dotfiles: true }.read().unwrap();
        assert_eq!(read.len(), 2);
    }
}

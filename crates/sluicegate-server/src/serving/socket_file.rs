//! The file of a Unix socket.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use sluicegate::config::SocketMode;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::UnixStream;

/// The file of a Unix socket that this process has made. It is removed when dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and number of the file. Another process may have replaced it.
    identity: (u64, u64),
}

impl SocketFile {
    /// Makes a socket that accepts connections at a path. Replaces the file of a process that has ended.
    ///
    /// # Errors
    /// Returns an error if a process listens there, another kind of file is there, or the system refuses the socket.
    pub(super) async fn bind(
        path: &Path,
        mode: Option<SocketMode>,
    ) -> io::Result<(UnixListener, Self)> {
        let address = SockAddr::unix(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        if let Some(mode) = mode {
            // Linux makes the file with at most these rights, so it never has more. Other systems ignore them.
            let _ = fchmod(&socket, Mode::from_raw_mode(mode.bits().into()));
        }
        match socket.bind(&address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                remove_stale(path).await?;
                socket.bind(&address)?;
            }
            bound => bound?,
        }
        let about = fs::symlink_metadata(path)?;
        let file = Self { path: path.to_owned(), identity: (about.dev(), about.ino()) };
        if let Some(mode) = mode {
            // The umask may have removed some of them.
            fs::set_permissions(path, Permissions::from_mode(mode.bits().into()))?;
        }
        socket.listen(1024)?;
        socket.set_nonblocking(true)?;
        Ok((socket.into(), file))
    }

    /// Removes the file, so that no client connects any more.
    pub(super) fn remove(&self) {
        let is_own = fs::symlink_metadata(&self.path)
            .is_ok_and(|about| (about.dev(), about.ino()) == self.identity);
        if is_own {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes the file of a socket if no process accepts connections there.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let in_use = |why| Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return in_use("a file that isn't a socket is there, so remove it");
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        _ => in_use("a running process listens there, so stop it first"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn a_socket_has_its_rights_and_ends_with_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        for (text, bits) in [("?mode=660", Some(0o660)), ("?mode=777", Some(0o777)), ("", None)] {
            let address = format!("unix:{}{text}", path.display()).parse().unwrap();
            let sluicegate::config::ListenAddress::Unix { path, mode } = address else { panic!() };
            let (listener, file) = SocketFile::bind(&path, mode).await.unwrap();
            if let Some(bits) = bits {
                assert_eq!(mode_of(&path), bits);
            }
            let error = SocketFile::bind(&path, mode).await.unwrap_err();
            assert!(error.to_string().contains("a running process listens there"), "{error}");
            drop((listener, file));
            assert!(!path.exists());
        }
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "its process has ended without removing it");
        let (listener, file) = SocketFile::bind(&path, None).await.unwrap();
        // Another process replaces the file, which must stay.
        fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop((listener, file));
        assert!(path.exists());
        drop(other);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "notes").unwrap();
        let error = SocketFile::bind(&path, None).await.unwrap_err();
        assert!(error.to_string().contains("isn't a socket"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "notes");
        let folder = folder.path().join("none/a.sock");
        assert_eq!(
            SocketFile::bind(&folder, None).await.unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}

//! A client that speaks Redis' protocol, and shows answers as they are.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Long enough for a busy machine; only a service that hangs reaches it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection in Redis' protocol.
pub(crate) struct RespClient {
    pub(crate) stream: BufReader<TcpStream>,
}

/// Returns a command as clients send it.
pub(crate) fn command(words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    let bulks: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{bulks}", words.len())
}

impl RespClient {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Sends bytes, valid or not.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a command, and returns its answer.
    pub(crate) fn ask(&mut self, words: &str) -> String {
        self.send(command(words));
        self.answer()
    }

    /// Returns the next answer: its lines, with spaces between them.
    pub(crate) fn answer(&mut self) -> String {
        let mut lines = Vec::new();
        self.read(&mut lines);
        lines.join(" ")
    }

    fn read(&mut self, lines: &mut Vec<String>) {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let line = line.strip_suffix("\r\n").unwrap_or_else(|| panic!("no line: {line:?}"));
        let count = || line[1..].parse::<usize>().unwrap_or(0);
        let values = match line.as_bytes()[0] {
            b'*' => count(),
            b'%' => 2 * count(),
            b'$' if line != "$-1" => {
                let mut text = vec![0; count() + 2];
                self.stream.read_exact(&mut text).unwrap();
                text.truncate(count());
                return lines.push(String::from_utf8(text).unwrap());
            }
            _ => 0,
        };
        lines.push(line.to_owned());
        (0..values).for_each(|_| self.read(lines));
    }

    /// Closes the sending side.
    pub(crate) fn finish_sending(&self) {
        self.stream.get_ref().shutdown(Shutdown::Write).unwrap();
    }

    /// Returns all that the service sends until it closes the connection.
    pub(crate) fn rest(mut self) -> String {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("it isn't closed: {error}"),
        }
        String::from_utf8(rest).unwrap()
    }
}

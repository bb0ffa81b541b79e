//! Finds commands in the bytes of a connection.

use std::ops::Range;

use crate::arguments::Arguments;
use crate::inline;
use crate::number::integer;
use crate::protocol_error::ProtocolError;

/// Finds commands in the bytes that a client sends: arrays of bulk strings, or lines of words.
///
/// It remembers the parts of a command that hasn't arrived completely, so no byte is read twice. It allocates only for
/// the positions of arguments, and reuses that memory. All sizes are checked before their bytes arrive.
#[derive(Debug, Default)]
pub struct Parser {
    /// The parts of the current command that have arrived.
    ranges: Vec<Range<usize>>,
    /// The number of all its parts; `None` before that is known.
    count: Option<usize>,
    /// The number of bytes that are read.
    position: usize,
}

impl Parser {
    /// Maximum number of a command's arguments, with its name.
    pub const MAX_ARGUMENTS: usize = 1_024;
    /// Maximum length of an argument, in bytes.
    pub const MAX_ARGUMENT: usize = 64 * 1_024;
    /// Maximum length of a command, in bytes.
    pub const MAX_COMMAND: usize = 128 * 1_024;
    /// Maximum length of a command on a line, in bytes.
    pub const MAX_LINE: usize = 16 * 1_024;

    /// Returns the next command and its length in bytes; `None` if it isn't complete.
    ///
    /// The input begins with that command. If it isn't complete, the next call has the same bytes and more.
    ///
    /// # Errors
    /// Returns an error for bytes that aren't a command, and for one that is too long.
    ///
    /// ```
    /// use sluicegate_resp::Parser;
    ///
    /// let mut parser = Parser::default();
    /// let input = b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\nPING\r\n";
    /// assert!(parser.next(&input[..20])?.is_none());
    /// let (echo, length) = parser.next(input)?.unwrap();
    /// assert_eq!(echo.get(1), Some(&b"hi"[..]));
    /// let (ping, _) = parser.next(&input[length..])?.unwrap();
    /// assert_eq!((ping.len(), ping.get(0)), (1, Some(&b"PING"[..])));
    /// # Ok::<(), sluicegate_resp::ProtocolError>(())
    /// ```
    pub fn next<'i, 'p>(
        &'p mut self,
        input: &'i [u8],
    ) -> Result<Option<(Arguments<'i, 'p>, usize)>, ProtocolError> {
        if self.position == 0 {
            self.ranges.clear();
            self.count = None;
        }
        let is_whole = match input.first() {
            None => false,
            Some(b'*') => self.array(input)?,
            Some(_) => self.line(input)?,
        };
        if !is_whole {
            return Ok(None);
        }
        let length = std::mem::take(&mut self.position);
        Ok(Some((Arguments::new(input, &self.ranges), length)))
    }

    /// Reads parts of an array. Returns `true` if all have arrived.
    fn array(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        let count = match self.count {
            Some(count) => count,
            None => {
                let Some((count, end)) = header(input, 1, "invalid multibulk length")? else {
                    return Ok(false);
                };
                let most = Self::MAX_ARGUMENTS;
                let count = usize::try_from(count.max(0)).ok().filter(|count| *count <= most);
                let count = count.ok_or_else(|| ProtocolError::new("invalid multibulk length"))?;
                (self.count, self.position) = (Some(count), end);
                count
            }
        };
        while self.ranges.len() < count {
            let Some(range) = self.bulk(input)? else { return Ok(false) };
            self.position = range.end + 2;
            self.ranges.push(range);
        }
        Ok(true)
    }

    /// Returns the place of the next bulk string if it has arrived.
    fn bulk(&self, input: &[u8]) -> Result<Option<Range<usize>>, ProtocolError> {
        match input.get(self.position) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(other) => {
                let other = other.escape_ascii();
                return Err(ProtocolError::new(format!("expected '$', got '{other}'")));
            }
        }
        let Some((length, start)) = header(input, self.position + 1, "invalid bulk length")? else {
            return Ok(None);
        };
        let length = usize::try_from(length).ok().filter(|length| *length <= Self::MAX_ARGUMENT);
        let length = length.ok_or_else(|| ProtocolError::new("invalid bulk length"))?;
        let end = start + length;
        if end + 2 > Self::MAX_COMMAND {
            return Err(ProtocolError::new(format!(
                "the command has more than {} bytes",
                Self::MAX_COMMAND
            )));
        }
        let Some(after) = input.get(end..).filter(|after| after.len() >= 2) else {
            return Ok(None);
        };
        if !after.starts_with(b"\r\n") {
            return Err(ProtocolError::new("expected CRLF after a bulk string"));
        }
        Ok(Some(start..end))
    }

    /// Reads a command on a line. Returns `true` if all of it has arrived.
    fn line(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        let most = input.len().min(Self::MAX_LINE);
        let Some(end) = input[..most].iter().position(|byte| *byte == b'\n') else {
            if most == Self::MAX_LINE {
                return Err(ProtocolError::new("too big inline request"));
            }
            return Ok(false);
        };
        inline::split(&input[..end], Self::MAX_ARGUMENTS, &mut self.ranges)?;
        // A page of a browser could send a form to this port, and commands in its body.
        if self.ranges.last().is_some_and(|word| input[word.clone()].starts_with(b"HTTP/")) {
            return Err(ProtocolError::new("this is HTTP: send it to the port for HTTP"));
        }
        self.position = end + 1;
        Ok(true)
    }
}

/// Reads the number that ends at the next CRLF. Returns it, and the place after that; `None` if it isn't complete.
fn header(
    input: &[u8],
    start: usize,
    problem: &'static str,
) -> Result<Option<(i64, usize)>, ProtocolError> {
    /// The length of the longest number, with its sign and CRLF.
    const MOST: usize = 22;
    let rest = &input[start.min(input.len())..];
    let rest = &rest[..rest.len().min(MOST)];
    let Some(length) = rest.iter().position(|byte| *byte == b'\r') else {
        if rest.len() == MOST || rest.iter().any(|byte| !matches!(byte, b'-' | b'0'..=b'9')) {
            return Err(ProtocolError::new(problem));
        }
        return Ok(None);
    };
    let number = integer(&rest[..length]).ok_or_else(|| ProtocolError::new(problem))?;
    match input.get(start + length + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((number, start + length + 2))),
        Some(_) => Err(ProtocolError::new(problem)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses all commands, from pieces of at most `size` bytes.
    fn parse(bytes: &[u8], size: usize) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
        let (mut parser, mut commands) = (Parser::default(), Vec::new());
        let (mut start, mut end) = (0, 0);
        while end < bytes.len() {
            end = (end + size).min(bytes.len());
            loop {
                match parser.next(&bytes[start..end]) {
                    Err(error) => return (commands, Some(error)),
                    Ok(None) => break,
                    Ok(Some((arguments, length))) => {
                        commands.push(arguments.from(0).map(<[u8]>::to_vec).collect());
                        start += length;
                    }
                }
            }
        }
        (commands, None)
    }

    fn problem(bytes: &[u8]) -> String {
        let whole = parse(bytes, usize::MAX).1;
        assert_eq!(parse(bytes, 1).1, whole, "{}", bytes.escape_ascii());
        whole.map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn commands_are_the_same_however_they_arrive() {
        let input = b"*2\r\n$4\r\nECHO\r\n$5\r\na\r\n\0b\r\nping \"x y\"\r\n*0\r\n\r\n*-1\r\n\nQUIT\n*1\r\n$0\r\n\r\n";
        let (whole, error) = parse(input, usize::MAX);
        assert_eq!(error, None);
        let command = |parts: &[&[u8]]| parts.iter().map(|it| it.to_vec()).collect::<Vec<_>>();
        let expected = [
            command(&[b"ECHO", b"a\r\n\0b"]),
            command(&[b"ping", b"x y"]),
            command(&[]),
            command(&[]),
            command(&[]),
            command(&[]),
            command(&[b"QUIT"]),
            command(&[b""]),
        ];
        assert_eq!(whole, expected);
        for size in 1..input.len() {
            assert_eq!(parse(input, size), (whole.clone(), None), "{size}");
        }
        for cut in 0..input.len() {
            let (commands, error) = parse(&input[..cut], usize::MAX);
            assert!(error.is_none() && whole.starts_with(&commands), "{cut}");
        }
    }

    #[test]
    fn bytes_that_are_no_command_have_redis_words() {
        for (bytes, words) in [
            (&b"*1\r\n*1\r\n$4\r\nPING\r\n"[..], "expected '$', got '*'"),
            (b"*1\r\n:1\r\n", "expected '$', got ':'"),
            (b"*x\r\n", "invalid multibulk length"),
            (b"*1025\r\n", "invalid multibulk length"),
            (b"*9223372036854775808\r\n", "invalid multibulk length"),
            (b"*99999999999999999999999999", "invalid multibulk length"),
            (b"*1\rx", "invalid multibulk length"),
            (b"*1\nPING", "invalid multibulk length"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$65537\r\n", "invalid bulk length"),
            (b"*1\r\n$536870913\r\n", "invalid bulk length"),
            (b"*1\r\n$4x", "invalid bulk length"),
            (b"*1\r\n$\r\n", "invalid bulk length"),
            (b"*1\r\n$2\r\nabc\r\n", "expected CRLF after a bulk string"),
            (b"ECHO \"a\n", "unbalanced quotes"),
            (b"POST / HTTP/1.1\r\n", "this is HTTP"),
            (b"$3\r\nabc\r\nGET / HTTP/1.0\n", "this is HTTP"),
        ] {
            let problem = problem(bytes);
            assert!(problem.contains(words), "{}: {problem}", bytes.escape_ascii());
        }
        assert!(problem(&vec![b'x'; Parser::MAX_LINE]).contains("too big inline request"));
    }

    #[test]
    fn a_command_is_refused_before_more_bytes_arrive_than_it_may_have() {
        let mut input = b"*3\r\n".to_vec();
        for _ in 0..2 {
            input.extend(format!("${}\r\n", Parser::MAX_ARGUMENT - 16).bytes());
            input.resize(input.len() + Parser::MAX_ARGUMENT - 16, b'x');
            input.extend(b"\r\n");
        }
        assert!(parse(&input, usize::MAX).1.is_none());
        input.extend(b"$65536\r\n");
        let error = parse(&input, usize::MAX).1.unwrap().to_string();
        assert!(error.contains("more than 131072 bytes"), "{error}");
    }
}

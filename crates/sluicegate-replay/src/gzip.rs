//! Unpacks gzip files.

use std::io::{self, BufRead, ErrorKind, Read};

use flate2::bufread::MultiGzDecoder;

/// First bytes of a gzip file.
pub(crate) const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The members of a gzip file, unpacked one after the other.
///
/// If data follows the last member, the decoder alone would report a bad or truncated header, as if
/// the file were truncated. This reader reports trailing data instead. It also reports trailing
/// data for a truncated later header, because the decoder doesn't distinguish the two.
pub(crate) struct Gzip<R> {
    members: MultiGzDecoder<R>,
    /// Whether the first member has a header. If so, a bad header is a later member's.
    is_begun: bool,
}

impl<R: BufRead> Gzip<R> {
    pub(crate) fn new(input: R) -> Self {
        let members = MultiGzDecoder::new(input);
        let is_begun = members.header().is_some();
        Self { members, is_begun }
    }
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.members.read(buffer).map_err(|error| {
            let is_header = self.is_begun && self.members.header().is_none();
            match error.kind() {
                ErrorKind::InvalidInput | ErrorKind::UnexpectedEof if is_header => {
                    io::Error::new(ErrorKind::InvalidData, "there is something after the gzip data")
                }
                _ => error,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write as _};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// A reader that is interrupted before each byte.
    struct Nervous<'a>(&'a [u8], bool);

    impl Read for Nervous<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(ErrorKind::Interrupted.into());
            }
            (&mut self.0).take(1).read(buffer)
        }
    }

    fn member(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn unpacked(packed: impl Read) -> io::Result<String> {
        let mut plain = String::new();
        Gzip::new(BufReader::new(packed)).read_to_string(&mut plain)?;
        Ok(plain)
    }

    #[test]
    fn an_interruption_between_the_members_of_a_gzip_file_loses_none() {
        let packed = [member("a\nb"), member(""), member("c\n")].concat();
        assert_eq!(unpacked(Nervous(&packed, false)).unwrap(), "a\nbc\n");
    }

    #[test]
    fn what_follows_the_last_member_is_told_apart_from_a_file_that_is_cut() {
        const FOLLOWS: &str = "there is something after the gzip data";
        for members in [member("a"), member(""), [member("a"), member("b")].concat()] {
            for more in [&b"\n"[..], b"\0\0\0", b"a whole line\n", b"\x1f\x8b\x08\xff no header"] {
                let error = unpacked(&[&members, more].concat()[..]).unwrap_err();
                assert_eq!(error.to_string(), FOLLOWS, "{}", more.escape_ascii());
            }
        }
        let whole = member("a line\n");
        for end in 1..whole.len() {
            let error = unpacked(&whole[..end]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{end}");
            assert_ne!(error.to_string(), FOLLOWS, "{end}");
        }
        let mut damaged = whole.clone();
        damaged[whole.len() - 8] ^= 1;
        assert_ne!(unpacked(&damaged[..]).unwrap_err().to_string(), FOLLOWS);
    }
}

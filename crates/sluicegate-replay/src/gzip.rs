//! A gzip file, unpacked.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// What every member begins with.
pub(crate) const MAGIC: [u8; 2] = [BEGIN, 0x8b];

const BEGIN: u8 = 0x1f;

/// The members of a gzip file, unpacked one after the other.
pub(crate) struct Gzip<R> {
    /// `None` at the end.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Gzip<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { member: Some(GzDecoder::new(input)) }
    }
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(mut input) = self.member.take().map(GzDecoder::into_inner) else {
                break;
            };
            self.member = match first_byte(&mut input)? {
                None => None,
                Some(BEGIN) => Some(GzDecoder::new(input)),
                Some(_) => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "there is something after the gzip data",
                    ));
                }
            };
        }
        Ok(0)
    }
}

/// What comes next, which stays there; `None` at the end.
fn first_byte(input: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        match input.fill_buf() {
            // Nobody could go on from here.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            buffered => return Ok(buffered?.first().copied()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write as _};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// Is interrupted before each byte.
    struct Nervous<'a>(&'a [u8], bool);

    impl Read for Nervous<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            (&mut self.0).take(1).read(buffer)
        }
    }

    #[test]
    fn an_interruption_between_the_members_of_a_gzip_file_loses_none() {
        let member = |text: &str| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        let packed = [member("a\nb"), member(""), member("c\n")].concat();
        let input = BufReader::new(Nervous(&packed, false));
        let mut plain = String::new();
        Gzip::new(input).read_to_string(&mut plain).unwrap();
        assert_eq!(plain, "a\nbc\n");
    }
}

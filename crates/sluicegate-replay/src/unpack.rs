//! Compressed and UTF-16 input, recognized by its first bytes.

use std::io::{self, BufRead, BufReader, Chain, Cursor, ErrorKind, Read};

use bzip2::bufread::MultiBzDecoder;
use encoding_rs_io::DecodeReaderBytes;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::gzip::{self, Gzip};

/// An input whose first bytes have been read ahead.
type Whole<R> = BufReader<Chain<Cursor<Vec<u8>>, R>>;

/// Number of bytes that identify how an input is packed.
const MAGIC: u64 = 6;

/// Memory limit of an xz file in KiB: four times that of the highest preset.
const XZ_MEMORY: u32 = 256 * 1024;

const BUFFER: usize = 64 * 1024;

/// Unpacks gzip, zstd, bzip2 or xz input, and converts UTF-16 to UTF-8.
///
/// # Errors
/// Returns an error if the input can't be read or its header is damaged.
pub(crate) fn unpacked<'r>(input: impl Read + Send + 'r) -> io::Result<Box<dyn Read + Send + 'r>> {
    let (magic, whole) = peeked(input)?;
    let plain: Box<dyn Read + Send + 'r> = match *magic {
        [a, b, ..] if [a, b] == gzip::MAGIC => Box::new(Named("gzip", Gzip::new(whole))),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            Box::new(Named("zstd", Zstd::new(whole)))
        }
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31 | 0x17, ..] => {
            Box::new(Named("bzip2", MultiBzDecoder::new(whole)))
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            Box::new(Named("xz", XzReader::new_mem_limit(whole, true, XZ_MEMORY)))
        }
        _ => return text(&magic, whole),
    };
    let (magic, whole) = peeked(plain)?;
    text(&magic, whole)
}

/// Reads the first bytes of an input ahead.
fn peeked<'r, R: Read + Send + 'r>(mut input: R) -> io::Result<(Vec<u8>, Whole<R>)> {
    let mut magic = Vec::with_capacity(8);
    input.by_ref().take(MAGIC).read_to_end(&mut magic)?;
    let whole = Cursor::new(magic.clone()).chain(input);
    Ok((magic, BufReader::with_capacity(BUFFER, whole)))
}

/// Returns text as UTF-8. A byte order mark identifies UTF-16.
fn text<'r, R: Read + Send + 'r>(
    magic: &[u8],
    whole: Whole<R>,
) -> io::Result<Box<dyn Read + Send + 'r>> {
    Ok(match magic {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Box::new(DecodeReaderBytes::new(whole)),
        // Lines are found in a separate buffer.
        _ => Box::new(whole),
    })
}

/// Packed input. Its errors name the format.
struct Named<R>(&'static str, R);

impl<R: Read> Read for Named<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1.read(buffer).map_err(|error| match error.kind() {
            ErrorKind::Interrupted => error,
            ErrorKind::UnexpectedEof => io::Error::new(
                ErrorKind::UnexpectedEof,
                format!("the {} data ends early: copy the whole file again", self.0),
            ),
            kind => io::Error::new(kind, format!("the {} data is damaged: {error}", self.0)),
        })
    }
}

/// The frames of a zstd file, unpacked one after the other.
struct Zstd<R> {
    input: R,
    decoder: FrameDecoder,
    /// Whether a frame has begun and not ended.
    is_open: bool,
}

impl<R: BufRead> Zstd<R> {
    fn new(input: R) -> Self {
        Self { input, decoder: FrameDecoder::new(), is_open: false }
    }

    /// Opens the next frame with data. Returns `false` at the end of the input.
    fn open(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.input) {
                Ok(()) => {
                    self.is_open = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = self.input.by_ref().take(length.into());
                    if io::copy(&mut skipped, &mut io::sink())? < u64::from(length) {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(false)
    }

    /// Converts a decoder error, which doesn't distinguish damaged data from truncated data.
    fn failed(&mut self, error: FrameDecoderError) -> io::Error {
        match self.input.fill_buf() {
            Ok([]) => ErrorKind::UnexpectedEof.into(),
            Ok(_) => io::Error::new(ErrorKind::InvalidData, error),
            Err(error) => error,
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while self.is_open || self.open()? {
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let enough = BlockDecodingStrategy::UptoBytes(buffer.len());
                self.decoder
                    .decode_blocks(&mut self.input, enough)
                    .map_err(|error| self.failed(error))?;
            }
            let count = self.decoder.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            self.is_open = false;
            let stated = self.decoder.get_checksum_from_data();
            if stated.is_some() && stated != self.decoder.get_calculated_checksum() {
                return Err(io::Error::new(ErrorKind::InvalidData, "its checksum is wrong"));
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const TEXT: &str = "a first line\nand another one, a first line\n";

    fn unpack(packed: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        unpacked(packed)?.read_to_string(&mut text)?;
        Ok(text)
    }

    fn packed() -> [(&'static str, Vec<u8>); 4] {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(TEXT.as_bytes()).unwrap();
        let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bzip2.write_all(TEXT.as_bytes()).unwrap();
        let zstd = ruzstd::encoding::compress_to_vec(
            TEXT.as_bytes(),
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        let options = lzma_rust2::XzOptions::default();
        let mut xz = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        xz.write_all(TEXT.as_bytes()).unwrap();
        [
            ("gzip", gzip.finish().unwrap()),
            ("bzip2", bzip2.finish().unwrap()),
            ("zstd", zstd),
            ("xz", xz.finish().unwrap()),
        ]
    }

    #[test]
    fn packed_text_is_recognized_by_its_content() {
        for (name, packed) in packed() {
            assert_eq!(unpack(&packed).unwrap(), TEXT, "{name}");
            let twice = [&packed[..], &packed].concat();
            assert_eq!(unpack(&twice).unwrap(), TEXT.repeat(2), "{name}");
        }
        assert_eq!(unpack(TEXT.as_bytes()).unwrap(), TEXT);
        assert_eq!(unpack(b"").unwrap(), "");
        // A frame that zstd skips, such as those of pzstd.
        let (_, zstd) = &packed()[2];
        let skipped = [&b"\x50\x2a\x4d\x18\x03\0\0\0abc"[..], zstd].concat();
        assert_eq!(unpack(&skipped).unwrap(), TEXT);
    }

    #[test]
    fn packed_text_that_is_cut_says_so() {
        for (name, packed) in packed() {
            for end in 7..packed.len() {
                let error = unpack(&packed[..end]).unwrap_err().to_string();
                let expected = format!("the {name} data ends early: copy the whole file again");
                assert_eq!(error, expected, "{end}");
            }
        }
    }

    #[test]
    fn utf_16_is_read_as_utf_8() {
        let text = "größer 𝄞\n";
        let units: Vec<u16> = "\u{feff}".encode_utf16().chain(text.encode_utf16()).collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        assert_eq!(unpack(&little).unwrap(), text);
        assert_eq!(unpack(&big).unwrap(), text);
    }
}

//! Encodes the few kinds of protobuf fields that statuses have.
//!
//! A message is a list of fields. Each is a tag (the field number shifted left by three bits, plus
//! the wire type) and a value. Fields with the default value are left out.

/// A message under construction.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

const WIRE_VARINT: u64 = 0;
const WIRE_BYTES: u64 = 2;

impl Message {
    /// Adds an unsigned number.
    pub(super) fn number(mut self, field: u8, number: u64) -> Self {
        if number != 0 {
            self.varint(u64::from(field) << 3 | WIRE_VARINT);
            self.varint(number);
        }
        self
    }

    /// Adds a string.
    pub(super) fn text(self, field: u8, text: &str) -> Self {
        if text.is_empty() { self } else { self.bytes(field, text.as_bytes()) }
    }

    /// Adds a message, even an empty one.
    pub(super) fn message(self, field: u8, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn bytes(mut self, field: u8, bytes: &[u8]) -> Self {
        self.varint(u64::from(field) << 3 | WIRE_BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Seven bits per byte, lowest first. The eighth bit says whether more bytes follow.
    fn varint(&mut self, mut number: u64) {
        loop {
            let [low, ..] = number.to_le_bytes();
            number >>= 7;
            if number == 0 {
                self.0.push(low & 0x7f);
                return;
            }
            self.0.push(low | 0x80);
        }
    }
}

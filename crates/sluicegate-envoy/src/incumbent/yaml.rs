//! YAML as go-yaml v2 reads it: a document as nodes, and scalars by the rules of YAML 1.1.

pub(crate) mod base64;
pub(crate) mod document;
pub(crate) mod read;
pub(crate) mod scalar;
pub(crate) mod timestamp;
pub(crate) mod walk;

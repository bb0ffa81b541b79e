//! The codec of the services' messages.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::ProstCodec;

/// Initial size of a message's buffer, in bytes. Most messages are smaller; the buffer grows for others.
///
/// tonic's own codec takes 8 KiB for each message, which allocators don't keep at hand.
const BUFFER: usize = 512;
/// Number of written bytes from which a stream of messages is sent: that of tonic.
const ENOUGH_TO_SEND: usize = 32 * 1024;

/// Codec of tonic for the messages of prost, with small buffers.
#[derive(Debug)]
pub(crate) struct SmallCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for SmallCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for SmallCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as Codec>::Encoder;
    type Decoder = <ProstCodec<T, U> as Codec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(BUFFER, ENOUGH_TO_SEND))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(BUFFER, ENOUGH_TO_SEND))
    }
}

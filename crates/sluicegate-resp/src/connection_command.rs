//! Commands about the connection itself.

use crate::arguments::Arguments;
use crate::command_error::CommandError;
use crate::number::{integer, shown};
use crate::output::{ErrorKind, Protocol};

/// A command about the connection itself.
#[derive(Clone, Copy, Debug)]
pub enum ConnectionCommand<'a> {
    /// `AUTH TOKEN`, `AUTH NAME TOKEN`.
    Auth(Credentials<'a>),
    /// `CLIENT …`.
    Client(ClientCommand<'a>),
    /// `COMMAND …`.
    Commands,
    /// `CONFIG GET …`: there are no settings.
    ConfigGet,
    /// `DISCARD`.
    Discard,
    /// `ECHO TEXT`.
    Echo(&'a [u8]),
    /// `EXEC`.
    Exec,
    /// `HELLO …`.
    Hello(Hello<'a>),
    /// `INFO …`.
    Info,
    /// `MULTI`.
    Multi,
    /// `PING [TEXT]`.
    Ping(Option<&'a [u8]>),
    /// `QUIT`.
    Quit,
    /// `RESET`.
    Reset,
    /// `SELECT 0`.
    Select,
}

/// A token, and the name of the client that it belongs to.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Credentials<'a> {
    /// The name; `default` counts as none.
    pub name: Option<&'a [u8]>,
    /// The token.
    pub token: &'a [u8],
}

impl<'a> Credentials<'a> {
    /// Returns the name, unless it is `default`.
    ///
    /// ```
    /// use sluicegate_resp::Credentials;
    ///
    /// let name = |name| Credentials { name, token: b"secret" }.own_name();
    /// assert_eq!(name(Some(b"shop")), Some(&b"shop"[..]));
    /// assert_eq!((name(Some(b"default")), name(None)), (None, None));
    /// ```
    #[must_use]
    pub fn own_name(&self) -> Option<&'a [u8]> {
        self.name.filter(|name| *name != b"default")
    }
}

/// Omits the token.
impl std::fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The options of `HELLO`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hello<'a> {
    /// The version to speak from now on.
    pub protocol: Option<Protocol>,
    /// The credentials of `AUTH`.
    pub credentials: Option<Credentials<'a>>,
    /// The name of `SETNAME`.
    pub name: Option<&'a [u8]>,
}

impl<'a> Hello<'a> {
    pub(crate) fn parse(arguments: &Arguments<'a, '_>) -> Result<Self, CommandError> {
        let mut hello = Self::default();
        let Some(version) = arguments.get(1) else { return Ok(hello) };
        hello.protocol = Some(match integer(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => {
                let message = "unsupported protocol version: this server speaks 2 and 3";
                return Err(CommandError::new(ErrorKind::NoProto, message));
            }
            None => {
                return Err(CommandError::err(
                    "Protocol version is not an integer or out of range",
                ));
            }
        });
        let mut index = 2;
        while let Some(option) = arguments.get(index) {
            let values = (arguments.get(index + 1), arguments.get(index + 2));
            match values {
                (Some(name), Some(token)) if option.eq_ignore_ascii_case(b"auth") => {
                    hello.credentials = Some(Credentials { name: Some(name), token });
                    index += 3;
                }
                (Some(name), _) if option.eq_ignore_ascii_case(b"setname") => {
                    hello.name = Some(valid_name(name)?);
                    index += 2;
                }
                _ => {
                    return Err(CommandError::err(format!(
                        "Syntax error in HELLO option '{}'",
                        shown(option)
                    )));
                }
            }
        }
        Ok(hello)
    }
}

/// A subcommand of `CLIENT`.
#[derive(Clone, Copy, Debug)]
pub enum ClientCommand<'a> {
    /// `CLIENT GETNAME`.
    GetName,
    /// `CLIENT ID`.
    Id,
    /// `CLIENT SETNAME NAME`.
    SetName(&'a [u8]),
    /// A subcommand without an effect here: `SETINFO`, `TRACKING`, `NO-EVICT` and `NO-TOUCH`. No key is cached, so nothing
    /// needs to be tracked.
    Accepted,
}

impl<'a> ClientCommand<'a> {
    pub(crate) fn parse(arguments: &Arguments<'a, '_>) -> Result<Self, CommandError> {
        let subcommand = arguments.get(1).unwrap_or_default();
        let is = |name: &str, least: usize, most: usize| {
            subcommand.eq_ignore_ascii_case(name.as_bytes())
                && (least..=most).contains(&arguments.len())
        };
        if is("setname", 3, 3) {
            return valid_name(arguments.get(2).unwrap_or_default()).map(Self::SetName);
        }
        if is("getname", 2, 2) {
            return Ok(Self::GetName);
        }
        if is("id", 2, 2) {
            return Ok(Self::Id);
        }
        if is("setinfo", 4, 4)
            || is("tracking", 3, usize::MAX)
            || is("no-evict", 3, 3)
            || is("no-touch", 3, 3)
        {
            return Ok(Self::Accepted);
        }
        Err(CommandError::err(format!(
            "unknown subcommand or wrong number of arguments for 'client|{}'",
            shown(subcommand).to_lowercase()
        )))
    }
}

/// Maximum length of a connection's name, in bytes.
const MOST_OF_NAME: usize = 256;

fn valid_name(name: &[u8]) -> Result<&[u8], CommandError> {
    if name.len() <= MOST_OF_NAME && name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(name);
    }
    Err(CommandError::err(format!(
        "Client names cannot contain spaces, newlines or special characters, and have at most {MOST_OF_NAME} bytes"
    )))
}

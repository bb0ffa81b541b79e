//! The errors of handlers. Each framework converts them to responses in its own way.

/// Declares the error type of an adapter's handlers: a [`Denied`](crate::Denied) in a type of the adapter's crate. The
/// adapter then implements the framework's trait for responses for it.
///
/// The type converts from every error that a gate, the attribute or a store returns, so that handlers can use `?`. The
/// second name is the adapter's crate.
///
/// ```
/// use sluicegate::middleware::denied_type;
///
/// /// What the framework demands of errors.
/// trait Respond: std::error::Error {
///     fn respond(&self) -> http::Response<String>;
/// }
///
/// denied_type! {
///     /// A denial that the framework turns into a response.
///     pub struct Denied in sluicegate;
/// }
///
/// impl Respond for Denied {
///     fn respond(&self) -> http::Response<String> {
///         self.0.to_response()
///     }
/// }
///
/// let denied = Denied::from(sluicegate::Denied::no_key("sms"));
/// assert_eq!(denied.respond().status(), 400);
/// ```
#[doc(hidden)] // Under this name; it is shown in the module.
#[macro_export]
macro_rules! __middleware_denied_type {
    ($(#[$attribute:meta])* pub struct $name:ident in $adapter:ident;) => {
        $(#[$attribute])*
        #[derive(Clone, Debug)]
        pub struct $name(pub $crate::Denied);

        impl From<$crate::Denied> for $name {
            fn from(denied: $crate::Denied) -> Self {
                Self(denied)
            }
        }

        /// An error of a gate that a handler passes on with `?`: 503 if the store failed, 500 for a mistake in the
        /// program.
        ///
        /// ```
        /// use sluicegate::{Ask, Gate};
        #[doc = concat!("use ", stringify!($adapter), "::", stringify!($name), ";")]
        ///
        #[doc = concat!("async fn settle(llm: &Gate, ", "tokens: u64) -> Result<(), ", stringify!($name), "> {")]
        ///     llm.charge(Ask::new("acme").cost_of("tokens", tokens)).await?;
        ///     Ok(())
        /// }
        ///
        /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
        /// let registry = sluicegate::Registry::open(&sluicegate::Config::default())?;
        /// let mistaken = settle(&registry.gate("lm"), 300).await.unwrap_err();
        /// assert_eq!(mistaken.0.problem().status(), 500);
        /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        impl From<$crate::Error> for $name {
            fn from(error: $crate::Error) -> Self {
                Self(error.into())
            }
        }

        /// An error of a store itself that a handler passes on with `?`, such as from a ping: 503.
        ///
        /// ```
        /// use sluicegate::error::{StoreError, StoreErrorKind};
        #[doc = concat!("use ", stringify!($adapter), "::", stringify!($name), ";")]
        ///
        #[doc = concat!("let denied = ", stringify!($name), "::from(StoreError::new(StoreErrorKind::Timeout, \"too slow\"));")]
        /// assert_eq!(denied.0.problem().status(), 503);
        /// ```
        impl From<$crate::error::StoreError> for $name {
            fn from(error: $crate::error::StoreError) -> Self {
                Self(error.into())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::error::Error for $name {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                self.0.source()
            }
        }
    };
}

//! Parses the contents of `#[limit(…)]`.

mod callee;
mod options;
mod values;

use proc_macro2::{Span, TokenStream};
use sluicegate_core::{Ban, OnExpiry};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, Ident, Lit, LitStr, Path, Token, parenthesized};

use crate::key::KeySource;
use crate::limit_source::LimitSource;
use crate::syntax::parse_expression;

pub(crate) use callee::Callee;
pub(crate) use values::{OnMissing, Wait};

/// One `#[limit(…)]` attribute.
pub(crate) enum Attribute {
    Limit(Box<LimitOptions>),
    /// `#[limit(skip)]`.
    Skip(Span),
}

/// The options of one limit: where it comes from, its key and its cost.
pub(crate) struct LimitOptions {
    pub(crate) source: LimitSource,
    /// `ban = …`, of inline policies.
    pub(crate) ban: Option<LitStr>,
    /// `on_expiry = …`, of inline policies.
    pub(crate) on_expiry: OnExpiry,
    pub(crate) key: KeySource,
    pub(crate) missing: OnMissing,
    /// `cost = …`: for all policies.
    pub(crate) cost: Option<Expr>,
    /// `cost("policy") = …`: for one policy each.
    pub(crate) costs: Vec<(LitStr, Expr)>,
    pub(crate) skip_if: Option<Expr>,
    pub(crate) pause_on: Option<Expr>,
    pub(crate) is_shadow: bool,
    pub(crate) call: CallOptions,
    /// The position among the function's unnamed limits, from 0.
    pub(crate) ordinal: usize,
}

/// The options of the call as a whole. Each may be set by only one of the attributes on a function.
#[derive(Default)]
pub(crate) struct CallOptions {
    pub(crate) wait: Option<OptionValue<Wait>>,
    pub(crate) priority: Option<OptionValue<Expr>>,
    pub(crate) fallback: Option<OptionValue<Fallback>>,
    pub(crate) denied: Option<OptionValue<Expr>>,
    pub(crate) on_error: Option<OptionValue<Handlers>>,
    pub(crate) charge_if: Option<OptionValue<Expr>>,
    pub(crate) refund_if: Option<OptionValue<Expr>>,
    pub(crate) hold: Option<OptionValue<Wait>>,
    pub(crate) settle: Option<OptionValue<Expr>>,
    pub(crate) registry: Option<OptionValue<Expr>>,
    pub(crate) crate_path: Option<OptionValue<Path>>,
}

/// An option that was set: its value, and its name for error spans.
pub(crate) struct OptionValue<T> {
    pub(crate) option: Ident,
    pub(crate) value: T,
}

pub(crate) struct Fallback {
    pub(crate) takes_denied: bool,
    pub(crate) takes_arguments: bool,
    pub(crate) callee: Callee,
}

pub(crate) struct Handlers {
    pub(crate) takes_arguments: bool,
    pub(crate) callees: Vec<Callee>,
}

const NO_LIMIT: &str = "the limit is missing: write `#[limit(\"login\")]` for a limit in the registry, or `#[limit(\"token_bucket 10/s burst 20\")]` for an inline policy";

impl Attribute {
    /// Parses the tokens between the parentheses. An error about a missing limit points to `span`.
    pub(crate) fn read(tokens: TokenStream, span: Span) -> Result<Self, Error> {
        if tokens.is_empty() {
            return Err(Error::new(span, NO_LIMIT));
        }
        (|input: ParseStream<'_>| Self::parse(input, span)).parse2(tokens)
    }

    fn parse(input: ParseStream<'_>, span: Span) -> Result<Self, Error> {
        if input.peek(Ident) && input.fork().parse::<Ident>()? == "skip" {
            let skip: Ident = input.parse()?;
            if !input.is_empty() {
                return Err(Error::new(
                    skip.span(),
                    "`skip` takes no other options: `#[limit(skip)]` exempts a method from the attribute on its impl block; to skip only some calls, write `skip_if = condition`",
                ));
            }
            return Ok(Self::Skip(skip.span()));
        }
        let mut builder = LimitBuilder::default();
        while !input.is_empty() {
            builder.read(input)?;
            if !input.is_empty() && !input.peek(Token![,]) {
                return Err(input.error("missing comma: write `,` before this"));
            }
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(Self::Limit(Box::new(builder.finish(span)?)))
    }
}

/// The options parsed so far.
#[derive(Default)]
struct LimitBuilder {
    seen: Vec<Ident>,
    first: Option<LitStr>,
    policies: Option<(Ident, Vec<LitStr>)>,
    name: Option<LitStr>,
    ban: Option<LitStr>,
    on_expiry: Option<LitStr>,
    key: Option<KeySource>,
    missing: OnMissing,
    cost: Option<Expr>,
    costs: Vec<(LitStr, Expr)>,
    skip_if: Option<Expr>,
    pause_on: Option<Expr>,
    is_shadow: bool,
    call: CallOptions,
}

/// The arguments in parentheses after an option's name.
enum OptionArguments {
    None,
    /// `fallback(denied, args)`.
    Passed {
        denied: bool,
        arguments: bool,
    },
    /// `cost("policy")`.
    Policy(LitStr),
}

impl LimitBuilder {
    fn read(&mut self, input: ParseStream<'_>) -> Result<(), Error> {
        if input.peek(Lit) {
            return self.read_limit(input.parse()?);
        }
        if !input.peek(Ident::peek_any) {
            return Err(input.error("expected an option or a limit: write an option as `name = value`, and a limit as a string"));
        }
        let option = input.call(Ident::parse_any)?;
        let word = option.to_string();
        if !options::is_known(&word) {
            return Err(options::unknown(&option, input.is_empty() || input.peek(Token![,])));
        }
        let arguments = OptionArguments::read(&option, input)?;
        if !matches!(arguments, OptionArguments::Policy(_)) {
            if self.seen.contains(&option) {
                return Err(Error::new(option.span(), format!("`{word}` is set twice: keep one")));
            }
            self.seen.push(option.clone());
        }
        if word == "shadow" {
            self.is_shadow = true;
            return if input.peek(Token![=]) { Err(options::usage(&option)) } else { Ok(()) };
        }
        if !input.peek(Token![=]) {
            return Err(options::usage(&option));
        }
        input.parse::<Token![=]>()?;
        if input.is_empty() || input.peek(Token![,]) {
            return Err(options::missing_value(&option));
        }
        self.read_value(option, arguments, input)
    }

    fn read_limit(&mut self, literal: Lit) -> Result<(), Error> {
        let Lit::Str(text) = literal else {
            return Err(Error::new(literal.span(), NO_LIMIT));
        };
        if self.first.is_some() {
            return Err(Error::new(
                text.span(),
                "an attribute takes one limit: write a second attribute for this one, or several policies of one limit as `policies = [\"…\", \"…\"]`",
            ));
        }
        self.first = Some(text);
        Ok(())
    }

    fn read_value(
        &mut self,
        option: Ident,
        arguments: OptionArguments,
        input: ParseStream<'_>,
    ) -> Result<(), Error> {
        let call = &mut self.call;
        match option.to_string().as_str() {
            "policies" => self.policies = Some((option, values::strings(input)?)),
            "name" => self.name = Some(values::string(input, "name = \"login\"")?),
            "ban" => self.ban = Some(values::string(input, "ban = \"5/1min for 15min\"")?),
            "on_expiry" => {
                self.on_expiry = Some(values::string(input, "on_expiry = \"return\"")?);
            }
            "key" => self.key = Some(KeySource::read(input)?),
            "missing" => self.missing = OnMissing::read(input)?,
            "cost" => {
                let cost = parse_expression(input)?;
                match arguments {
                    OptionArguments::Policy(policy) => self.costs.push((policy, cost)),
                    _ => self.cost = Some(cost),
                }
            }
            "skip_if" => self.skip_if = Some(parse_expression(input)?),
            "wait" => {
                let value = Wait::read(input, &option)?;
                call.wait = Some(OptionValue { option, value });
            }
            "priority" => {
                let value = parse_expression(input)?;
                call.priority = Some(OptionValue { option, value });
            }
            "fallback" => {
                let callee = Callee::read(input.parse()?)?;
                let (takes_denied, takes_arguments) = arguments.passed();
                let value = Fallback { takes_denied, takes_arguments, callee };
                call.fallback = Some(OptionValue { option, value });
            }
            "denied" => {
                let value = parse_expression(input)?;
                call.denied = Some(OptionValue { option, value });
            }
            "on_error" => {
                let callees = Callee::read_all(input)?;
                let value = Handlers { takes_arguments: arguments.passed().1, callees };
                call.on_error = Some(OptionValue { option, value });
            }
            "charge_if" => {
                let value = values::predicate(input, &option)?;
                call.charge_if = Some(OptionValue { option, value });
            }
            "refund_if" => {
                let value = values::predicate(input, &option)?;
                call.refund_if = Some(OptionValue { option, value });
            }
            "pause_on" => self.pause_on = Some(values::pause(input)?),
            "hold" => {
                let value = Wait::read(input, &option)?;
                call.hold = Some(OptionValue { option, value });
            }
            "settle" => {
                let value = values::settle(input)?;
                call.settle = Some(OptionValue { option, value });
            }
            "registry" => {
                let value = parse_expression(input)?;
                call.registry = Some(OptionValue { option, value });
            }
            "crate" => {
                let value = values::crate_path(input)?;
                call.crate_path = Some(OptionValue { option, value });
            }
            _ => return Err(options::unknown(&option, false)),
        }
        Ok(())
    }

    fn finish(self, span: Span) -> Result<LimitOptions, Error> {
        let source = match (self.first, self.policies) {
            (Some(first), None) => LimitSource::from_text(first, self.name)?,
            (None, Some((_, policies))) => LimitSource::from_policies(policies, self.name)?,
            (Some(_), Some((option, _))) => {
                return Err(Error::new(
                    option.span(),
                    "the limit is set twice: put all its policies into `policies`, and remove the string before it",
                ));
            }
            (None, None) => return Err(Error::new(span, NO_LIMIT)),
        };
        source.check_costs(self.cost.as_ref(), &self.costs)?;
        if let Some(ban) = &self.ban {
            source.read_option::<Ban>("ban", ban)?;
        }
        let on_expiry = self.on_expiry.as_ref();
        let on_expiry = on_expiry.map(|word| source.read_option("on_expiry", word)).transpose()?;
        Ok(LimitOptions {
            source,
            ban: self.ban,
            on_expiry: on_expiry.unwrap_or_default(),
            key: self.key.unwrap_or(KeySource::Method),
            missing: self.missing,
            cost: self.cost,
            costs: self.costs,
            skip_if: self.skip_if,
            pause_on: self.pause_on,
            is_shadow: self.is_shadow,
            call: self.call,
            ordinal: 0,
        })
    }
}

impl OptionArguments {
    fn read(option: &Ident, input: ParseStream<'_>) -> Result<Self, Error> {
        if !input.peek(syn::token::Paren) {
            return Ok(Self::None);
        }
        let content;
        parenthesized!(content in input);
        let known: &[&str] = match option.to_string().as_str() {
            "cost" => {
                return values::string(&content, "cost(\"policy\") = units").map(Self::Policy);
            }
            "fallback" => &["denied", "args"],
            "on_error" => &["args"],
            _ => return Err(options::usage(option)),
        };
        let (mut denied, mut arguments) = (false, false);
        while !content.is_empty() {
            if !content.peek(Ident::peek_any) {
                return Err(content.error(format!(
                    "write `{option}({})`, where `args` stands for all arguments of the function, in order",
                    known.join(", "),
                )));
            }
            let argument = content.call(Ident::parse_any)?;
            match known.iter().find(|word| argument == **word) {
                Some(&"denied") => denied = true,
                Some(_) => arguments = true,
                None => {
                    return Err(Error::new(
                        argument.span(),
                        format!(
                            "`{argument}` can't be passed: write `{option}({})`, where `args` stands for all arguments of the function, in order",
                            known.join(", "),
                        ),
                    ));
                }
            }
            content.parse::<Option<Token![,]>>()?;
        }
        Ok(Self::Passed { denied, arguments })
    }

    /// Returns whether the denial and the function's arguments are passed on.
    const fn passed(&self) -> (bool, bool) {
        match self {
            Self::Passed { denied, arguments } => (*denied, *arguments),
            _ => (false, false),
        }
    }
}

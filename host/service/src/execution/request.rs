//! A request to an endpoint: what the caller sent, checked against the manifest and the token.

use std::collections::HashSet;
use std::sync::Arc;

use tidegate_model::{
    Arguments, Audience, Code, Failure, Format as ParameterFormat, Kind, Limits, Manifest, Value, whole_word,
};
use uuid::Uuid;

use super::Executor;
use super::parameters::{AdhocQuery, SentParameters};
use crate::account::Account;
use crate::answer::Format;
use crate::registry::{Endpoint, with_parameters_of};
use crate::tokens::Access;

/// The longest text, in bytes, that is looked through to tell whether it is plain.
const MOST_PLAIN: usize = 1 << 10;

/// A request to an endpoint, authenticated and with checked arguments.
#[derive(Debug)]
pub struct QueryRequest {
    /// The version of the endpoint that is asked.
    pub endpoint: Arc<Endpoint>,
    /// What the answer can depend on, and nothing else: the declared parameters, and those that the
    /// ad-hoc text uses.
    pub arguments: Arguments,
    /// For whom rows are read: what the token pins. A component cannot choose otherwise either.
    pub audience: Audience,
    /// The state of what sources said of their tenants when the request was checked, of which the answer to a tenant
    /// depends; see [`Store::tenancy_generation`](tidegate_store::Store::tenancy_generation). 0 for who reads all rows.
    pub tenancy_generation: u64,
    /// The query that the caller wrote, if any.
    pub adhoc: Option<AdhocQuery>,
    /// The ad-hoc text reads the sources instead of the grants; the token allows it.
    pub unrestricted: bool,
    /// The endpoints that this one reads as tables, with their versions.
    pub reads: Vec<(Uuid, i64)>,
    /// Whether personal data is masked in the answer.
    pub redact: bool,
    /// The format of the answer.
    pub format: Format,
    /// What it may use: the smallest of what the server, the endpoint and the token allow.
    pub limits: Limits,
    /// Whose token asks.
    pub account: Account,
}

impl QueryRequest {
    /// Roughly the bytes that this holds.
    pub fn bytes(&self) -> usize {
        let of = |value: &Value| match value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        let arguments: usize = self.arguments.iter().map(|(name, value)| name.len() + of(value) + 64).sum();
        let pinned: usize = self.audience.pins().iter().map(|(name, value)| name.len() + value.len() + 64).sum();
        let adhoc = match &self.adhoc {
            Some(AdhocQuery::Sql(text) | AdhocQuery::Lql(text)) => text.len(),
            None => 0,
        };
        arguments + pinned + adhoc
    }
}

impl Executor {
    /// As [`Self::check_request`], with the endpoints that this one reads, for an account. What takes long is done with one of its
    /// permits.
    ///
    /// # Errors
    /// Those of [`Self::check_request`]; what it reads cannot be read; no permit is free in time.
    pub async fn checked(
        self: &Arc<Self>,
        account: Account,
        endpoint: Arc<Endpoint>,
        access: Arc<Access>,
        sent: SentParameters,
        format: Format,
        redact: bool,
    ) -> Result<QueryRequest, Failure> {
        let reads = self.endpoints.reads(&endpoint).await?;
        let is_slow = takes_time(&endpoint.manifest, &reads, &sent);
        let limit = limits_of(&self.limits, &endpoint, &access).wall_clock;
        let own = Arc::clone(self);
        let check = move || own.check_request(endpoint, &reads, &access, sent, format, redact);
        let checked =
            if is_slow { self.run_with_permit(account, limit, async move { check() }).await } else { check() };
        checked.map(|request| QueryRequest { account, ..request })
    }

    /// The request of a caller with these parameters, after all checks.
    ///
    /// A parameter that the token pins has the token's value: the caller cannot choose another. An endpoint need not have a
    /// parameter for a tenant key of any source, because the rows that are read depend on the token alone. Another pinned name
    /// must be a parameter of the endpoint, because its answer would not depend on it otherwise.
    ///
    /// # Errors
    /// [`Code::Forbidden`] for what the token does not allow; [`Code::InvalidParameter`] for a value that is not valid, and
    /// for a name in another spelling than the declared one.
    pub fn check_request(
        &self,
        endpoint: Arc<Endpoint>,
        reads: &[Arc<Endpoint>],
        access: &Access,
        sent: SentParameters,
        format: Format,
        redact: bool,
    ) -> Result<QueryRequest, Failure> {
        let store = self.endpoints.store();
        // Before the keys are looked at: what changes meanwhile changes this number.
        let audience = access.audience();
        let tenancy_generation = match &audience {
            Audience::All => 0,
            Audience::Tenant(_) => store.tenancy_generation(),
        };
        let SentParameters { mut values, records, adhoc } = sent;
        let manifest = with_parameters_of(&endpoint.manifest, reads);
        let takes_records =
            |name: &str| manifest.parameters.iter().any(|own| own.name == name && own.kind == Kind::Json);
        if let Some(name) = records.into_iter().find(|name| !takes_records(name)) {
            let message = format!("parameter '{name}' must be a text, a number or a boolean");
            return Err(Failure::new(Code::InvalidBody, message).about(name));
        }
        let settings = &endpoint.manifest.settings;
        let unrestricted = adhoc.is_some() && !settings.sandboxable;
        if unrestricted && !access.is_private() {
            let message = "the endpoint takes no ad-hoc queries: its sandbox is off, and only a private token may query all \
                           sources";
            return Err(Failure::new(Code::Forbidden, message));
        }
        for (name, pinned) in &access.pinned {
            if values.iter().any(|(known, chosen)| known.eq_ignore_ascii_case(name) && chosen != pinned) {
                let message = format!("parameter '{name}' is fixed by the access token");
                return Err(Failure::new(Code::Forbidden, message).about(name));
            }
            values.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            let of_name = manifest.parameters.iter().find(|own| own.name == *name);
            if of_name.is_none() && !store.is_tenant_key(name) {
                return Err(not_bound(name));
            }
            // A parameter that is a regular expression would find the tenant in the names of others.
            let is_pattern = of_name.is_some_and(|own| own.format == Some(ParameterFormat::Regex));
            values.push((name.clone(), if is_pattern { whole_word(pinned) } else { pinned.clone() }));
        }
        let used = UsedParameters::of(&manifest, adhoc.as_ref());
        values.retain(|(name, _)| used.has(name));
        let arguments: Arguments = manifest.check_arguments(&values)?;
        let reads = reads.iter().map(|endpoint| (endpoint.id, endpoint.version)).collect();
        drop(manifest);
        let account = access.account();
        let limits = limits_of(&self.limits, &endpoint, access);
        Ok(QueryRequest {
            endpoint,
            arguments,
            audience,
            tenancy_generation,
            adhoc,
            unrestricted,
            reads,
            redact,
            format,
            limits,
            account,
        })
    }
}

/// The first name that a token pins and an endpoint is not bound by, as the refusal of the token: the name is a tenant key of
/// no source, and none of the endpoint's parameters. `manifest` has those of the endpoints that it reads, too.
pub(crate) fn unbound_pin(manifest: &Manifest, access: &Access, is_key: impl Fn(&str) -> bool) -> Option<Failure> {
    let is_bound = |name: &str| manifest.parameters.iter().any(|own| own.name == name) || is_key(name);
    access.pinned.keys().find(|name| !is_bound(name)).map(|name| not_bound(name))
}

fn not_bound(name: &str) -> Failure {
    let message = format!(
        "the access token fixes '{name}', which is a tenant key of no source and no parameter of this endpoint: its answer \
         would not be bound to it"
    );
    Failure::new(Code::Forbidden, message).about(name)
}

/// The limits of a request: the smallest of the server's, the endpoint's and the token's. A caller can be held to less
/// than the endpoint, and never gets more.
pub fn limits_of(server: &Limits, endpoint: &Endpoint, access: &Access) -> Limits {
    server.lowered_by(&endpoint.manifest.limits).lowered_by(&access.limits)
}

/// Whether checking the parameters may take long. A short text can be a regular expression that takes a tenth of a
/// second to compile. Plain words, which nearly all values are, cannot.
fn takes_time(manifest: &Manifest, reads: &[Arc<Endpoint>], sent: &SentParameters) -> bool {
    let is_plain = |text: &str| {
        text.len() <= MOST_PLAIN && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:/ ".contains(&b))
    };
    let long = |name: &str| sent.values.iter().any(|(known, text)| known == name && !is_plain(text));
    let parameters = reads.iter().flat_map(|endpoint| &endpoint.manifest.parameters).chain(&manifest.parameters);
    parameters.filter(|own| own.format == Some(ParameterFormat::Regex)).any(|own| long(&own.name))
}

/// The parameters on which an answer can depend, in any spelling: those that the manifest declares, and those that the
/// ad-hoc text may name.
#[derive(Debug)]
pub struct UsedParameters {
    /// In lower case.
    declared: HashSet<String>,
    /// The words after an `@` in the text, in lower case.
    named: HashSet<String>,
}

impl UsedParameters {
    /// The parameters of a manifest and of an ad-hoc text.
    pub fn of(manifest: &Manifest, adhoc: Option<&AdhocQuery>) -> Self {
        let declared = manifest.parameters.iter().map(|parameter| parameter.name.to_ascii_lowercase()).collect();
        let text = match adhoc {
            Some(AdhocQuery::Sql(text)) => text.as_str(),
            _ => "",
        };
        // As the parser reads names; one that goes on with other signs cannot be written in SQL.
        let word = |rest: &str| {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            rest.get(..end).unwrap_or_default().to_lowercase()
        };
        let named = text.split('@').skip(1).map(word).collect();
        Self { declared, named }
    }

    /// Whether an answer can depend on the parameter. So it does on a declared one in another spelling, which
    /// [`Manifest::check_arguments`] refuses.
    pub fn has(&self, name: &str) -> bool {
        self.declared.contains(&name.to_ascii_lowercase()) || self.named.contains(&name.to_lowercase())
    }
}

/// Whether a request's answer is redacted, where the caller `wants` it to be or not to be, or says nothing. Anyone may ask
/// for redaction; only a private token may turn the endpoint's own redaction off.
///
/// # Errors
/// [`Code::Forbidden`].
pub fn redaction(endpoint: &Endpoint, access: &Access, wants: Option<bool>) -> Result<bool, Failure> {
    let own = endpoint.manifest.settings.redact_pii;
    if access.is_redacted() && wants != Some(true) {
        if wants.is_none() {
            return Ok(true);
        }
        return Err(Failure::new(
            Code::Forbidden,
            "the access token redacts personal data, which cannot be turned off",
        ));
    }
    let Some(wants) = wants else { return Ok(own) };
    if own && !wants && !access.is_private() {
        let message = "the endpoint redacts personal data; only a private token may turn that off";
        return Err(Failure::new(Code::Forbidden, message));
    }
    Ok(wants)
}

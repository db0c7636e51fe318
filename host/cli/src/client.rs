//! The HTTP client of the commands that talk to a server: its address, its token, and the text of its refusals.

use std::error::Error;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use ureq::http::request::Builder;
use ureq::tls::{RootCerts, TlsConfig};

/// The time limit of one request, including its answer.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The limit on the size of an answer, in bytes: enough for a component.
const MAX_ANSWER: u64 = 32 << 20;

#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    /// The server, with http:// or https://; its token is read from TIDEGATE_TOKEN
    #[arg(long, env = "TIDEGATE_URL", default_value = "http://127.0.0.1:4000")]
    pub(crate) url: String,
}

/// A server, and the token for its requests.
pub(crate) struct Client {
    agent: ureq::Agent,
    base: String,
    token: String,
}

/// Why a stream does not begin.
#[derive(Debug)]
pub(crate) struct NoEvents {
    pub(crate) message: String,
    /// Whether asking again is of no use.
    pub(crate) is_final: bool,
}

/// The answer of a server.
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The header `Retry-After` in seconds, if the server sends it.
    pub(crate) retry_after: Option<u64>,
    /// The header `ETag`: which version the answer shows.
    pub(crate) tag: Option<String>,
    /// The header `Location` of a redirect.
    location: Option<String>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// A client with the token from the environment. `purpose` says in the error message which token is needed.
    ///
    /// # Errors
    /// The address is invalid; the token is not set.
    pub(crate) fn new(server: &ServerArguments, purpose: &str) -> Result<Self, Box<dyn Error>> {
        let url = server.url.trim_end_matches('/');
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(format!("{url}: an address begins with http:// or https://").into());
        }
        let token = std::env::var("TIDEGATE_TOKEN").ok().filter(|token| !token.is_empty());
        let Some(token) = token else {
            return Err(format!("TIDEGATE_TOKEN is not set; put {purpose} there").into());
        };
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            // Redirects are not followed, so that the token is not sent to another server.
            .max_redirects(0)
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
            .build()
            .new_agent();
        Ok(Self { agent, base: url.to_owned(), token })
    }

    /// The base URL, without a path.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The head of a request, with one more header.
    fn request(&self, path: &str, header: Option<(&str, &str)>) -> Builder {
        let request = Builder::new().uri(format!("{}{path}", self.base)).header("x-api-key", &self.token);
        match header {
            Some((name, value)) => request.header(name, value),
            None => request,
        }
    }

    /// Sends a request. An error status is an answer too, and not an error here.
    ///
    /// # Errors
    /// The server was not reached, or the connection was lost.
    pub(crate) fn send(&self, method: &str, path: &str, body: Option<(&str, &[u8])>) -> Result<Reply, Box<dyn Error>> {
        self.send_with(None, method, path, body)
    }

    /// As [`Self::send`], with one more header: an idempotency key, under which the request may be sent again, or the version
    /// that it changes.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) fn send_with(
        &self,
        header: Option<(&str, &str)>,
        method: &str,
        path: &str,
        body: Option<(&str, &[u8])>,
    ) -> Result<Reply, Box<dyn Error>> {
        let request = self.request(path, header).method(method);
        let answer = match body {
            Some((kind, bytes)) => self.agent.run(request.header("content-type", kind).body(bytes)?),
            None => self.agent.run(request.body(())?),
        };
        let mut answer = answer.map_err(|error| {
            let no_tls = match &error {
                ureq::Error::Io(error) => error.kind() == std::io::ErrorKind::InvalidData,
                error => matches!(error, ureq::Error::Rustls(_) | ureq::Error::Tls(_)),
            };
            let plain = self.base.strip_prefix("https://").filter(|_| no_tls);
            let hint = plain.map_or_else(String::new, |host| format!(" (if it speaks no TLS: http://{host})"));
            format!("{}: {error}{hint}", self.base)
        })?;
        let header = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.to_owned());
        let retry_after = header("retry-after").and_then(|value| value.parse().ok());
        let (location, tag) = (header("location"), header("etag"));
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(MAX_ANSWER).read_to_vec();
        let body = body.map_err(|error| format!("{}: {error}", self.base))?;
        Ok(Reply { status, retry_after, tag, location, body })
    }

    /// The events of a path, after the one with this id. A server that sends nothing for a minute, not even a sign of
    /// life, is lost.
    ///
    /// # Errors
    /// The server was not reached, or refuses.
    pub(crate) fn events(&self, path: &str, last: Option<&str>) -> Result<impl std::io::Read + Send + use<>, NoEvents> {
        let last = last.map(|last| ("last-event-id", last));
        let request = self.request(path, last).header("accept", "text/event-stream");
        let lost =
            |error: &dyn std::fmt::Display| NoEvents { message: format!("{}: {error}", self.base), is_final: false };
        let request = request.body(()).map_err(|error| lost(&error))?;
        let request = self.agent.configure_request(request);
        let request = request.timeout_global(None).timeout_recv_response(Some(TIMEOUT)).build();
        let mut answer = self.agent.run(request).map_err(|error| lost(&error))?;
        let status = answer.status().as_u16();
        if status == 200 {
            return Ok(answer.into_body().into_reader());
        }
        let body = answer.body_mut().with_config().limit(MAX_ANSWER).read_to_vec().unwrap_or_default();
        let reply = Reply { status, retry_after: None, tag: None, location: None, body };
        Err(NoEvents { message: reply.refusal(), is_final: status < 500 && status != 429 })
    }

    /// Sends a request that must succeed.
    ///
    /// # Errors
    /// As [`Client::send`]; an error status, with every reason that the server gives.
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<(&str, &[u8])>) -> Result<Reply, Box<dyn Error>> {
        self.call_with(None, method, path, body)
    }

    /// As [`Self::call`], with one more header.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub(crate) fn call_with(
        &self,
        header: Option<(&str, &str)>,
        method: &str,
        path: &str,
        body: Option<(&str, &[u8])>,
    ) -> Result<Reply, Box<dyn Error>> {
        let reply = self.send_with(header, method, path, body).map_err(|error| {
            format!("{error}; is a server running there? --url or TIDEGATE_URL names another address")
        })?;
        if (200..300).contains(&reply.status) {
            return Ok(reply);
        }
        let mut message = reply.refusal();
        // Behind a proxy the address may have a path. Without a proxy, a path is a common mistake.
        let (_, rest) = self.base.split_once("://").unwrap_or_default();
        let of_endpoint = message.contains("there is no endpoint") || message.contains("has no version");
        if let (404 | 405, false, Some((host, path))) = (reply.status, of_endpoint, rest.split_once('/')) {
            message.push_str(&format!("\n  the address has a path, /{path}: should it be only {host}?"));
        }
        Err(message.into())
    }

    /// Sends a request and parses its answer as JSON.
    ///
    /// # Errors
    /// As [`Client::call`]; an answer that is not JSON.
    pub(crate) fn json(&self, method: &str, path: &str) -> Result<Value, Box<dyn Error>> {
        self.call(method, path, None)?.json()
    }
}

impl Reply {
    /// Parses the body as JSON.
    ///
    /// # Errors
    /// The body is not JSON. Then the server is probably not a Tidegate server.
    pub(crate) fn json(&self) -> Result<Value, Box<dyn Error>> {
        serde_json::from_slice(&self.body).map_err(|error| {
            format!("the answer is not valid JSON ({error}); is a Tidegate server at that address?").into()
        })
    }

    /// The message of an error answer, or the whole body if it has another form.
    pub(crate) fn message(&self) -> String {
        let parsed: Option<Value> = serde_json::from_slice(&self.body).ok();
        let message = parsed.as_ref().and_then(|body| body.get("error")?.get("message")?.as_str());
        let message = message.map_or_else(|| String::from_utf8_lossy(&self.body).into_owned(), str::to_owned);
        plain(&message, 500)
    }

    /// The text of an error answer, with one line for each reason.
    fn refusal(&self) -> String {
        let mut text = match self.status {
            300..=399 => {
                let to = plain(self.location.as_deref().unwrap_or("another address"), 500);
                format!(
                    "the server answers {}: it points to {to}, which is not followed; give that address",
                    self.status
                )
            }
            401 => format!("the server does not know the token in TIDEGATE_TOKEN (401): {}", self.message()),
            status => format!("the server answers {status}: {}", self.message()),
        };
        let parsed: Option<Value> = serde_json::from_slice(&self.body).ok();
        let errors = parsed.as_ref().and_then(|body| body.get("error")?.get("errors")?.as_array());
        let errors: Vec<&Value> = errors.into_iter().flatten().collect();
        if errors.len() > 1 {
            for error in errors.iter().take(100) {
                let part = |name: &str| plain(error.get(name).and_then(Value::as_str).unwrap_or_default(), 500);
                text.push_str(&format!("\n  {}: {}", part("location"), part("message")));
            }
        }
        text
    }
}

/// The path of an endpoint in the management API.
pub(crate) fn endpoint_path(name: &str) -> String {
    format!("/api/endpoints/{}", segment(name))
}

/// Encodes a text as one segment of a path.
pub(crate) fn segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Makes a foreign text safe for a terminal: bounds its length and removes control characters.
pub(crate) fn plain(text: &str, most: usize) -> String {
    text.chars().take(most).map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}

/// How a parameter is given to a command, where a message says that one is required.
pub(crate) fn parameter_hint(message: &str) -> Option<String> {
    let (_, named) = message.split_once("parameter '")?;
    let (name, what) = named.split_once('\'')?;
    what.starts_with(" is required").then(|| format!("; give the parameter with -p {name}=VALUE"))
}

/// The message of a refusal, with [`parameter_hint`] behind it.
pub(crate) fn with_parameter_hint(message: String) -> String {
    let hint = parameter_hint(&message).unwrap_or_default();
    message + &hint
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status, retry_after: None, tag: None, location: None, body: body.as_bytes().to_vec() }
    }

    #[test]
    fn every_reason_of_a_refusal_is_told() {
        let body = r#"{"error": {"message": "two things", "errors": [
            {"location": "query", "message": "there is no table x\u001b[2J"}, {"location": "name", "message": "taken"}]}}"#;
        assert_eq!(
            reply(422, body).refusal(),
            "the server answers 422: two things\n  query: there is no table x [2J\n  name: taken"
        );
        assert_eq!(reply(502, "<html>").refusal(), "the server answers 502: <html>");
        assert!(reply(401, "{}").refusal().contains("TIDEGATE_TOKEN"));
        assert!(reply(200, "<html>").json().unwrap_err().to_string().contains("Tidegate server"));
    }

    #[test]
    fn a_missing_parameter_is_told_with_its_option() {
        let told = with_parameter_hint("the server answers 400: parameter 'project' is required".to_owned());
        assert!(told.ends_with(" is required; give the parameter with -p project=VALUE"), "{told}");
        for other in ["parameter 'n' has the value 'x'", "it is required", "parameter 'n"] {
            assert_eq!(parameter_hint(other), None);
        }
    }

    #[test]
    fn a_name_is_one_segment() {
        assert_eq!(endpoint_path("a b/../größe"), "/api/endpoints/a%20b%2F..%2Fgr%C3%B6%C3%9Fe");
    }
}

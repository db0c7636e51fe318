//! Where the keys of an issuer come from: an address, a file, or the address in its discovery document.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tidegate_model::number;
use ureq::http::header::CACHE_CONTROL;
use ureq::{Agent, http};

use super::address::{Address, NoAddress};
use super::key_set::{KeySet, MOST_BYTES, NoKeySet};
use super::strict_json::object;
use crate::issuer_options::{IssuerOptions, KeysFrom};
use crate::outbound::{Outbound, told};

/// The time for one request to an issuer.
const TIME: Duration = Duration::from_secs(5);
/// Where the discovery document of an issuer is.
const DISCOVERY: &str = "/.well-known/openid-configuration";
/// How long keys are used before they are looked at again, where the issuer does not say.
const USUAL_AGE: Duration = Duration::from_secs(10 * 60);
/// The shortest and the longest such time, whatever the issuer says.
const AGES: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(24 * 60 * 60));
/// How often a file is looked at.
const FILE_AGE: Duration = Duration::from_secs(1);

/// Keys as they were read, and for how long they are used before that is done again.
#[derive(Debug)]
pub(super) struct Fetched {
    /// None if they are those that were read before.
    pub(super) keys: Option<KeySet>,
    pub(super) age: Duration,
}

/// Why keys cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SourceError {
    #[error("{0}")]
    Exchange(String),
    #[error("the issuer answers {0}; redirects are not followed")]
    Status(u16),
    #[error("the answer or the file is longer than 256 KiB")]
    TooLong,
    #[error("the discovery document is no JSON object with issuer and jwks_uri")]
    NoDiscovery,
    #[error("the discovery document is of another issuer")]
    OtherIssuer,
    #[error("the jwks_uri of the discovery document cannot be used: {0}")]
    Address(#[from] NoAddress),
    #[error(
        "the jwks_uri of the discovery document is on another host; name it: keys = {{ discover = true, host = \"...\" }}"
    )]
    OtherHost,
    #[error("the key set cannot be used: {0}")]
    KeySet(#[from] NoKeySet),
    #[error("the file cannot be read: {0}")]
    File(std::io::ErrorKind),
}

/// Reads the keys of an issuer.
#[derive(Debug)]
pub(super) struct Source {
    options: IssuerOptions,
    /// The time for one request.
    time: Duration,
    /// When the file was changed that was read last, and its length.
    read: Option<(SystemTime, u64)>,
}

impl Source {
    pub(super) fn new(options: &IssuerOptions) -> Self {
        Self { options: options.clone(), time: TIME, read: None }
    }

    /// Whether it costs somebody else nothing to ask often.
    pub(super) fn is_local(&self) -> bool {
        matches!(self.options.keys, Some(KeysFrom::File(_)))
    }

    /// Reads the keys. Blocks, for ten seconds at most.
    ///
    /// # Errors
    /// Why there are no keys.
    pub(super) fn read(&mut self) -> Result<Fetched, SourceError> {
        match self.options.keys.clone() {
            Some(KeysFrom::Url(url)) => {
                let address = Address::read(&url)?;
                self.fetch_keys(&address)
            }
            Some(KeysFrom::Discovery { host }) => {
                let address = self.discover(host.as_deref())?;
                self.fetch_keys(&address)
            }
            Some(KeysFrom::File(path)) => self.read_file(&path),
            None => Err(SourceError::NoDiscovery),
        }
    }

    fn keys(&self, text: &[u8]) -> Result<KeySet, SourceError> {
        let IssuerOptions { algorithms, name, .. } = &self.options;
        Ok(KeySet::read(text, algorithms, name)?)
    }

    fn fetch_keys(&self, address: &Address) -> Result<Fetched, SourceError> {
        let (text, age) = self.fetch(address)?;
        Ok(Fetched { keys: Some(self.keys(&text)?), age })
    }

    /// The address of the keys, by the discovery document.
    fn discover(&self, host: Option<&str>) -> Result<Address, SourceError> {
        let IssuerOptions { issuer, .. } = &self.options;
        let own = Address::read(issuer)?;
        let document = Address::read(&format!("{}{DISCOVERY}", issuer.trim_end_matches('/')))?;
        let (text, _) = self.fetch(&document)?;
        let document = object(&text).map_err(|_| SourceError::NoDiscovery)?;
        let text = |name: &str| document.get(name).and_then(serde_json::Value::as_str).ok_or(SourceError::NoDiscovery);
        if text("issuer")? != issuer {
            return Err(SourceError::OtherIssuer);
        }
        let found = Address::read(text("jwks_uri")?)?;
        let is_meant = match host {
            Some(host) => found.is_at(host),
            None => found.has_host_of(&own),
        };
        if is_meant { Ok(found) } else { Err(SourceError::OtherHost) }
    }

    /// The body at an address, and how long it may be used.
    fn fetch(&self, address: &Address) -> Result<(Vec<u8>, Duration), SourceError> {
        let allowed = address.reach(&self.options.allow_networks);
        let outbound =
            Outbound { time: self.time, connect_time: self.time, allowed, setting: "allow_networks of the issuer" };
        exchange(&outbound.agent(), &address.url)
    }

    fn read_file(&mut self, path: &PathBuf) -> Result<Fetched, SourceError> {
        let failed = |error: std::io::Error| SourceError::File(error.kind());
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let state = (metadata.modified().map_err(failed)?, metadata.len());
        if self.read == Some(state) {
            return Ok(Fetched { keys: None, age: FILE_AGE });
        }
        let text = bounded(file).map_err(failed)?.ok_or(SourceError::TooLong)?;
        let keys = self.keys(&text)?;
        self.read = Some(state);
        Ok(Fetched { keys: Some(keys), age: FILE_AGE })
    }
}

fn exchange(agent: &Agent, url: &str) -> Result<(Vec<u8>, Duration), SourceError> {
    let failed = |error: ureq::Error| SourceError::Exchange(told(&error, "issuer"));
    let request = http::Request::get(url).header("accept", "application/json").body(());
    let mut answer = agent.run(request.map_err(|error| failed(error.into()))?).map_err(failed)?;
    if answer.status() != http::StatusCode::OK {
        return Err(SourceError::Status(answer.status().as_u16()));
    }
    let control = answer.headers().get(CACHE_CONTROL).and_then(|value| value.to_str().ok());
    let age = age(control.unwrap_or_default());
    // The limit of the client's own time comes as an error of reading.
    let body = bounded(answer.body_mut().as_reader()).map_err(|error| failed(error.into()))?;
    Ok((body.ok_or(SourceError::TooLong)?, age))
}

/// What a reader gives; none if that is longer than a key set may be.
fn bounded(reader: impl Read) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    reader.take(number(MOST_BYTES) + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= MOST_BYTES).then_some(bytes))
}

/// How long an answer with this `Cache-Control` is used.
fn age(control: &str) -> Duration {
    let (shortest, longest) = AGES;
    let mut age = USUAL_AGE;
    for directive in control.split(',').map(|directive| directive.trim().to_ascii_lowercase()) {
        if matches!(directive.as_str(), "no-store" | "no-cache") {
            return shortest;
        }
        if let Some(seconds) = directive.strip_prefix("max-age=") {
            age = seconds.trim_matches('"').parse().map_or(USUAL_AGE, Duration::from_secs);
        }
    }
    age.clamp(shortest, longest)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    use super::*;

    const KEYS: &str =
        r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}"#;

    /// A server on this machine that sends these bytes behind the head of an answer, and then waits for so long.
    fn server(body: impl Fn(&str) -> String + Send + 'static, wait: Duration) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let first = lines.next().unwrap_or_default();
                while lines.next().is_some_and(|line| !line.is_empty()) {}
                let body = body(first.split(' ').nth(1).unwrap_or_default());
                let _ = write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{body}");
                std::thread::sleep(wait);
            }
        });
        base
    }

    fn read(issuer: &str, keys: KeysFrom, time: Duration) -> Result<Fetched, SourceError> {
        let options = IssuerOptions { issuer: issuer.to_owned(), keys: Some(keys), ..IssuerOptions::default() };
        Source { options, time, read: None }.read()
    }

    #[test]
    fn an_answer_has_256_kib_at_most() {
        let padded = |bytes: usize| format!("{KEYS}{}", " ".repeat(bytes - KEYS.len()));
        let (most, more) = (padded(MOST_BYTES), padded(MOST_BYTES + 1));
        let base = server(move |path| if path == "/most" { most.clone() } else { more.clone() }, Duration::ZERO);
        let of = |path: &str| read("", KeysFrom::Url(format!("{base}/{path}")), TIME);
        assert!(of("most").unwrap().keys.is_some());
        assert_eq!(of("more").err(), Some(SourceError::TooLong));
    }

    #[test]
    fn an_answer_that_does_not_end_is_broken_off() {
        assert_eq!(TIME, Duration::from_secs(5));
        let base = server(|_| "{\"keys\":[".to_owned(), Duration::from_secs(60));
        let began = Instant::now();
        let read = read("", KeysFrom::Url(base), Duration::from_millis(200));
        assert!(matches!(read, Err(SourceError::Exchange(_))), "{read:?}");
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn discovered_keys_are_on_the_issuer_s_host_or_the_one_that_is_named() {
        let keys = server(|_| KEYS.to_owned(), Duration::ZERO).replace("127.0.0.1", "localhost");
        let own = keys.clone();
        let issuer = server(move |_| format!(r#"{{"issuer":"ISSUER","jwks_uri":"{own}"}}"#), Duration::ZERO);
        assert_eq!(read(&issuer, KeysFrom::Discovery { host: None }, TIME).err(), Some(SourceError::OtherIssuer));
        let address = Arc::new(Mutex::new(String::new()));
        let (told, jwks) = (Arc::clone(&address), keys);
        let body = move |_: &str| format!(r#"{{"issuer":"{}","jwks_uri":"{jwks}"}}"#, told.lock().unwrap());
        let issuer = server(body, Duration::ZERO);
        *address.lock().unwrap() = issuer.clone();
        let host = |host: Option<&str>| KeysFrom::Discovery { host: host.map(str::to_owned) };
        assert_eq!(read(&issuer, host(None), TIME).err(), Some(SourceError::OtherHost));
        assert_eq!(read(&issuer, host(Some("keys.example.com")), TIME).err(), Some(SourceError::OtherHost));
        // This machine's other name may lead to another of its addresses, at which nobody listens.
        let found = read(&issuer, host(Some("localhost")), TIME);
        assert!(matches!(found, Ok(Fetched { keys: Some(_), .. }) | Err(SourceError::Exchange(_))), "{found:?}");
    }

    #[test]
    fn keys_are_used_for_a_minute_at_least_and_a_day_at_most() {
        for (control, seconds) in [
            ("", 600),
            ("public", 600),
            ("max-age=0", 60),
            ("public, max-age=300, must-revalidate", 300),
            ("Max-Age=\"120\"", 120),
            ("max-age=99999999999999999", 86_400),
            ("max-age=999999999999999999999999", 600),
            ("max-age=-1", 600),
            ("max-age=300, no-store", 60),
        ] {
            assert_eq!(age(control), Duration::from_secs(seconds), "{control}");
        }
    }
}

//! An issuer on this machine, those who sign for it, and a server that takes its tokens.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use tidegate_tests::{Answer, Server, folder, now, query_string, request, serve};

/// An issuer, with a discovery document and a key set that may be missing.
pub(super) struct Issuer {
    pub(super) base: String,
    keys: Arc<Mutex<Option<Value>>>,
    asked: Arc<AtomicUsize>,
}

impl Issuer {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (keys, asked) = (Arc::<Mutex<Option<Value>>>::default(), Arc::<AtomicUsize>::default());
        let (own, published, counted) = (base.clone(), Arc::clone(&keys), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let path = lines.next().and_then(|line| line.split(' ').nth(1).map(str::to_owned)).unwrap_or_default();
                while lines.next().is_some_and(|line| !line.is_empty()) {}
                let keys = published.lock().unwrap().clone();
                let (status, body) = match (path.as_str(), keys) {
                    ("/.well-known/openid-configuration", _) => {
                        ("200 OK", json!({"issuer": own, "jwks_uri": format!("{own}/jwks")}))
                    }
                    ("/elsewhere/.well-known/openid-configuration", _) => {
                        let other = own.replace("127.0.0.1", "localhost");
                        let named = json!({"issuer": format!("{own}/elsewhere"), "jwks_uri": format!("{other}/jwks")});
                        ("200 OK", named)
                    }
                    ("/moved", _) => ("302 Found", json!({})),
                    ("/jwks", Some(keys)) => {
                        counted.fetch_add(1, Ordering::Relaxed);
                        ("200 OK", keys)
                    }
                    _ => {
                        counted.fetch_add(1, Ordering::Relaxed);
                        ("503 Service Unavailable", json!({}))
                    }
                };
                let body = body.to_string();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nlocation: {own}/jwks\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Self { base, keys, asked }
    }

    pub(super) fn publish(&self, signers: &[&Signer]) {
        let keys: Vec<Value> = signers.iter().map(|signer| signer.public()).collect();
        *self.keys.lock().unwrap() = Some(json!({"keys": keys}));
    }

    pub(super) fn go_down(&self) {
        *self.keys.lock().unwrap() = None;
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Good claims, which end in so many seconds.
    pub(super) fn claims(&self, seconds: i64) -> Value {
        let now = now() / 1_000_000;
        json!({
            "iss": self.base, "aud": "tidegate", "sub": "user-1", "iat": now, "exp": now + seconds,
            "roles": ["viewer"], "org": {"project": "p1"},
        })
    }
}

pub(super) struct Signer {
    kid: &'static str,
    pair: EcdsaKeyPair,
}

pub(super) fn b64(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    pub(super) fn new(kid: &'static str) -> Self {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).unwrap();
        Self { kid, pair }
    }

    pub(super) fn public(&self) -> Value {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        json!({"kty": "EC", "crv": "P-256", "kid": self.kid, "x": b64(x), "y": b64(y)})
    }

    pub(super) fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "ES256", "kid": self.kid, "typ": "at+jwt"});
        let signed = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", b64(signature))
    }
}

/// Rules for viewers, who see one project, and for staff.
pub(super) const RULES: &str = r#"
[[issuer.rule]]
name = "viewers"
when = { "/roles" = "viewer" }
scopes = "query:endpoint:logs.all"
pin = { project = "/org/project" }
limits = { rows = "2" }

[[issuer.rule]]
name = "staff"
when = { "/roles" = "staff" }
scopes = "private"
"#;

/// A server with one issuer, whose `keys` are these.
pub(super) fn server(keys: &str, issuer: &str, rules: &str) -> (Server, tempfile::TempDir) {
    let own = folder();
    let config = own.path().join("tidegate.toml");
    let text = format!(
        "[[issuer]]\nname = \"main\"\nissuer = \"{issuer}\"\nkeys = {{ {keys} }}\naudience = [\"tidegate\"]\n\
         type = \"at+jwt\"\nleeway = \"0 s\"\nfetch_pause = \"1 s\"\nallow_private = true\n{rules}"
    );
    std::fs::write(&config, text).unwrap();
    let data = own.path().join("data");
    let mut command = serve(&data);
    command.arg("--config").arg(&config);
    (Server::spawn(command, data.with_extension("log"), true), own)
}

pub(super) fn start(issuer: &Issuer) -> (Server, tempfile::TempDir) {
    server(&format!("url = \"{}/jwks\"", issuer.base), &issuer.base, RULES)
}

pub(super) fn ask(server: &Server, token: &str, parameters: &[(&str, &str)]) -> Answer {
    let path = format!("/api/endpoints/query/logs.all?{}", query_string(parameters));
    server.call("GET", &path, &[("authorization", &format!("Bearer {token}"))], b"")
}

pub(super) fn of_project(id: &str, project: &str) -> Value {
    let mut event = request(id, now(), "/rest/v1/x");
    event["project"] = json!(project);
    event
}

pub(super) fn refused(answer: &Answer, word: &str) {
    answer.refused(401, "invalid_token", &[word]);
    let header = answer.header("www-authenticate").unwrap();
    assert!(header.starts_with("Bearer error=\"invalid_token\"") && header.contains(word), "{header}");
}

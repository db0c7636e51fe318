//! What tests make on a server before they try it, and requests with a token.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Answer, PRIVATE, Raw, Server, binary, query_string};

impl Answer {
    /// Asserts the status, and tells the body if it is another one.
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.body);
        self
    }
}

impl Raw {
    /// Asserts the status, and tells the body if it is another one.
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }
}

impl Server {
    /// What the private token reads of a resource; null if there is none.
    pub fn read(&self, path: &str) -> Value {
        self.manage("GET", path, &Value::Null).body
    }

    /// Saves an endpoint, which must be taken.
    #[track_caller]
    pub fn save(&self, endpoint: &Value) -> Answer {
        self.manage("POST", "/api/endpoints", endpoint).is(201)
    }

    /// Makes a token; the answer has its `id` and the `token`.
    #[track_caller]
    pub fn made_token(&self, rights: &Value) -> Answer {
        self.manage("POST", "/api/access-tokens", rights).is(201)
    }

    /// Makes a token: its id and itself.
    #[track_caller]
    pub fn token_and_id(&self, rights: &Value) -> (String, String) {
        let made = self.made_token(rights).body;
        let text = |name: &str| made.get(name).and_then(Value::as_str).expect("a token has it").to_owned();
        (text("id"), text("token"))
    }

    /// Makes a token.
    #[track_caller]
    pub fn token(&self, rights: &Value) -> String {
        self.token_and_id(rights).1
    }

    /// A command of the binary for this server, with the private token.
    pub fn client(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).env("TIDEGATE_URL", &self.base).env("TIDEGATE_TOKEN", PRIVATE).stdin(Stdio::null());
        command
    }

    /// A query with a token.
    pub fn query_as(&self, token: &str, endpoint: &str, parameters: &[(&str, &str)]) -> Answer {
        let path = format!("/api/endpoints/query/{endpoint}?{}", query_string(parameters));
        self.call("GET", &path, &[("x-api-key", token)], b"")
    }
}

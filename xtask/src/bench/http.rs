//! HTTP/1.1 over one connection to the loopback address: what a measurement needs of a client, and nothing that would
//! cost time beside the service, such as a pool, TLS or a parser of answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
    token: &'static str,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// What the request cost, as `x-tidegate-cost` says it; empty if nothing is said.
    pub(crate) cost: String,
}

impl Answer {
    /// The body, if the status is one of success.
    ///
    /// # Errors
    /// What the service says.
    pub(crate) fn good(self) -> Result<Vec<u8>, String> {
        if (200..300).contains(&self.status) {
            return Ok(self.body);
        }
        Err(format!("status {}: {}", self.status, String::from_utf8_lossy(&self.body)))
    }
}

impl Connection {
    /// Connects to `http://HOST:PORT`; every request has the token.
    ///
    /// # Errors
    /// Where there is no service.
    pub(crate) fn open(url: &str, token: &'static str) -> Result<Self, String> {
        let host = url.strip_prefix("http://").unwrap_or(url).to_owned();
        let told = |error: std::io::Error| format!("{url}: {error}");
        let stream = TcpStream::connect(&host).map_err(told)?;
        stream.set_nodelay(true).map_err(told)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(told)?;
        Ok(Self { stream: BufReader::with_capacity(1 << 16, stream), host, token })
    }

    /// # Errors
    /// Where the connection breaks, or what is read is no HTTP.
    pub(crate) fn get(&mut self, path: &str) -> Result<Answer, String> {
        self.send("GET", path, "", &[])
    }

    /// # Errors
    /// As of `get`.
    pub(crate) fn post(&mut self, path: &str, kind: &str, body: &[u8]) -> Result<Answer, String> {
        self.send("POST", path, kind, body)
    }

    fn send(&mut self, method: &str, path: &str, kind: &str, body: &[u8]) -> Result<Answer, String> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nX-API-KEY: {}\r\n", self.host, self.token);
        if method == "POST" {
            head.push_str(&format!("Content-Type: {kind}\r\nContent-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let stream = self.stream.get_mut();
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        sent.map_err(|error| format!("{method} {path}: {error}"))?;
        self.read().map_err(|error| format!("{method} {path}: {error}"))
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => Err("the connection ended".to_owned()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn read(&mut self) -> Result<Answer, String> {
        let head = self.line()?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| format!("{head:?} is no status line"))?;
        let (mut length, mut chunked, mut cost) = (0, false, String::new());
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(|_| format!("{line:?} is no length"))?;
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = value.trim().eq_ignore_ascii_case("chunked");
            } else if name.eq_ignore_ascii_case("x-tidegate-cost") {
                value.trim().clone_into(&mut cost);
            }
        }
        let mut body = Vec::new();
        if !chunked {
            self.take(length, &mut body)?;
            return Ok(Answer { status, body, cost });
        }
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16).map_err(|_| format!("{line:?} is no size of a chunk"))?;
            self.take(size, &mut body)?;
            // The end of the line after the chunk, or after the last one.
            self.line()?;
            if size == 0 {
                return Ok(Answer { status, body, cost });
            }
        }
    }

    fn take(&mut self, length: u64, body: &mut Vec<u8>) -> Result<(), String> {
        let taken = (&mut self.stream).take(length).read_to_end(body).map_err(|error| error.to_string())?;
        if taken as u64 == length { Ok(()) } else { Err("the answer ended in the middle".to_owned()) }
    }
}

/// A text as it stands in the query string of an address.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 3 / 2);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn texts_stand_in_addresses() {
        assert_eq!(encoded("a b&c='é'"), "a%20b%26c%3D%27%C3%A9%27");
    }
}

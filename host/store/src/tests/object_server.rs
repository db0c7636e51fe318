//! An S3 server in this process, for faults that a real one has rarely.
//!
//! It knows the requests that this crate makes of a bucket, and no signatures. Before each request it asks a function
//! which fault the request meets. The black-box tests start it, too.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;

/// What a request meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// An answer with this status.
    Status(u16),
    /// No answer for so long, and then the right one.
    Slow(Duration),
    /// The right answer, whose body ends in the middle with the connection.
    Cut,
    /// The right answer with a bit of its body changed.
    Flip,
    /// The request is carried out, and the connection ends without an answer.
    Close,
    /// A list that lacks the last of its objects.
    Stale,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// The name of the object, without the bucket.
    pub(super) object: String,
    query: String,
    is_create: bool,
    range: Option<(usize, usize)>,
}

impl Request {
    /// The bytes that it asks for; 0 if it names none.
    pub(super) fn bytes(&self) -> usize {
        self.range.map_or(0, |(start, end)| end + 1 - start)
    }
}

type Faults = Box<dyn FnMut(&Request) -> Option<Fault> + Send>;

struct State {
    objects: Mutex<BTreeMap<String, Bytes>>,
    /// The parts of uploads by upload and number.
    parts: Mutex<BTreeMap<(String, usize), Vec<u8>>>,
    faults: Mutex<Faults>,
    requests: AtomicUsize,
    running: AtomicUsize,
    most_running: AtomicUsize,
    throttle: Mutex<Option<Throttle>>,
}

/// How slow answers are: before their first byte, and all of them together in bytes a second.
struct Throttle {
    wait: Duration,
    rate: f64,
    /// Until when the line is taken.
    taken: Instant,
}

impl State {
    /// Waits until so many bytes of an answer may be sent.
    fn pass(&self, bytes: usize) {
        let mut throttle = self.throttle.lock().unwrap();
        let Some(Throttle { rate, taken, .. }) = throttle.as_mut() else { return };
        *taken = (*taken).max(Instant::now()) + Duration::from_secs_f64(bytes as f64 / *rate);
        let until = *taken;
        drop(throttle);
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }
}

/// The server. Its thread ends with the process.
pub(super) struct ObjectServer {
    address: SocketAddr,
    state: Arc<State>,
}

impl ObjectServer {
    pub(super) fn start() -> ObjectServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            objects: Mutex::default(),
            parts: Mutex::default(),
            faults: Mutex::new(Box::new(|_| None)),
            requests: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
            throttle: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(&connection, &state));
            }
        });
        ObjectServer { address, state }
    }

    /// Another server with the same objects.
    pub(super) fn again(&self) -> ObjectServer {
        let server = ObjectServer::start();
        *server.state.objects.lock().unwrap() = self.objects();
        server
    }

    /// From now on an answer comes after this time, and all together at so many bytes a second.
    pub(super) fn throttle(&self, wait: Duration, rate: f64) {
        *self.state.throttle.lock().unwrap() = Some(Throttle { wait, rate, taken: Instant::now() });
    }

    /// The settings of a client.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let endpoint = format!("http://{}", self.address);
        [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("HOME", "/nowhere"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    /// Puts the files of segments of a data folder into the bucket below a prefix.
    pub(super) fn put_segments(&self, data: &Path, prefix: &str) {
        let list = |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        for path in list(&data.join("segments")).flat_map(|source| list(&source)) {
            let name = path.strip_prefix(data).unwrap().to_str().unwrap().to_owned();
            self.put(&format!("{prefix}{name}"), std::fs::read(path).unwrap());
        }
    }

    pub(super) fn put(&self, object: &str, bytes: Vec<u8>) {
        self.state.objects.lock().unwrap().insert(object.to_owned(), bytes.into());
    }

    pub(super) fn objects(&self) -> BTreeMap<String, Bytes> {
        self.state.objects.lock().unwrap().clone()
    }

    pub(super) fn remove(&self, object: &str) {
        self.state.objects.lock().unwrap().remove(object);
    }

    /// From now on each request meets what this says.
    pub(super) fn faults(&self, faults: impl FnMut(&Request) -> Option<Fault> + Send + 'static) {
        *self.state.faults.lock().unwrap() = Box::new(faults);
    }

    /// Requests so far.
    pub(super) fn requests(&self) -> usize {
        self.state.requests.load(Ordering::SeqCst)
    }

    /// The most requests that were being answered at the same time.
    pub(super) fn most_running(&self) -> usize {
        self.state.most_running.load(Ordering::SeqCst)
    }
}

/// Answers the requests of a connection.
fn serve(connection: &TcpStream, state: &State) {
    let mut reader = BufReader::new(connection);
    while let Some((request, sent)) = read_request(&mut reader) {
        state.requests.fetch_add(1, Ordering::SeqCst);
        let running = state.running.fetch_add(1, Ordering::SeqCst) + 1;
        state.most_running.fetch_max(running, Ordering::SeqCst);
        let fault = (state.faults.lock().unwrap())(&request);
        if let Some(Fault::Slow(time)) = fault {
            std::thread::sleep(time);
        }
        let (status, headers, body) = answer(&request, sent, fault, state);
        state.running.fetch_sub(1, Ordering::SeqCst);
        let length = body.len();
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n");
        let sent = match (fault, request.method.as_str()) {
            (Some(Fault::Close), _) => break,
            (_, "HEAD") => head.into_bytes(),
            (Some(Fault::Cut), _) => [head.as_bytes(), &body[..length / 2]].concat(),
            (Some(Fault::Flip), _) if status < 300 => {
                let mut body = body.to_vec();
                body[length / 2] ^= 1;
                [head.as_bytes(), &body].concat()
            }
            _ => [head.as_bytes(), &body].concat(),
        };
        let wait = state.throttle.lock().unwrap().as_ref().map_or(Duration::ZERO, |throttle| throttle.wait);
        std::thread::sleep(wait);
        let mut writer = connection;
        let is_sent = sent.chunks(64 << 10).all(|chunk| {
            state.pass(chunk.len());
            writer.write_all(chunk).is_ok()
        });
        if !is_sent || fault == Some(Fault::Cut) {
            break;
        }
    }
    let _ = connection.shutdown(Shutdown::Both);
}

fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<(Request, Vec<u8>)> {
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut range, mut length, mut is_create) = (None, 0, false);
    loop {
        let header = line()?;
        let Some((name, value)) = header.split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "range" => {
                let (start, end) = value.strip_prefix("bytes=")?.split_once('-')?;
                range = Some((start.parse().ok()?, end.parse().ok()?));
            }
            "if-none-match" => is_create = true,
            "content-length" => length = value.parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = path.split_once('?').unwrap_or((&path, ""));
    let (object, query) =
        (path.trim_start_matches('/').split_once('/').map_or("", |(_, object)| object), query.to_owned());
    Some((Request { method, object: object.to_owned(), query, is_create, range }, body))
}

/// The answer to a request that changes something or lists objects; `None` if it only reads one.
fn changed(request: &Request, sent: Vec<u8>, fault: Option<Fault>, state: &State) -> Option<(u16, String, Bytes)> {
    let mut objects = state.objects.lock().unwrap();
    let value = |name: &str| {
        let pair = request.query.split('&').find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name));
        pair.map(|(_, value)| value.replace("%2F", "/"))
    };
    let said = || "etag: \"one\"\r\n".to_owned();
    let answer = match (request.method.as_str(), value("uploadId")) {
        ("PUT", Some(upload)) => {
            state.parts.lock().unwrap().insert((upload, value("partNumber").unwrap().parse().unwrap()), sent);
            (200, said(), Bytes::new())
        }
        ("PUT", None) if request.is_create && objects.contains_key(&request.object) => {
            (412, String::new(), "<Error><Code>PreconditionFailed</Code></Error>".into())
        }
        ("PUT", None) => {
            objects.insert(request.object.clone(), sent.into());
            (200, said(), Bytes::new())
        }
        ("POST", None) if request.query.starts_with("delete") => {
            let body = String::from_utf8(sent).unwrap();
            let keys = body.split("<Key>").skip(1).map(|key| key.split_once("</Key>").unwrap().0);
            let deleted = keys.map(|key| {
                objects.remove(key);
                format!("<Deleted><Key>{key}</Key></Deleted>")
            });
            let body = format!("<DeleteResult>{}</DeleteResult>", deleted.collect::<String>());
            (200, String::new(), body.into())
        }
        ("POST", None) => {
            let upload = state.requests.load(Ordering::SeqCst);
            let body =
                format!("<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>");
            (200, String::new(), body.into())
        }
        ("POST", Some(upload)) => {
            let parts = state.parts.lock().unwrap();
            let of_upload = parts.iter().filter(|((of, _), _)| *of == upload).map(|(_, part)| part.as_slice());
            objects.insert(request.object.clone(), of_upload.collect::<Vec<_>>().concat().into());
            let body = "<CompleteMultipartUploadResult><ETag>one</ETag></CompleteMultipartUploadResult>";
            (200, String::new(), body.into())
        }
        ("DELETE", None) => {
            let status = objects.remove(&request.object).map_or(404, |_| 204);
            (status, String::new(), Bytes::new())
        }
        ("DELETE", Some(_)) => (204, String::new(), Bytes::new()),
        ("GET", None) if request.query.contains("list-type=2") => {
            let prefix = value("prefix").unwrap_or_default();
            let found: Vec<_> = objects.iter().filter(|(name, _)| name.starts_with(&prefix)).collect();
            let lacking = usize::from(fault == Some(Fault::Stale)).min(found.len());
            let listed = found[..found.len() - lacking].iter().map(|(name, bytes)| {
                let (size, when) = (bytes.len(), "2026-11-23T00:00:00.000Z");
                format!("<Contents><Key>{name}</Key><Size>{size}</Size><LastModified>{when}</LastModified></Contents>")
            });
            let body = format!("<ListBucketResult>{}</ListBucketResult>", listed.collect::<String>());
            (200, String::new(), body.into())
        }
        _ => return None,
    };
    Some(answer)
}

fn answer(request: &Request, sent: Vec<u8>, fault: Option<Fault>, state: &State) -> (u16, String, Bytes) {
    if let Some(Fault::Status(status)) = fault {
        let code = match status {
            403 => "AccessDenied",
            503 => "SlowDown",
            _ => "InternalError",
        };
        return (status, String::new(), format!("<Error><Code>{code}</Code></Error>").into());
    }
    if let Some(answer) = changed(request, sent, fault, state) {
        return answer;
    }
    let Some(found) = state.objects.lock().unwrap().get(&request.object).cloned() else {
        return (404, String::new(), "<Error><Code>NoSuchKey</Code></Error>".into());
    };
    let said = "etag: \"one\"\r\nlast-modified: Mon, 23 Nov 2026 00:00:00 GMT\r\n";
    match request.range {
        None => (200, said.to_owned(), found),
        Some((start, _)) if start >= found.len() => (416, String::new(), "<Error/>".into()),
        Some((start, end)) => {
            let end = end.min(found.len() - 1);
            let range = format!("{said}content-range: bytes {start}-{end}/{}\r\n", found.len());
            (206, range, found.slice(start..=end))
        }
    }
}

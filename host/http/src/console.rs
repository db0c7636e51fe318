//! `/console`: the pages where people look at logs and write endpoints. The files are those of `tidegate-console`.
//!
//! The pages run under a Content-Security-Policy that allows code, styles and requests of this server alone, and nothing
//! inline: a log line that is shown cannot become code. They set no cookies; the access token is sent as by any client.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use tidegate_console::{File, LICENCES, PAGE, file};
use tidegate_model::{Code, Failure};

use crate::accept::accepts_coding;
use crate::failure::Refusal;
use crate::response::Accounted;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page of a build without the console.
const ABSENT: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<title>Tidegate: no console in this build</title>
<h1>This build has no console</h1>
<p>The console is built with Node.js, which was not there when this program was built, or it was left out with
<code>TIDEGATE_CONSOLE=off</code>. Everything else works.
<p>To have it: install Node.js 20.19 or newer with npm, then run <code>cargo clean -p tidegate-console</code> and
<code>cargo build</code> again.
<p>Without it: <a href=\"/api/openapi\">/api/openapi</a> describes every route.
</html>
";

/// `GET /`: sends browsers to the console. For all others there is nothing here.
pub(crate) fn start(headers: &HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.split(',').any(|range| range.trim().starts_with("text/html")) {
        let mut response = Redirect::to("/console").into_response();
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
        return response;
    }
    Refusal::from(Failure::new(Code::NotFound, "there is nothing at /")).into_response()
}

/// `GET /console`.
pub(crate) async fn page(headers: HeaderMap) -> Response {
    let mut response = match file(PAGE) {
        Some(page) => sent(page, &headers),
        None => ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], ABSENT).into_response(),
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    guarded(response)
}

/// `GET /console/licenses.md`: the packages that are in the files, and their licences.
pub(crate) async fn licences(headers: HeaderMap) -> Response {
    let Some(file) = file(LICENCES) else {
        return Refusal::from(Failure::new(Code::NotFound, "this build has no console")).into_response();
    };
    let mut response = sent(file, &headers);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    guarded(response)
}

/// `GET /console/assets/{name}`. The name has a hash of the content, so browsers may keep it for ever.
pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(asset) = file(&name).filter(|file| file.name != PAGE && file.name != LICENCES) else {
        return Refusal::from(Failure::new(Code::NotFound, "the console has no such file")).into_response();
    };
    let mut response = sent(asset, &headers);
    let immutable = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(header::CACHE_CONTROL, immutable);
    guarded(response)
}

/// The file in the best encoding that the client accepts.
fn sent(file: &File, headers: &HeaderMap) -> Response {
    let (coding, body) = if accepts_coding(headers, "br") {
        (Some("br"), Bytes::from_static(file.brotli))
    } else if accepts_coding(headers, "gzip") {
        (Some("gzip"), Bytes::from_static(file.gzip))
    } else {
        match plain(file) {
            Ok(plain) => (None, plain),
            Err(_) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    };
    let mut response = ([(header::CONTENT_TYPE, file.content_type)], body).into_response();
    if let Some(coding) = coding {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
    }
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    response.extensions_mut().insert(Accounted);
    response
}

/// The file without compression. It is decompressed once, and all who ask share its bytes.
fn plain(file: &File) -> std::io::Result<Bytes> {
    static PLAIN: Mutex<BTreeMap<&str, Bytes>> = Mutex::new(BTreeMap::new());
    let mut kept = PLAIN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(plain) = kept.get(file.name) {
        return Ok(plain.clone());
    }
    let plain = Bytes::from(file.plain()?);
    kept.insert(file.name, plain.clone());
    Ok(plain)
}

/// Adds the headers that every file of the console has.
fn guarded(mut response: Response) -> Response {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

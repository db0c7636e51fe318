//! From a path to its route: identifiers are all one.

/// The path without its query, in which each part that looks like an identifier is `:id`: a number, a UUID, or 16 and
/// more hexadecimal digits.
pub(crate) fn route(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let mut route = String::with_capacity(path.len());
    for (number, part) in path.split('/').enumerate() {
        if number > 0 {
            route.push('/');
        }
        route.push_str(if is_identifier(part) { ":id" } else { part });
    }
    route
}

fn is_identifier(part: &str) -> bool {
    let bytes = part.as_bytes();
    let is_number = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
    let is_uuid = bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    let is_hash = bytes.len() >= 16 && bytes.iter().all(u8::is_ascii_hexdigit);
    is_number || is_uuid || is_hash
}

#[cfg(test)]
mod tests {
    use super::route;

    #[test]
    fn identifiers_are_folded() {
        for (path, expected) in [
            ("/users/123", "/users/:id"),
            ("/users/123/posts/7?select=*", "/users/:id/posts/:id"),
            ("/object/5e0f0f3e-31a0-4a27-b9a2-90a1f3c1d9e2/avatar.png", "/object/:id/avatar.png"),
            ("/blobs/9f86d081884c7d65", "/blobs/:id"),
        ] {
            assert_eq!(route(path), expected);
        }
    }

    #[test]
    fn words_stay() {
        for path in ["/rest/v1/todos", "/auth/v1/token", "/", "", "/decade", "/é/", "/v2beta1", "/a--b", "/12a"] {
            assert_eq!(route(path), path);
        }
    }
}

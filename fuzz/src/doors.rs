//! What must hold for any body at any door.

use std::sync::LazyLock;

use tidegate_http::{body_forms, read_body};

/// The longest reason for a refusal. It may quote a part of the body.
const LONGEST_REASON: usize = 4000;

static FORMS: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(body_forms);

/// One body, after a line with the path and the media type: it is refused with words, or all its events are accounted
/// for. Without such a line the first byte chooses the form.
pub fn doors(input: &[u8]) {
    let named = input.iter().position(|byte| *byte == b'\n').and_then(|end| {
        let (line, body) = input.split_at_checked(end)?;
        let form = FORMS.iter().find(|(path, kind)| line == format!("{path} {kind}").as_bytes())?;
        Some((*form, body.get(1..)?))
    });
    let chosen = || {
        let (choice, body) = input.split_first()?;
        Some((*FORMS.get(usize::from(*choice) % FORMS.len().max(1))?, body))
    };
    let Some((form, body)) = named.or_else(chosen) else { return };
    let read = read_body(form, body);
    assert_eq!(read, read_body(form, body), "a body is one thing, and then another");
    match read {
        Ok(content) => {
            // An event takes a byte at least, and each of the others has its reason.
            assert!(content.events + content.refused.len() <= body.len() * 32, "{form:?} makes {content:?}");
            content.refused.iter().for_each(|reason| spoken(reason));
        }
        Err(failure) => {
            assert!((400..500).contains(&failure.code.status()), "{form:?} fails: {failure:?}");
            spoken(&failure.message);
        }
    }
}

fn spoken(reason: &str) {
    assert!(!reason.trim().is_empty(), "a refusal without a word");
    assert!(reason.len() < LONGEST_REASON, "a refusal with too many words: {} bytes", reason.len());
}

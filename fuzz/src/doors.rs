//! What must hold for any body at any door.

use std::sync::LazyLock;

use tidegate_doors::{BodyContent, body_forms, read_body};
use tidegate_model::Failure;

use crate::tenant::{held_to, policy};

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
    let read = read_body(form, body, None);
    let again = read_body(form, body, None);
    assert_eq!(without_ids(&read), without_ids(&again), "a body is one thing, and then another");
    match read {
        Ok(content) => {
            // Setting a value may make the whole too large.
            if let Ok(own) = read_body(form, body, Some(policy())) {
                held_to(&content.events, &own.events, own.refused.len() - content.refused.len());
                own.refused.iter().for_each(|reason| spoken(reason));
            }
            // An event takes a byte at least, and each of the others has its reason.
            assert!(content.events.len() + content.refused.len() <= body.len() * 32, "{form:?} makes {content:?}");
            content.refused.iter().for_each(|reason| spoken(reason));
        }
        Err(failure) => {
            assert!((400..500).contains(&failure.code.status()), "{form:?} fails: {failure:?}");
            spoken(&failure.message);
        }
    }
}

/// What is read, without the ids, which may be made up.
fn without_ids(read: &Result<BodyContent, Failure>) -> Result<BodyContent, Failure> {
    let mut read = read.clone();
    for event in read.iter_mut().flat_map(|content| &mut content.events) {
        event.as_object_mut().and_then(|fields| fields.remove("id"));
    }
    read
}

fn spoken(reason: &str) {
    assert!(!reason.trim().is_empty(), "a refusal without a word");
    assert!(reason.len() < LONGEST_REASON, "a refusal with too many words: {} bytes", reason.len());
}

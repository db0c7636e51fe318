//! What a component logs, and why it was stopped, for its author to read.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Where components' own lines go.
const GUEST: &str = "tidegate::guest";

/// Lines since they were last taken.
#[derive(Debug, Clone, Default)]
pub(super) struct GuestLog(Arc<Mutex<Vec<String>>>);

impl GuestLog {
    /// Begins to listen; once in a process.
    pub(super) fn start() -> Self {
        let log = Self::default();
        let _ = tracing_subscriber::registry().with(log.clone()).try_init();
        log
    }

    /// The lines since the last call.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: Subscriber> Layer<S> for GuestLog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let (level, of_guest) = (*event.metadata().level(), event.metadata().target() == GUEST);
        // Of the host, only what goes wrong.
        if !of_guest && level > Level::WARN {
            return;
        }
        let mut text = Text::default();
        event.record(&mut text);
        let line = match of_guest {
            true => format!("guest {}: {}", level.as_str().to_lowercase(), harmless(&text.line)),
            false => format!("{}: {}{}", level.as_str().to_lowercase(), text.message, text.others),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

/// A guest's text without what a terminal would obey.
fn harmless(text: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' { c.escape_debug().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

#[derive(Default)]
struct Text {
    line: String,
    message: String,
    others: String,
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "line" => self.line = value.to_owned(),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.others, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_guests_and_failures_of_the_host_are_kept() {
        let log = GuestLog::default();
        let subscriber = tracing_subscriber::registry().with(log.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!(target: "tidegate::guest", line = "half\x1b[2J\nway");
            tracing::info!("nothing to see");
            tracing::warn!(code = "timeout", "the component was stopped");
        });
        assert_eq!(
            log.take(),
            ["guest debug: half\\u{1b}[2J\nway", "warn: the component was stopped code=\"timeout\""]
        );
        assert!(log.take().is_empty());
    }
}

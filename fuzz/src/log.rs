//! What the crates tell the log and not the caller: why the engine failed. It makes a report worth
//! reading.

use std::cell::RefCell;
use std::fmt::{Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

struct Keep;

impl<S: tracing::Subscriber> Layer<S> for Keep {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == tracing::Level::ERROR {
            let mut text = Text(String::new());
            event.record(&mut text);
            LAST.with_borrow_mut(|last| *last = text.0);
        }
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

/// Starts to listen.
pub(crate) fn listen() {
    // Another subscriber may be set already, in a test; then there is less to report.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Keep));
}

/// The last error that was logged on this thread.
pub(crate) fn last() -> String {
    LAST.with_borrow(Clone::clone)
}

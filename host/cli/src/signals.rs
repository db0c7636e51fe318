//! What a manager of services says to the process, and is told by it: signals, and systemd's notifications.

use std::io::IsTerminal;
use std::sync::Weak;

use sd_notify::NotifyState;
use tidegate_service::Service;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Notifies systemd, if it asks for notifications.
pub(crate) fn tell(states: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd cannot be told");
    }
}

/// The signals that the process listens to.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    has_terminal: bool,
}

impl Signals {
    /// Listens from now on; `None` where the system does not allow it.
    pub(crate) fn listen() -> Option<Self> {
        let of = |kind| signal(kind).ok();
        Some(Self {
            terminate: of(SignalKind::terminate())?,
            interrupt: of(SignalKind::interrupt())?,
            hangup: of(SignalKind::hangup())?,
            has_terminal: std::io::stdin().is_terminal() || std::io::stderr().is_terminal(),
        })
    }

    /// Waits for the word to end. SIGHUP is one where the terminal of the process is closed; without a terminal it asks for
    /// settings to be read again, and ending would count as a clean end, after which nobody starts the server again.
    pub(crate) async fn end(&mut self, reload: impl Fn()) {
        loop {
            tokio::select! {
                () = Self::any(&mut self.terminate, &mut self.interrupt) => break,
                _ = self.hangup.recv() => {
                    if self.has_terminal {
                        break;
                    }
                    reload();
                }
            }
        }
        tell(&[NotifyState::Stopping]);
    }

    /// Waits for another word to end.
    pub(crate) async fn again(&mut self) {
        Self::any(&mut self.terminate, &mut self.interrupt).await;
    }

    /// Ends the process at once when the next word comes.
    pub(crate) fn exit_at_next(mut self) {
        tokio::spawn(async move {
            self.again().await;
            std::process::exit(130);
        });
    }

    async fn any(terminate: &mut Signal, interrupt: &mut Signal) {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}

/// Waits for the word to end, for what has no settings to read again. A second word ends the process at once.
pub(crate) async fn stopped() {
    let Some(mut signals) = Signals::listen() else { return std::future::pending().await };
    signals.end(|| tracing::warn!("SIGHUP does nothing: settings are read at the start")).await;
    signals.exit_at_next();
}

/// Tells the watchdog of systemd that the server lives, if it asks: this runs on the threads that serve requests, and each time the
/// thread that stores events has answered before. Where either hangs, nothing is said, and systemd starts the server again.
pub(crate) async fn keep_watchdog(service: Weak<Service>) {
    let Some(time) = sd_notify::watchdog_enabled() else { return };
    while let Some(service) = service.upgrade() {
        // It fails only when the store is closed.
        if service.store.answers().await.is_err() {
            return;
        }
        drop(service);
        tell(&[NotifyState::Watchdog]);
        tokio::time::sleep(time / 3).await;
    }
}

//! Who sends a message, and where it goes.
//!
//! Syslog has no word for a sender that proves who it is. So a message is taken from a sender with a certificate of the
//! operator's authority, from one in the operator's networks, or with a token in its structured data. The first two may
//! send to the source of the settings only; a token is the same as on every other way in.

use std::net::IpAddr;

use sha2::{Digest, Sha256};
use tidegate_model::{Audience, Code};
use tidegate_service::Identity;

use super::record::Credentials;
use super::refusal::Reason;
use crate::service::DoorService;

/// The sender at the other end of a connection.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) peer: IpAddr,
    /// Whether it needs no token.
    pub(super) is_trusted: bool,
}

/// Where a message goes, and on whose account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) source: String,
    /// What the rate is limited by: the token, or the address of a sender without one.
    pub(super) identity: Identity,
    /// For whom the message is sent: for the tenant of the token, if it has one.
    pub(super) audience: Audience,
}

impl Sender {
    /// Where a message with these credentials goes.
    ///
    /// # Errors
    /// [`Reason::Unauthorized`], [`Reason::NoSource`] or [`Reason::NotForTenant`].
    pub(super) fn destination(
        &self,
        service: &dyn DoorService,
        credentials: &Credentials,
    ) -> Result<Destination, Reason> {
        let default = service.options().syslog.source.as_str();
        let Some(token) = &credentials.token else {
            if !self.is_trusted {
                return Err(Reason::Unauthorized);
            }
            // Who needs no token cannot choose.
            let source = service.source_of_settings(default).ok_or(Reason::NoSource)?;
            let identity = Sha256::new().chain_update(b"syslog ").chain_update(self.peer.to_string()).finalize().into();
            return Ok(Destination { source, identity, audience: Audience::All });
        };
        let access = service.access_of_token(token).map_err(|_| Reason::Unauthorized)?;
        let named = credentials.source.as_deref().unwrap_or(default);
        if named.is_empty() {
            return Err(Reason::NoSource);
        }
        let source = service.source_for(&access, named).map_err(|failure| match failure.code {
            Code::NotFound => Reason::NoSource,
            Code::Forbidden => Reason::NotForTenant,
            _ => Reason::Unauthorized,
        })?;
        Ok(Destination { source, identity: access.identity, audience: access.audience() })
    }
}

//! How an endpoint is saved, as the query string says it, and the answer to that.

use serde::Deserialize;
use tidegate_model::{Code, Failure};
use tidegate_service::registration::Saved;
use tidegate_service::{SaveRequest, Service};

use super::endpoint_view::{Endpoint, EndpointView, saved_shown, shown};
use super::precondition::tag_of_version;
use super::{Admin, ManageResult, created, found, tagged};

/// The query string of a route that saves.
#[derive(Deserialize)]
pub(crate) struct Saving {
    make_sources: Option<String>,
    refuse_wider: Option<String>,
    strict: Option<String>,
}

impl Saving {
    /// Checks that it can be read, before what it is about is.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.make_sources().and(self.refuse_wider()).and(self.strict()).map(drop)
    }

    /// Whether sources that are named and not there are made.
    pub(super) fn make_sources(&self) -> Result<bool, Failure> {
        flag("make_sources", self.make_sources.as_deref())
    }

    /// Whether a change is refused through which tokens read more than before.
    pub(super) fn refuse_wider(&self) -> Result<bool, Failure> {
        flag("refuse_wider", self.refuse_wider.as_deref())
    }

    /// Whether a change with warnings is refused.
    pub(super) fn strict(&self) -> Result<bool, Failure> {
        flag("strict", self.strict.as_deref())
    }
}

/// Reports an error in a saved query as a refusal of the field `query`.
pub(super) fn on_save(mut failure: Failure) -> Failure {
    if failure.code.status() == 400 {
        failure.location = Some("query".to_owned());
        failure.code = Code::Refused;
    }
    failure
}

/// A flag of the query string.
pub(super) fn flag(name: &str, sent: Option<&str>) -> Result<bool, Failure> {
    match sent {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Failure::new(Code::InvalidParameter, format!("{name} is true or false")).about(name)),
    }
}

impl Admin {
    /// Saves a version of an endpoint. A change by somebody else since the request's precondition was checked is the same to the
    /// client as one before it.
    ///
    /// # Errors
    /// Those of the gate, about the field `query` where they are about the query; of the store.
    pub(super) async fn save(&self, component: &[u8], saving: SaveRequest<'_>) -> Result<Saved, Failure> {
        let saved = self.registrar.save_component(component, saving).await.map_err(on_save);
        saved.map_err(|failure| self.precondition.of_save(failure))
    }
}

/// The answer with an endpoint that was just saved, with its entity tag. What its author is told and what that widens are among
/// its warnings.
pub(super) async fn saved_answer(service: &Service, saved: Saved, is_new: bool) -> ManageResult<Endpoint> {
    let mut shown = saved_shown(service, &saved.endpoint).await?;
    shown.warnings.extend(saved.remarks.iter().map(ToString::to_string));
    shown.warnings.extend(saved.widened.lines());
    shown.made_sources = saved.made;
    let tag = tag_of_version(saved.endpoint.id, saved.endpoint.version);
    tagged(if is_new { created(shown) } else { found(shown) }, &tag)
}

/// The answer with an endpoint that is as the request wants it: nothing is saved, and no version is made.
pub(super) async fn unchanged(service: &Service, endpoint: EndpointView) -> ManageResult<Endpoint> {
    let tag = endpoint.tag();
    tagged(found(shown(service, endpoint).await?), &tag)
}

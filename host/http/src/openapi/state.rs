//! What the document is made of and what of it is kept, beside what all handlers share.

use std::ops::Deref;
use std::sync::Arc;

use super::fixed_document::FixedDocument;
use super::row_schemas::RowSchemas;
use crate::app::App;

/// The state of the route.
#[derive(Debug)]
pub(crate) struct OpenApi {
    app: Arc<App>,
    /// The schemas of endpoints' rows.
    pub(super) row_schemas: RowSchemas,
    /// The document for callers without a token.
    pub(super) fixed_document: FixedDocument,
}

impl OpenApi {
    pub(crate) fn new(app: Arc<App>) -> Arc<Self> {
        Arc::new(Self { app, row_schemas: RowSchemas::default(), fixed_document: FixedDocument::default() })
    }
}

impl Deref for OpenApi {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

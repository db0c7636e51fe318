//! What callers learn of a component that cannot be prepared.
#![expect(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;

use tidegate_compiler::manifest_of_texts;
use tidegate_store::NewVersion;
use uuid::Uuid;

use super::*;
use crate::answer::Format;
use crate::options::Options;
use crate::registry::Endpoint;
use crate::service::Service;
use crate::tokens::Access;

#[tokio::test]
async fn why_a_component_cannot_be_made_ready_is_not_for_its_callers() {
    let folder = tempfile::tempdir().unwrap();
    let (service, _) = Service::open(Options::new(folder.path())).await.unwrap();
    let manifest = manifest_of_texts("name = \"junk\"", "SELECT event_message FROM `postgres.logs`").unwrap();
    let record = service.store.catalog().put_endpoint(NewVersion {
        id: Uuid::new_v4(),
        name: "junk",
        manifest: &serde_json::to_string(&manifest).unwrap(),
        component: b"junk",
        component_digest: "00",
        author: "a test",
        sources: &BTreeMap::new(),
        alerts: &[],
    });
    let endpoint = Arc::new(Endpoint::of(record.unwrap(), service.options.limits.text).unwrap());
    assert_eq!(service.endpoints.prepared(&endpoint).await.unwrap_err().code, Code::Refused);
    let (sent, access) = (SentParameters::of_object(serde_json::Map::new()).unwrap(), Access::to_all("a test"));
    let request =
        Arc::new(check_request(&service.options.limits, endpoint, &[], &access, sent, Format::Json, false).unwrap());
    let tenant = request.tenant;
    let failure =
        Arc::clone(&service.executor).execute(request, 0, tenant, Arc::<RunRecord>::default()).await.unwrap_err();
    assert_eq!(failure.code, Code::Internal);
    assert_eq!(failure.message, "the endpoint cannot be used now; the server's log has the reason");

    let busy = Failure::new(Code::Overloaded, "try again later");
    assert_eq!(not_ready("junk", busy.clone()), busy);
    service.close().await.unwrap();
}

//! The metrics of issuers. The service counts them; this module only shows them. Issuers are named by their short names in
//! the configuration, which are no secrets.

use std::sync::atomic::Ordering;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tidegate_service::Service;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct IssuerLabels {
    issuer: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    issuer: String,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    issuer: String,
    outcome: &'static str,
}

/// The metrics of issuers.
#[derive(Debug, Default)]
pub(super) struct IssuerMetrics {
    accepted: Family<IssuerLabels, Counter>,
    refused: Family<ReasonLabels, Counter>,
    fetches: Family<OutcomeLabels, Counter>,
    ages: Family<IssuerLabels, Gauge>,
}

impl IssuerMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register(
            "tidegate_issuer_tokens_accepted",
            "Checks of tokens of issuers that were accepted",
            all.accepted.clone(),
        );
        registry.register(
            "tidegate_issuer_tokens_refused",
            "Checks of tokens of issuers that were refused, by reason; of no issuer where the token names none of them",
            all.refused.clone(),
        );
        registry.register(
            "tidegate_issuer_fetches",
            "How often the keys of issuers were read, by what came of it",
            all.fetches.clone(),
        );
        registry.register_with_unit(
            "tidegate_issuer_keys_age",
            "Time since the keys of an issuer were read or confirmed; absent without keys",
            Unit::Seconds,
            all.ages.clone(),
        );
        all
    }

    pub(super) fn measure(&self, service: &Service) {
        let set = |counter: &Counter, count: u64| counter.inner().store(count, Ordering::Relaxed);
        for numbers in service.issuers.numbers() {
            let issuer = || numbers.name.to_owned();
            for (reason, count) in numbers.refused.iter().copied() {
                set(&self.refused.get_or_create(&ReasonLabels { issuer: issuer(), reason }), count);
            }
            if numbers.name.is_empty() {
                continue;
            }
            set(&self.accepted.get_or_create(&IssuerLabels { issuer: issuer() }), numbers.accepted);
            for (outcome, count) in numbers.fetches.iter().copied() {
                set(&self.fetches.get_or_create(&OutcomeLabels { issuer: issuer(), outcome }), count);
            }
            if let Some(age) = numbers.keys_age {
                let seconds = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
                self.ages.get_or_create(&IssuerLabels { issuer: issuer() }).set(seconds);
            }
        }
    }
}

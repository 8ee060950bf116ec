//! The endpoints of the API, each with a request, for tests that go through all of them.

use island_metrics::request::{Endpoint, Source};

pub(crate) struct EndpointCase {
    /// A path that is valid in every dataset; there may be no data of it.
    pub(crate) example: String,
    /// The payload in `/v1/health` without which its response is 503; `None` if it needs none.
    pub(crate) payload: Option<&'static str>,
}

pub(crate) fn endpoint_cases() -> impl Iterator<Item = EndpointCase> {
    let api = Endpoint::all().filter(|endpoint| endpoint.label().starts_with("/v1"));
    api.map(|endpoint| EndpointCase {
        example: filled(endpoint.label(), ["0000-0000-0001", "epic", "latest"]),
        payload: match endpoint.source() {
            Some(Source::Published(payload)) => Some(payload.as_str()),
            _ => None,
        },
    })
}

/// Returns a path with its parameter replaced, by an island's code, a creator's slug or a day.
pub(crate) fn filled(template: &str, [code, slug, day]: [&str; 3]) -> String {
    let path = template.replace("{code}", code).replace("{slug}", slug);
    path.replace("{date}", day)
}

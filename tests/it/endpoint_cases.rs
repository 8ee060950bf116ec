//! The endpoints of the API, each with a request, for tests that go through all of them.

use island_metrics::request::Endpoint;

pub(crate) struct EndpointCase {
    /// The path in the document and in `/v1`.
    pub(crate) template: &'static str,
    /// A path that is valid in every dataset; there may be no data of it.
    pub(crate) example: &'static str,
    /// The payload in `/v1/health` without which its response is 503; `None` if it needs none.
    pub(crate) payload: Option<&'static str>,
}

const fn case(
    template: &'static str,
    example: &'static str,
    payload: &'static str,
) -> EndpointCase {
    EndpointCase {
        template,
        example,
        payload: Some(payload),
    }
}

pub(crate) const ENDPOINT_CASES: &[EndpointCase] = &[
    case("/v1", "/v1", "islands"),
    EndpointCase {
        template: "/v1/health",
        example: "/v1/health",
        payload: None,
    },
    case("/v1/islands", "/v1/islands", "islands"),
    case(
        "/v1/islands/{code}",
        "/v1/islands/0000-0000-0001",
        "islands",
    ),
    case(
        "/v1/islands/{code}/ccu",
        "/v1/islands/0000-0000-0001/ccu",
        "ccu",
    ),
    case("/v1/creators", "/v1/creators", "creators"),
    case("/v1/creators/{slug}", "/v1/creators/epic", "creators"),
    case("/v1/live", "/v1/live", "live"),
    case("/v1/live/intraday", "/v1/live/intraday", "intraday"),
    case("/v1/rankings", "/v1/rankings", "rankings"),
    case("/v1/rankings/{date}", "/v1/rankings/latest", "rankings"),
    case("/v1/new", "/v1/new", "new"),
    case("/v1/new/{date}", "/v1/new/latest", "new"),
];

#[test]
fn the_cases_are_the_endpoints_of_the_program() {
    let templates: Vec<&str> = ENDPOINT_CASES.iter().map(|case| case.template).collect();
    assert_eq!(templates, Endpoint::API_PATHS);
}

//! Text the server hands out beside the API: the `OpenAPI` document, and its page for people.

mod docs;

const OPENAPI: &str = include_str!("openapi.json");

/// The `OpenAPI` 3.1 document with its one server (SPEC section 1).
pub fn openapi(base_url: &str) -> String {
    let quoted = serde_json::to_string(base_url).expect("text serializes");
    OPENAPI.replacen("\"{base_url}\"", &quoted, 1)
}

/// The page at `/docs`, in HTML.
pub fn docs(base_url: &str) -> String {
    docs::page(&openapi(base_url))
}

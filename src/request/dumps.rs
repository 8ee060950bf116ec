//! The name of a dump, from the part of the path behind `/dumps/`.

use super::percent::decode_segment;
use super::route_error::RouteError;
use super::shown::Shown;

/// What `/dumps` and `/dumps/` stand for.
const INDEX: &str = "index.json";

/// The dump that the rest of a path names. Segments are decoded one by one: an encoded slash separates
/// nothing, and so names nothing. Whether there is such a dump is judged later.
pub(super) fn name_of_dump(rest: &str) -> Result<String, RouteError> {
    if rest.is_empty() {
        return Ok(INDEX.to_owned());
    }
    let decoded: Result<Vec<_>, _> = rest.split('/').map(decode_segment).collect();
    let segments = decoded.map_err(|broken| {
        let message = format!(
            "the name {} is not percent-encoded UTF-8; {broken}",
            Shown(rest)
        );
        RouteError::BadRequest(message)
    })?;
    if segments.iter().any(|segment| segment.contains('/')) {
        return Err(no_dump(rest));
    }
    Ok(segments.join("/"))
}

/// The answer to a name that no dump has.
pub fn no_dump(name: &str) -> RouteError {
    let shown = Shown(name);
    RouteError::NotFound(format!(
        "no dump is named {shown}; their names are listed at /dumps/{INDEX}"
    ))
}

//! Answers as HTTP has them: status, header lines, body, and what a client may say about them.

pub(super) mod answer;
pub(super) mod api_error;
pub(super) mod body;
pub(super) mod conditions;
mod lines;
pub(super) mod negotiate;
pub(super) mod page;
pub(super) mod request_id;

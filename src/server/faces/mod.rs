//! What people see: pages, and sign-up.

pub(super) mod form;
pub(super) mod pages;
pub(super) mod visits;
pub(super) mod window;

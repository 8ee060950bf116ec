//! The atomic types that the lock-free parts use, under one name of ours.
//!
//! They are std's. The algorithms name them through here only, so that loom's types of the same
//! names can stand in for them when a model is to be explored exhaustively.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

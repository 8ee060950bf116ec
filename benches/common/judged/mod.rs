//! A dataset that goes on, publishes of it, and load of which every answer is judged: is it whole, is all
//! of it of one version, and has its connection seen a later one?
//!
//! `feed` changes the dataset, `publisher` publishes it and enters each version in the `ledger` first;
//! `load` asks for `targets`, and `judge` reads what each `answer` says.

pub(crate) mod answer;
pub(crate) mod directory;
pub(crate) mod feed;
pub(crate) mod judge;
pub(crate) mod ledger;
pub(crate) mod load;
pub(crate) mod publisher;
pub(crate) mod targets;

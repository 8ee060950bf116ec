//! `cargo bench --bench refresh`: see `scenario/refresh.rs` and `benches/README.md`.

mod common;
mod scenario;

fn main() -> common::Outcome<()> {
    scenario::main("refresh")
}

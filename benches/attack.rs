//! `cargo bench --bench attack`: see `scenario/attack/mod.rs` and `benches/README.md`.

mod common;
mod scenario;

fn main() -> common::Outcome<()> {
    scenario::main("attack")
}

//! `cargo bench --bench soak`: see `scenario/soak/mod.rs` and `benches/README.md`.

mod common;
mod scenario;

fn main() -> common::Outcome<()> {
    scenario::main("soak")
}

//! `cargo bench --bench swap`: see `scenario/swap.rs` and `benches/README.md`.

mod common;
mod scenario;

fn main() -> common::Outcome<()> {
    scenario::main("swap")
}

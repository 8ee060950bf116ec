//! The setting of the C library's allocator, in `unsafe` code.
//!
//! glibc gives each thread an arena of its own, and memory that a thread frees stays in the arena that it came
//! from. Cached responses are made by one worker and freed by another, so with eight workers the caches held
//! 154 MB where 64 were allowed; with one arena they held 73. Small blocks do not take the arena's lock: each
//! thread keeps some. musl has one arena in any case.
#![expect(
    unsafe_code,
    reason = "the allocator has no other interface; audited: one call before other threads exist"
)]

/// Makes glibc's allocator use one arena. To be called before the server starts threads. A publish, whose threads
/// allocate much and share little, keeps its arenas.
#[cfg(target_env = "gnu")]
pub fn use_one() {
    /// `M_ARENA_MAX` of `malloc.h`.
    const ARENA_MAX: i32 = -8;
    unsafe extern "C" {
        fn mallopt(parameter: i32, value: i32) -> i32;
    }
    // SAFETY: mallopt takes two integers, and no other thread allocates meanwhile. If it fails, nothing has
    // changed, and the caches take more memory.
    let _ = unsafe { mallopt(ARENA_MAX, 1) };
}

/// Does nothing: this C library's allocator has one arena.
#[cfg(not(target_env = "gnu"))]
pub fn use_one() {}

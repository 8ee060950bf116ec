//! The setting of the C library's allocator, in `unsafe` code.
//!
//! glibc has an arena for each thread, and memory that a thread frees stays in the arena it came
//! from, in pieces that no other thread uses. With one arena, a server with long bodies in a cache of
//! 13 MiB held 25 MiB; with an arena for each thread, more than 26. Small blocks do not take the
//! arena's lock: each thread caches some. musl has one arena in any case.
#![expect(
    unsafe_code,
    reason = "the allocator has no other interface; audited: one call before other threads exist"
)]

/// Makes glibc's allocator use one arena. To be called before the server starts threads. A publish,
/// whose threads allocate much and share little, does not call it.
#[cfg(target_env = "gnu")]
pub fn use_one() {
    /// `M_ARENA_MAX` of `malloc.h`.
    const ARENA_MAX: i32 = -8;
    unsafe extern "C" {
        fn mallopt(parameter: i32, value: i32) -> i32;
    }
    // SAFETY: mallopt takes two integers, and no other thread allocates meanwhile. If it fails,
    // nothing has changed, and the caches take more memory.
    let _ = unsafe { mallopt(ARENA_MAX, 1) };
}

/// Does nothing: this C library's allocator has one arena.
#[cfg(not(target_env = "gnu"))]
pub fn use_one() {}

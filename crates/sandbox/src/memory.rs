//! How this process keeps its memory.

/// Has all threads allocate from one pool. Each would have one of its own, and what one of them has freed would be of no
/// use to the others: at the end of a thousand items that was a quarter of all memory. Nothing here is quick enough
/// for threads to wait for each other. Whether the C library knows how to.
pub fn share_one_pool() -> bool {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number of the allocator, and is called before there are other threads.
    return unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) } == 1;
    #[cfg(not(target_env = "gnu"))]
    true
}

/// Gives back to the kernel what was allocated and is free again. The allocator keeps what lies below anything that is
/// still in use: a server that read a log of 100,000 facts when it started held 30 MB of which it used 2.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and may be called at any time by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_allocator_knows_the_setting() {
        assert!(super::share_one_pool());
    }
}

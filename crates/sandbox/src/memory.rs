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

#[cfg(test)]
mod tests {
    #[test]
    fn the_allocator_knows_the_setting() {
        assert!(super::share_one_pool());
    }
}

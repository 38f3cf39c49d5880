//! What the examples that measure have in common.

/// Prints the CPU time that each of `count` operations took since `begin_ns`.
pub(crate) fn print_since(begin_ns: u64, what: &str, count: usize) {
    let each = (cpu_ns() - begin_ns) / (count as u64).max(1);
    println!("{what}: {each} ns each, of {count}");
}

/// The CPU time of this thread in nanoseconds; 0 where the system does not tell. Other programs
/// that run meanwhile do not count, but for what they take of the caches.
pub(crate) fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    text.and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or_default()
}

/// The bytes of this process that are in memory; 0 where the system does not tell.
pub(crate) fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<usize>().ok());
    pages.unwrap_or_default() * 4_096
}

//! Prefetching: hints to the processor that data will be read soon.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, PREFETCHh.

#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "prefetching takes a pointer"))]

/// Length of a cache line in bytes.
const LINE: usize = 64;

/// Starts to load `value` into the cache, and does not wait for it. Has no other effect, and none at
/// all on processors other than x86-64.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..size_of::<T>()).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line = std::ptr::from_ref(value).cast::<i8>().wrapping_add(offset);
        // SAFETY: the instruction belongs to SSE, which every x86-64 processor has. It accepts any
        // address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (value, LINE);
}

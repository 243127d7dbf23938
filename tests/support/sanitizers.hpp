// SPDX-License-Identifier: Apache-2.0
// CODETTA_ALLOCATOR_IS_SANITIZED: 1 where memory comes from a sanitizer's allocator, which aborts on sizes that malloc
// refuses, and reserves address space of its own. CODETTA_THREADS_ARE_SANITIZED: 1 where each access is watched.
#pragma once

#if defined(__has_feature)
#define CODETTA_HAS_FEATURE(x) __has_feature(x)
#else
#define CODETTA_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || CODETTA_HAS_FEATURE(address_sanitizer) || \
    CODETTA_HAS_FEATURE(thread_sanitizer)
#define CODETTA_ALLOCATOR_IS_SANITIZED 1
#else
#define CODETTA_ALLOCATOR_IS_SANITIZED 0
#endif
#if defined(__SANITIZE_THREAD__) || CODETTA_HAS_FEATURE(thread_sanitizer)
#define CODETTA_THREADS_ARE_SANITIZED 1
#else
#define CODETTA_THREADS_ARE_SANITIZED 0
#endif
#undef CODETTA_HAS_FEATURE

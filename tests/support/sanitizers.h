// Sanitizers make code some ten to fifty times slower and watch memory and threads, not values: tests
// that go through long tables take every kSanitizerStride-th entry there.
#pragma once

#include <cstddef>

namespace posenc::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

// Has no divisor in common with the numbers of settings that tables repeat per spec (4, 6, 9, 10), so
// that all of them have their turn.
inline constexpr std::size_t kSanitizerStride = kSanitized ? 7 : 1;

}  // namespace posenc::testing

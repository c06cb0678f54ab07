// Sanitizers make code some ten to fifty times slower and watch memory and threads, not values: tests
// that go through long tables take only some of the entries there.
#pragma once

namespace posenc::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace posenc::testing

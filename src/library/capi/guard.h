// Turns exceptions into status codes at the C boundary, and stores the message.
#pragma once

#include <cstdint>
#include <type_traits>

#include "posenc/core/status.h"
#include "posenc/posenc_c.h"

namespace posenc::capi {

// An argument that is wrong; thrown and caught inside this layer alone.
struct Failure {
  Status status;
};
[[noreturn, gnu::format(printf, 2, 3)]] void fail(StatusCode code, const char* format, ...);

// The code of a kernel's answer; what it says is kept for posenc_last_error().
posenc_status report(const Status& status) noexcept;
// The same for the exception that is being handled.
posenc_status report_exception() noexcept;

// What a body returns is what C gets: nothing and a Status become a code, a count stays a count.
template <class Body>
auto guarded(const Body& body) noexcept {
  using Result = std::invoke_result_t<Body>;
  constexpr bool kCounts = std::is_same_v<Result, std::int64_t>;
  using Code = std::conditional_t<kCounts, std::int64_t, posenc_status>;
  try {
    if constexpr (std::is_void_v<Result>) {
      body();
      return Code{POSENC_OK};
    } else if constexpr (std::is_same_v<Result, Status>) {
      return report(body());
    } else {
      static_assert(kCounts, "a body returns nothing, a Status or a count");
      return body();
    }
  } catch (...) {
    return Code{report_exception()};
  }
}

}  // namespace posenc::capi

// Version and threads.
#include "capi/guard.h"
#include "posenc/core/threads.h"

using posenc::StatusCode;

extern "C" {

const char* posenc_version(void) noexcept { return POSENC_VERSION_STRING; }

uint32_t posenc_abi_version(void) noexcept { return POSENC_ABI_VERSION; }

posenc_status posenc_set_num_threads(int32_t threads) noexcept {
  return posenc::capi::guarded([&] {
    constexpr int32_t kMost = 4096;
    if (threads > kMost) {
      posenc::capi::fail(StatusCode::kOutOfRange,
                         "[set_num_threads] threads must be at most %d but got %d", kMost, threads);
    }
    posenc::set_num_threads(threads);
  });
}

int32_t posenc_num_threads(void) noexcept { return posenc::num_threads(); }

}  // extern "C"

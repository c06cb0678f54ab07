// Lets device headers (src/library/kernels/cuda/device) compile with a plain C++ compiler, and runs a warp of them: 32
// lanes that meet at every shuffle. Included before those headers; what is inline assembly is not called.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline

struct uint3 {
  unsigned x, y, z;
};
struct float2 {
  float x, y;
};
struct uint4 {
  std::uint32_t x, y, z, w;
};
struct float4 {
  float x, y, z, w;
};
struct double2 {
  double x, y;
};
inline uint3 threadIdx{};
inline constexpr uint3 blockIdx{0, 0, 0};
inline constexpr uint3 gridDim{1, 1, 1};
inline uint4 make_uint4(std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint32_t w) {
  return {x, y, z, w};
}
inline float2 make_float2(float x, float y) { return {x, y}; }

// Storage types, which only products and copies look into.
struct __nv_bfloat16 {
  std::uint16_t bits;
};
struct __half {
  std::uint16_t bits;
};
struct __nv_bfloat162 {
  std::uint32_t bits;
};
struct __half2 {
  std::uint32_t bits;
};
__nv_bfloat162 __floats2bfloat162_rn(float low, float high);
__half2 __floats2half2_rn(float low, float high);
float __bfloat162float(__nv_bfloat16 x);
float __half2float(__half x);
__nv_bfloat16 __float2bfloat16_rn(float x);
__half __float2half_rn(float x);
std::size_t __cvta_generic_to_shared(const void* p);
void* __cvta_shared_to_generic(std::size_t p);

template <class T>
inline T __ldg(const T* p) {
  return *p;
}
template <class T>
inline T __ldcs(const T* p) {
  return *p;
}
template <class T>
inline void __stcs(T* p, const T& x) {
  *p = x;
}
inline std::uint32_t __float_as_uint(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __uint_as_float(std::uint32_t x) { return std::bit_cast<float>(x); }
inline std::uint32_t __umulhi(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(std::uint64_t{a} * b >> 32);
}

namespace posenc::cuda {
using std::max;
using std::min;
}  // namespace posenc::cuda

namespace posenc::testing {

// Lanes are contexts of one thread, each run up to its next meeting in turn.
class Warp {
 public:
  static constexpr int kLanes = 32;

  // Calls f() in every lane, with threadIdx.x of warp `index` of a block.
  static void run(const std::function<void()>& f, int index = 0) {
    Warp warp(f);
    current() = &warp;
    for (bool more = true; more;) {
      more = false;
      for (int lane = 0; lane < kLanes; ++lane) {
        if (warp.done_[static_cast<std::size_t>(lane)]) continue;
        threadIdx = {static_cast<unsigned>(kLanes * index + lane), 0, 0};
        swapcontext(&warp.caller_, &warp.lanes_[static_cast<std::size_t>(lane)]);
        more = true;
      }
    }
  }

  static void sync() { swapcontext(&current()->own(), &current()->caller_); }
  // The value that lane `source` has.
  template <class T>
  static T read(T own, int source) {
    return all(own)[static_cast<std::size_t>(source)];
  }
  template <class T>
  static std::array<T, kLanes> all(T own) {
    static_assert(sizeof(T) == 4);
    Warp& warp = *current();
    std::memcpy(&warp.words_[static_cast<std::size_t>(lane())], &own, 4);
    sync();
    std::array<T, kLanes> values;
    std::memcpy(values.data(), warp.words_.data(), sizeof(values));
    sync();
    return values;
  }
  static int lane() { return static_cast<int>(threadIdx.x % kLanes); }

 private:
  static constexpr std::size_t kStack = std::size_t{512} << 10;

  explicit Warp(const std::function<void()>& f) : f_(f), stacks_(kLanes * kStack) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      ucontext_t& context = lanes_[lane];
      getcontext(&context);
      context.uc_stack.ss_sp = stacks_.data() + lane * kStack;
      context.uc_stack.ss_size = kStack;
      context.uc_link = &caller_;
      makecontext(&context, &Warp::enter, 0);
    }
  }
  static void enter() {
    current()->f_();
    current()->done_[static_cast<std::size_t>(lane())] = true;
  }
  static Warp*& current() {
    static Warp* warp = nullptr;
    return warp;
  }
  ucontext_t& own() { return lanes_[static_cast<std::size_t>(lane())]; }

  const std::function<void()>& f_;
  std::vector<std::byte> stacks_;
  std::array<ucontext_t, kLanes> lanes_{};
  ucontext_t caller_{};
  std::array<bool, kLanes> done_{};
  std::array<std::uint32_t, kLanes> words_{};
};

}  // namespace posenc::testing

template <class T>
inline T __shfl_sync(unsigned, T x, int source, int width = 32) {
  const int lane = posenc::testing::Warp::lane();
  return posenc::testing::Warp::read(x, lane / width * width + source % width);
}
template <class T>
inline T __shfl_xor_sync(unsigned, T x, int step) {
  return posenc::testing::Warp::read(x, posenc::testing::Warp::lane() ^ step);
}
template <class T>
inline T __shfl_up_sync(unsigned, T x, int step, int width = 32) {
  const int lane = posenc::testing::Warp::lane();
  return posenc::testing::Warp::read(x, lane % width < step ? lane : lane - step);
}
template <class T>
inline T __shfl_down_sync(unsigned, T x, int step, int width = 32) {
  const int lane = posenc::testing::Warp::lane();
  return posenc::testing::Warp::read(x, lane % width + step < width ? lane + step : lane);
}
inline bool __any_sync(unsigned, bool x) {
  const auto all = posenc::testing::Warp::all(static_cast<int>(x));
  return std::any_of(all.begin(), all.end(), [](int own) { return own != 0; });
}
inline bool __all_sync(unsigned, bool x) { return !__any_sync(~0u, !x); }
inline void __syncwarp() { posenc::testing::Warp::sync(); }

// Inline assembly is of the device, and a compiler for another machine refuses its constraints, though nothing calls it:
// `asm volatile(...)` becomes an empty one, `asm(...)` nothing. What it would have written stays without a value.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wkeyword-macro"
#pragma clang diagnostic ignored "-Wuninitialized"
#pragma clang diagnostic ignored "-Wunused-variable"
#pragma clang diagnostic ignored "-Wunused-parameter"
#else
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-but-set-parameter"
#endif
#define volatile(...) ("")
#define asm(...) static_cast<void>(0)

#include <atomic>

#include "bench/limits.h"
#include "core/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/streams.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Du = hn::ScalableTag<std::uint32_t>;

// `mask` is zero, which the compiler cannot know.
void update_words(std::uint32_t* words, std::size_t count, std::uint32_t mask) {
  const Du d;
  const auto flip = hn::Set(d, mask);
  std::size_t i = 0;
  for (; i + 4 * hn::Lanes(d) <= count; i += 4 * hn::Lanes(d)) {
    for (std::size_t n = 0; n < 4; ++n) {
      std::uint32_t* at = words + i + n * hn::Lanes(d);
      hn::StoreU(hn::Xor(hn::LoadU(d, at), flip), d, at);
    }
  }
  for (; i < count; ++i) words[i] ^= mask;
}

std::uint32_t fold_words(const std::uint32_t* words, std::size_t count) {
  const Du d;
  auto a = hn::Zero(d);
  auto b = hn::Zero(d);
  auto c = hn::Zero(d);
  auto e = hn::Zero(d);
  std::size_t i = 0;
  for (; i + 4 * hn::Lanes(d) <= count; i += 4 * hn::Lanes(d)) {
    const std::uint32_t* at = words + i;
    a = hn::Xor(a, hn::LoadU(d, at));
    b = hn::Xor(b, hn::LoadU(d, at + hn::Lanes(d)));
    c = hn::Xor(c, hn::LoadU(d, at + 2 * hn::Lanes(d)));
    e = hn::Xor(e, hn::LoadU(d, at + 3 * hn::Lanes(d)));
  }
  // All lanes: a compiler may leave out what no result depends on.
  std::uint32_t rest = hn::GetLane(hn::SumOfLanes(d, hn::Xor(hn::Xor(a, b), hn::Xor(c, e))));
  for (; i < count; ++i) rest ^= words[i];
  return rest;
}

}  // namespace
}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace posenc::bench {

HWY_EXPORT(update_words);
HWY_EXPORT(fold_words);

namespace {

std::atomic<std::uint32_t> zero{0};
std::atomic<std::uint32_t> sink{0};

constexpr std::size_t kShare = std::size_t{1} << 16;  // words of a task

template <class Body>
void for_each_share(std::size_t words, const Body& body) {
  const auto tasks = static_cast<std::int64_t>((words + kShare - 1) / kShare);
  parallel_for(tasks, [&](std::int64_t task, int) {
    const std::size_t first = static_cast<std::size_t>(task) * kShare;
    body(first, std::min(kShare, words - first));
  });
}

}  // namespace

void update_in_place(std::span<std::byte> bytes) {
  auto* words = reinterpret_cast<std::uint32_t*>(bytes.data());
  const std::uint32_t mask = zero.load();
  for_each_share(bytes.size() / 4, [&](std::size_t first, std::size_t count) {
    HWY_DYNAMIC_DISPATCH(update_words)(words + first, count, mask);
  });
}

void read_through(std::span<const std::byte> bytes) {
  const auto* words = reinterpret_cast<const std::uint32_t*>(bytes.data());
  for_each_share(bytes.size() / 4, [&](std::size_t first, std::size_t count) {
    sink.fetch_xor(HWY_DYNAMIC_DISPATCH(fold_words)(words + first, count));
  });
}

}  // namespace posenc::bench
#endif  // HWY_ONCE

#include "posenc/core/rng.h"

#include <cmath>
#include <numbers>

namespace posenc {
namespace {

std::array<std::uint32_t, 2> multiply_high_low(std::uint32_t a, std::uint32_t b) noexcept {
  const std::uint64_t product = std::uint64_t{a} * b;
  return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const auto [high0, low0] = multiply_high_low(0xD2511F53u, counter[0]);
    const auto [high1, low1] = multiply_high_low(0xCD9E8D57u, counter[2]);
    counter = {high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

std::uint64_t derived_seed(std::uint64_t seed, std::uint64_t part) noexcept {
  constexpr std::uint64_t kStream = 0x73656564u;  // apart from the draws of an Rng with this seed
  Rng rng(seed ^ (kStream << 32), part);
  const std::uint64_t high = rng.next_u32();
  return (high << 32 | rng.next_u32()) >> 1;
}

std::uint32_t Rng::next_u32() noexcept {
  const std::uint64_t block = index_ / 4;
  const std::uint64_t word = index_ % 4;
  if (word == 0) {
    words_ =
        philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                    static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)},
                   {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
  }
  ++index_;
  return words_[word];
}

double Rng::uniform() noexcept {
  const std::uint64_t high = next_u32() >> 5;
  const std::uint64_t low = next_u32() >> 6;
  return static_cast<double>((high << 26) | low) * 0x1.0p-53;
}

double Rng::uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }

std::int64_t Rng::integer(std::int64_t low, std::int64_t high) noexcept {
  const double span = static_cast<double>(high - low) + 1.0;
  const auto offset = static_cast<std::int64_t>(uniform() * span);
  return low + (offset > high - low ? high - low : offset);
}

double Rng::normal() noexcept {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace posenc

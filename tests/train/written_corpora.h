// Corpora that the test writes itself, so that the best possible figure is known and not guessed.
#pragma once

#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "posenc/core/rng.h"
#include "support/temporary_folder.h"

namespace posenc::testing {

// Text whose letter t is letter t - 2 moved on by 1, 2 or 3 of eight, so that a model must know which
// place is two back. Every letter is equally likely.
namespace interleaved {

constexpr int kLetters = 8;
using Law = std::array<double, kLetters>;  // of a difference of letters
constexpr Law kStep = {0.0, 0.7, 0.2, 0.1};

inline void write(const TemporaryFolder& folder) {
  for (std::uint64_t file = 0; file < 10; ++file) {
    Rng rng(file);
    std::vector<std::int64_t> letters = {rng.integer(0, 7), rng.integer(0, 7)};
    while (letters.size() < 20'000) {
      const double u = rng.uniform();
      const int step = u < kStep[1] ? 1 : (u < kStep[1] + kStep[2] ? 2 : 3);
      letters.push_back((letters[letters.size() - 2] + step) % kLetters);
    }
    std::string text;
    for (const std::int64_t letter : letters) text += static_cast<char>('a' + letter);
    write_content(folder / (std::to_string(file) + ".txt"), text);
  }
}

inline Law then(const Law& first, const Law& second) {
  Law sum{};
  for (int a = 0; a < kLetters; ++a) {
    for (int b = 0; b < kLetters; ++b) sum[(a + b) % kLetters] += first[a] * second[b];
  }
  return sum;
}

// Bits of a letter between two others at these laws of difference.
inline double bits_between(const Law& left, const Law& right) {
  const Law both = then(left, right);
  double bits = 0.0;
  for (int a = 0; a < kLetters; ++a) {
    for (int b = 0; b < kLetters; ++b) {
      const double p = left[a] * right[b];
      if (p > 0.0) bits -= p * std::log2(p / both[(a + b) % kLetters]);
    }
  }
  return bits;
}

inline Law anything() {
  Law uniform{};
  uniform.fill(1.0 / kLetters);
  return uniform;
}

// Bits per byte of the next letter over windows of so many letters: the first has nothing two back.
inline double best_next(int length) {
  const double rate = bits_between(kStep, anything());
  return (std::log2(kLetters) + (length - 1) * rate) / length;
}

// The same of masked letters: what counts is the nearest letter on either side, in steps of two, that is
// not masked itself.
inline double best_masked(int length, double mask) {
  const int places = length / 2;
  std::vector<Law> after = {kStep};
  while (static_cast<int>(after.size()) < places) after.push_back(then(after.back(), kStep));
  // Weights and laws of the nearest seen letter among n places.
  const auto nearest = [&](int n) {
    std::vector<std::pair<double, Law>> all;
    for (int a = 0; a < n; ++a) all.emplace_back(std::pow(mask, a) * (1.0 - mask), after[a]);
    all.emplace_back(std::pow(mask, n), anything());
    return all;
  };
  double bits = 0.0;
  for (int place = 0; place < places; ++place) {
    for (const auto& [p, left] : nearest(place)) {
      for (const auto& [q, right] : nearest(places - 1 - place)) {
        bits += p * q * bits_between(left, right);
      }
    }
  }
  return bits / places;
}

}  // namespace interleaved

// Documents that draw from four of 24 letters each: two passages of one have four letters between them,
// passages of two mostly seven or eight. They are so many that training cannot know them by heart; of 300, it
// can, and held-out ones stay at 87 %.
inline void write_documents(const TemporaryFolder& folder) {
  Rng rng(24);
  for (int document = 0; document < 2000; ++document) {
    std::set<char> letters;
    while (letters.size() < 4) letters.insert(static_cast<char>('a' + rng.integer(0, 23)));
    const std::string alphabet(letters.begin(), letters.end());
    std::string text;
    while (text.size() < 100) text += alphabet[static_cast<std::size_t>(rng.integer(0, 3))];
    write_content(folder / (std::to_string(document) + ".txt"), text);
  }
}

}  // namespace posenc::testing

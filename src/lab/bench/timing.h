// The time of a piece of work: the minimum over several runs, because noise only adds time.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

namespace posenc::bench {

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Body>
double seconds_of(const Body& body) {
  const double start = seconds_now();
  body();
  return seconds_now() - start;
}

// How often a row is repeated: until `seconds` have passed, and at least `least` times.
struct Effort {
  double seconds = 0.5;
  int least = 3;
};

template <class Body>
void repeat(const Effort& effort, const Body& body) {
  const double start = seconds_now();
  for (int n = 0; n < effort.least || seconds_now() - start < effort.seconds; ++n) body();
}

template <class Body>
double best_of(const Effort& effort, const Body& body) {
  double best = std::numeric_limits<double>::infinity();
  repeat(effort, [&] { best = std::min(best, seconds_of(body)); });
  return best;
}

}  // namespace posenc::bench

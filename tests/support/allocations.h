// Counts what a program allocates. A test that calls this gets an operator new that counts.
#pragma once

#include <cstddef>

namespace posenc::testing {

// Bytes asked of operator new since the program began, freed or not.
std::size_t allocated_bytes();

// Bytes held now, and the most that were held since the last reset.
std::size_t held_bytes();
void reset_peak();
std::size_t peak_held_bytes();

template <class Body>
std::size_t bytes_allocated_by(const Body& body) {
  const std::size_t before = allocated_bytes();
  body();
  return allocated_bytes() - before;
}

// The most that `body` held at one time.
template <class Body>
std::size_t peak_bytes_of(const Body& body) {
  reset_peak();
  const std::size_t before = held_bytes();
  body();
  return peak_held_bytes() - before;
}

}  // namespace posenc::testing

// Counts what a program allocates. A test that calls this gets an operator new that counts.
#pragma once

#include <cstddef>

namespace posenc::testing {

// Bytes asked of operator new since the program began, freed or not.
std::size_t allocated_bytes();

template <class Body>
std::size_t bytes_allocated_by(const Body& body) {
  const std::size_t before = allocated_bytes();
  body();
  return allocated_bytes() - before;
}

}  // namespace posenc::testing

#include "support/allocations.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> total{0};
std::atomic<std::size_t> held{0};
std::atomic<std::size_t> peak{0};

// The size asked for stands in front of the memory.
std::size_t header_of(std::size_t alignment) {
  return std::max(alignment, alignof(std::max_align_t));
}

void* allocate(std::size_t size, std::size_t alignment) {
  const std::size_t unit = header_of(alignment);
  auto* memory =
      static_cast<std::byte*>(std::aligned_alloc(unit, (size + 2 * unit - 1) / unit * unit));
  if (memory == nullptr) throw std::bad_alloc();
  memory += unit;
  reinterpret_cast<std::size_t*>(memory)[-1] = size;
  total += size;
  const std::size_t now = held += size;
  for (std::size_t seen = peak; seen < now && !peak.compare_exchange_weak(seen, now);) {
  }
  return memory;
}

void release(void* memory, std::size_t alignment) {
  if (memory == nullptr) return;
  held -= static_cast<std::size_t*>(memory)[-1];
  std::free(static_cast<std::byte*>(memory) - header_of(alignment));
}

}  // namespace

namespace posenc::testing {

std::size_t allocated_bytes() { return total.load(); }
std::size_t held_bytes() { return held.load(); }
void reset_peak() { peak = held.load(); }
std::size_t peak_held_bytes() { return peak.load(); }

}  // namespace posenc::testing

// The other forms of new and delete go through these.
void* operator new(std::size_t size) { return allocate(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory, std::align_val_t alignment) noexcept {
  release(memory, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t alignment) noexcept {
  release(memory, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory, 1); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { release(memory, 1); }

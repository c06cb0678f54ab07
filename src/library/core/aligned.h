// Vectors aligned to cache lines, so that no SIMD load or store of the kernels crosses two lines.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace posenc {

inline constexpr std::size_t kCacheLine = 64;

template <class T>
struct AlignedAllocator {
  using value_type = T;

  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>& /*other*/) noexcept {}  // NOLINT: containers convert

  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{kCacheLine}));
  }
  void deallocate(T* memory, std::size_t /*count*/) noexcept {
    ::operator delete (memory, std::align_val_t{kCacheLine});
  }
  template <class U>
  bool operator==(const AlignedAllocator<U>& /*other*/) const noexcept {
    return true;
  }
};

using AlignedFloats = std::vector<float, AlignedAllocator<float>>;

}  // namespace posenc

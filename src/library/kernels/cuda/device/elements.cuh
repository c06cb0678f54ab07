// Elements of the three storage types, one by one or 16 bytes at a time, as float32.
#pragma once

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include <cstdint>

namespace posenc::cuda {

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }

template <class T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ __forceinline__ __half from_float<__half>(float x) {
  return __float2half_rn(x);
}

// kCount neighbouring elements, loaded and stored in one access.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Elements {
  T at[kCount];
};

template <class T, int kCount>
__device__ __forceinline__ Elements<T, kCount> load_elements(const T* from) {
  if constexpr (sizeof(T) * kCount == 16) {
    const uint4 bits = *reinterpret_cast<const uint4*>(from);
    return *reinterpret_cast<const Elements<T, kCount>*>(&bits);
  } else {
    return *reinterpret_cast<const Elements<T, kCount>*>(from);
  }
}

// Read once, and not again before it has left the cache.
template <class T, int kCount>
__device__ __forceinline__ Elements<T, kCount> load_stream(const T* from) {
  if constexpr (sizeof(T) * kCount == 16) {
    const uint4 bits = __ldcs(reinterpret_cast<const uint4*>(from));
    return *reinterpret_cast<const Elements<T, kCount>*>(&bits);
  } else {
    return *reinterpret_cast<const Elements<T, kCount>*>(from);
  }
}

template <class T, int kCount>
__device__ __forceinline__ void store_stream(T* to, const Elements<T, kCount>& x) {
  if constexpr (sizeof(T) * kCount == 16) {
    __stcs(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(&x));
  } else {
    *reinterpret_cast<Elements<T, kCount>*>(to) = x;
  }
}

}  // namespace posenc::cuda

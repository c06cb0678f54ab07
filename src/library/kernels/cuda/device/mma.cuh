// Products of 64-row tiles by one warpgroup (four warps), float32 accumulation.
//
// Operands lie in shared memory as tiles of rows x 64 elements (128 bytes), their 16-byte chunks
// swizzled by the row's last three bits; wider matrices are several such tiles. On sm_90a a product is
// wgmma; elsewhere ldmatrix and mma.sync on the very same tiles and registers, which is correct and
// slower. Accumulators are [8][4] per 64 columns: row (lane / 4) in [n][0..1] and that row + 8 in
// [n][2..3], columns 8 n + 2 (lane % 4) + {0, 1}; warp w of the group has rows 16 w to 16 w + 15.
#pragma once

// Tests compile what is not inline assembly for the host (tests/support/cuda_host.h).
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include <cstdint>
#include <type_traits>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define POSENC_WGMMA 1
#else
#define POSENC_WGMMA 0
#endif

namespace posenc::cuda {

using Bf16 = __nv_bfloat16;
using Fp16 = __half;

inline constexpr int kTile = 64;             // rows, keys and columns of a tile
inline constexpr int kTileBytes = 64 * 128;  // of 64 rows

using Accum = float[8][4];
using Fragment = std::uint32_t[4][4];  // of a 64 x 64 left operand: [step of 16 columns][4]

// Which warpgroup of the block this thread is in; the same register for the whole warp, which the
// compiler cannot see from threadIdx.
__device__ inline int warpgroup() {
  return __shfl_sync(~0u, static_cast<int>(threadIdx.x / 128), 0);
}

__device__ inline std::uint32_t smem_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// Byte offset of a 16-byte chunk in a tile.
__device__ inline std::uint32_t chunk_offset(int row, int chunk) {
  return static_cast<std::uint32_t>(row * 128 + ((chunk ^ (row & 7)) << 4));
}

template <class T>
__device__ inline std::uint32_t pack(float low, float high) {
  if constexpr (std::is_same_v<T, Bf16>) {
    const __nv_bfloat162 x = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&x);
  } else {
    const __half2 x = __floats2half2_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&x);
  }
}

template <class T>
__device__ inline void to_fragment(const Accum& x, Fragment& a) {
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    a[s][0] = pack<T>(x[2 * s][0], x[2 * s][1]);
    a[s][1] = pack<T>(x[2 * s][2], x[2 * s][3]);
    a[s][2] = pack<T>(x[2 * s + 1][0], x[2 * s + 1][1]);
    a[s][3] = pack<T>(x[2 * s + 1][2], x[2 * s + 1][3]);
  }
}

// Keeps the compiler from moving uses of an accumulator across products that are under way.
__device__ inline void pin(Accum& x) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(x[n][e])::"memory");
  }
}

__device__ inline void zero(Accum& x) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) x[n][e] = 0.0f;
  }
  pin(x);
}

template <bool kTransposed>
__device__ inline void ldmatrix4(std::uint32_t address, std::uint32_t (&r)[4]) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
  }
}

// The left operand from a tile of 64 rows, or (kTransposed) from its transpose's tile.
template <bool kTransposed>
__device__ inline void load_fragment(std::uint32_t tile, Fragment& a) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32 % 4;
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    if constexpr (kTransposed) {
      const int row = 16 * s + (lane & 7) + (lane >> 4 << 3);
      ldmatrix4<true>(tile + chunk_offset(row, 2 * warp + (lane >> 3 & 1)), a[s]);
    } else {
      ldmatrix4<false>(tile + chunk_offset(16 * warp + (lane & 15), 2 * s + (lane >> 4)), a[s]);
    }
  }
}

// d += A B of one warp: 16 rows, 8 columns, a sum of 16.
template <class T>
__device__ inline void mma_16_8_16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                   std::uint32_t b1) {
  if constexpr (std::is_same_v<T, Bf16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

#if POSENC_WGMMA

// 128-byte swizzle, groups of eight rows 1024 bytes apart.
__device__ inline std::uint64_t descriptor(std::uint32_t address) {
  constexpr std::uint64_t kFixed = (1ull << 62) | (64ull << 32) | (64ull << 16);
  return kFixed | static_cast<std::uint64_t>((address & 0x3ffff) >> 4);
}

// The low word of a descriptor, to which offsets in units of 16 bytes can be added, and back: where every
// instruction between products counts.
__device__ inline std::uint32_t descriptor_word(std::uint32_t address) {
  return static_cast<std::uint32_t>(descriptor(address));
}
__device__ inline std::uint64_t descriptor_of(std::uint32_t word) {
  return (descriptor(0) >> 32 << 32) | word;
}

__device__ inline void mma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void mma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kLeft = 0>
__device__ inline void mma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
#define POSENC_ACC(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define POSENC_ACCS                                                                         \
  POSENC_ACC(0), POSENC_ACC(1), POSENC_ACC(2), POSENC_ACC(3), POSENC_ACC(4), POSENC_ACC(5), \
      POSENC_ACC(6), POSENC_ACC(7)
#define POSENC_D                                                                    \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21," \
  "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
#define POSENC_WGMMA_RS(type)                                                           \
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " POSENC_D \
               ", {%32,%33,%34,%35}, %36, 1, 1, 1, %37;"                                \
               : POSENC_ACCS                                                            \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kTransB))
#define POSENC_WGMMA_SS(type)                                                  \
  asm volatile(                                                                \
      "{ .reg .pred more; setp.ne.b32 more, %36, 0; "                          \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " POSENC_D \
      ", %32, %33, more, 1, 1, %34, %35; }"                                    \
      : POSENC_ACCS                                                            \
      : "l"(a), "l"(b), "n"(kTransA), "n"(kTransB), "r"(static_cast<int>(more)))

template <class T, int kTransB>
__device__ inline void wgmma(Accum& d, const std::uint32_t (&a)[4], std::uint64_t b) {
  if constexpr (std::is_same_v<T, Bf16>) {
    POSENC_WGMMA_RS("bf16");
  } else {
    POSENC_WGMMA_RS("f16");
  }
}
// d = A B, or (more) d += A B.
template <class T, int kTransA, int kTransB>
__device__ inline void wgmma(Accum& d, std::uint64_t a, std::uint64_t b, bool more = true) {
  if constexpr (std::is_same_v<T, Bf16>) {
    POSENC_WGMMA_SS("bf16");
  } else {
    POSENC_WGMMA_SS("f16");
  }
}

#define POSENC_ACC2(p, n) "+f"(d[p][n][0]), "+f"(d[p][n][1]), "+f"(d[p][n][2]), "+f"(d[p][n][3])
#define POSENC_ACCS2(p)                                                                          \
  POSENC_ACC2(p, 0), POSENC_ACC2(p, 1), POSENC_ACC2(p, 2), POSENC_ACC2(p, 3), POSENC_ACC2(p, 4), \
      POSENC_ACC2(p, 5), POSENC_ACC2(p, 6), POSENC_ACC2(p, 7)
#define POSENC_D2                                                    \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"          \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
#define POSENC_WGMMA_RS2(type)                                                            \
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " " POSENC_D2 \
               ", {%64,%65,%66,%67}, %68, 1, 1, 1, 1;"                                    \
               : POSENC_ACCS2(0), POSENC_ACCS2(1)                                         \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define POSENC_WGMMA_SS2(type)                                                            \
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " " POSENC_D2 \
               ", %64, %65, 1, 1, 1, 1, 1;"                                               \
               : POSENC_ACCS2(0), POSENC_ACCS2(1)                                         \
               : "l"(a), "l"(b))

// Two tiles of 64 columns at once, with the sum along B's rows.
template <class T>
__device__ inline void wgmma_wide(Accum (&d)[2], const std::uint32_t (&a)[4], std::uint64_t b) {
  if constexpr (std::is_same_v<T, Bf16>) {
    POSENC_WGMMA_RS2("bf16");
  } else {
    POSENC_WGMMA_RS2("f16");
  }
}
template <class T>
__device__ inline void wgmma_wide(Accum (&d)[2], std::uint64_t a, std::uint64_t b) {
  if constexpr (std::is_same_v<T, Bf16>) {
    POSENC_WGMMA_SS2("bf16");
  } else {
    POSENC_WGMMA_SS2("f16");
  }
}

// d = A B^T, or d += A B^T, for 128 rows of B.
#define POSENC_WGMMA_ROWS(type)                                                  \
  asm volatile(                                                                  \
      "{ .reg .pred more; setp.ne.b32 more, %66, 0; "                            \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " " POSENC_D2 \
      ", %64, %65, more, 1, 1, 0, 0; }"                                          \
      : POSENC_ACCS2(0), POSENC_ACCS2(1)                                         \
      : "l"(a), "l"(b), "r"(static_cast<int>(more)))
template <class T>
__device__ inline void wgmma_rows(Accum (&d)[2], std::uint64_t a, std::uint64_t b, bool more) {
  if constexpr (std::is_same_v<T, Bf16>) {
    POSENC_WGMMA_ROWS("bf16");
  } else {
    POSENC_WGMMA_ROWS("f16");
  }
}

#undef POSENC_ACC
#undef POSENC_ACCS
#undef POSENC_D
#undef POSENC_WGMMA_RS
#undef POSENC_WGMMA_SS
#undef POSENC_ACC2
#undef POSENC_ACCS2
#undef POSENC_D2
#undef POSENC_WGMMA_RS2
#undef POSENC_WGMMA_SS2
#undef POSENC_WGMMA_ROWS

// The descriptor of a step of 16 along the sum: 32 bytes within rows, or 16 rows. Only the low word moves.
template <bool kTransposed>
__device__ inline std::uint64_t step_of(std::uint64_t tile, int s) {
  const auto offset = static_cast<std::uint32_t>(kTransposed ? 2048 * s / 16 : 32 * s / 16);
  return descriptor_of(static_cast<std::uint32_t>(tile) + offset);
}

// d += A B with A in registers; B's tile has the sum along its columns, or along its rows (kTransB).
template <class T, bool kTransB>
__device__ inline void multiply(Accum& d, const Fragment& a, std::uint32_t b) {
  const std::uint64_t right = descriptor(b);
#pragma unroll
  for (int s = 0; s < 4; ++s) wgmma<T, kTransB>(d, a[s], step_of<kTransB>(right, s));
}
// The same with A from a tile, likewise transposed or not; `more`: whether to add to d.
template <class T, bool kTransA, bool kTransB>
__device__ inline void multiply(Accum& d, std::uint32_t a, std::uint32_t b, bool more = true) {
  const std::uint64_t left = descriptor(a);
  const std::uint64_t right = descriptor(b);
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    wgmma<T, kTransA, kTransB>(d, step_of<kTransA>(left, s), step_of<kTransB>(right, s),
                               more || s > 0);
  }
}
// Products over rows of B with 64 kParts columns, its tiles one after the other; two tiles at a time
// (kWide) where registers allow: what counts is the number of products.
template <int kBytesApart = kTileBytes>
__device__ inline std::uint64_t wide_descriptor(std::uint32_t address) {
  constexpr std::uint64_t kApart = kBytesApart / 16;  // between the tiles
  return (descriptor(address) & ~(0x3fffull << 16)) | (kApart << 16);
}
template <class T, bool kWide, int kParts>
__device__ inline void multiply_rows(Accum (&d)[kParts], const Fragment& a, std::uint32_t b) {
  if constexpr (!kWide || kParts == 1) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) multiply<T, true>(d[p], a, b + p * kTileBytes);
  } else {
#pragma unroll
    for (int p = 0; p < kParts; p += 2) {
      const std::uint64_t right = wide_descriptor<>(b + p * kTileBytes);
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        wgmma_wide<T>(*reinterpret_cast<Accum(*)[2]>(&d[p]), a[s], step_of<true>(right, s));
      }
    }
  }
}
// The same with A from its transpose's tile.
template <class T, bool kWide, int kParts>
__device__ inline void multiply_rows(Accum (&d)[kParts], std::uint32_t a, std::uint32_t b) {
  if constexpr (!kWide || kParts == 1) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) multiply<T, true, true>(d[p], a, b + p * kTileBytes);
  } else {
    const std::uint64_t left = descriptor(a);
#pragma unroll
    for (int p = 0; p < kParts; p += 2) {
      const std::uint64_t right = wide_descriptor<>(b + p * kTileBytes);
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        wgmma_wide<T>(*reinterpret_cast<Accum(*)[2]>(&d[p]), step_of<true>(left, s),
                      step_of<true>(right, s));
      }
    }
  }
}
// Ordinary stores to shared memory become visible to the tensor cores.
__device__ inline void publish_smem() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#else

__device__ inline void mma_begin() {}
__device__ inline void mma_commit() {}
template <int kLeft = 0>
__device__ inline void mma_wait() {}
__device__ inline void publish_smem() {}

template <class T, bool kTransB>
__device__ inline void multiply(Accum& d, const Fragment& a, std::uint32_t b) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int s = 0; s < 4; ++s) {
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      std::uint32_t r[4];
      if constexpr (kTransB) {
        const int row = 16 * s + (lane & 15);
        ldmatrix4<true>(b + chunk_offset(row, n + (lane >> 4)), r);
      } else {
        const int row = 8 * n + (lane & 7) + (lane >> 4 << 3);
        ldmatrix4<false>(b + chunk_offset(row, 2 * s + (lane >> 3 & 1)), r);
      }
      mma_16_8_16<T>(d[n], a[s], r[0], r[1]);
      mma_16_8_16<T>(d[n + 1], a[s], r[2], r[3]);
    }
  }
}
template <class T, bool kTransA, bool kTransB>
__device__ inline void multiply(Accum& d, std::uint32_t a, std::uint32_t b, bool more = true) {
  if (!more) zero(d);
  Fragment fragment;
  load_fragment<kTransA>(a, fragment);
  multiply<T, kTransB>(d, fragment, b);
}
template <class T, bool kWide, int kParts>
__device__ inline void multiply_rows(Accum (&d)[kParts], const Fragment& a, std::uint32_t b) {
#pragma unroll
  for (int p = 0; p < kParts; ++p) multiply<T, true>(d[p], a, b + p * kTileBytes);
}
template <class T, bool kWide, int kParts>
__device__ inline void multiply_rows(Accum (&d)[kParts], std::uint32_t a, std::uint32_t b) {
  Fragment fragment;
  load_fragment<true>(a, fragment);
  multiply_rows<T, kWide>(d, fragment, b);
}

#endif

}  // namespace posenc::cuda

// Operands of products as planes of tiles. Halves are one plane. A float32 number is a sum of bfloat16
// numbers, its rounded value, the rounded rest, and the rest of that: two parts keep 16 bits, three all
// 24. A product of two such numbers is the sum of the products of their parts, less those that are below
// the last bit kept: three of four, or six of nine.
#pragma once

#include "kernels/cuda/device/rows.cuh"

namespace posenc::cuda {

// How an element type takes part in products: itself, or in parts.
struct Float2 {};
struct Float3 {};

template <class Kind>
struct Planes {
  using Element = Kind;
  using Mma = Kind;
  static constexpr int kCount = 1;
};
template <>
struct Planes<Float2> {
  using Element = float;
  using Mma = Bf16;
  static constexpr int kCount = 2;
};
template <>
struct Planes<Float3> {
  using Element = float;
  using Mma = Bf16;
  static constexpr int kCount = 3;
};
template <class Kind>
using ElementOf = typename Planes<Kind>::Element;
template <class Kind>
using MmaOf = typename Planes<Kind>::Mma;
// Of what is float32 whatever the elements are: CoPE's embedding and the gradients of its logits.
template <class Kind>
inline constexpr int kFloatPlanes = Planes<Kind>::kCount == 3 ? 3 : 2;

// 64 rows of kDim channels: tiles of the values, then tiles of the rests.
template <int kDim>
inline constexpr int kPlaneBytes = kDim / 64 * kTileBytes;
template <class Kind, int kDim>
inline constexpr int kOperandBytes = Planes<Kind>::kCount* kPlaneBytes<kDim>;

// Takes the rounded value of a pair off it.
template <class T = Bf16>
__device__ inline std::uint32_t take_part(float& low, float& high) {
  const std::uint32_t value = pack<T>(low, high);
  if constexpr (std::is_same_v<T, Bf16>) {
    low -= __uint_as_float(value << 16);
    high -= __uint_as_float(value & 0xffff0000u);
  } else {
    const float2 taken = __half22float2(*reinterpret_cast<const __half2*>(&value));
    low -= taken.x;
    high -= taken.y;
  }
  return value;
}

// All bits of each half of a pair of elements that is not finite.
template <class M>
__device__ inline std::uint32_t not_finite(std::uint32_t pair) {
  constexpr std::uint32_t kExponents = std::is_same_v<M, Bf16> ? 0x7f807f80u : 0x7c007c00u;
  return __vcmpeq2(pair & kExponents, kExponents);
}
template <class M>
__device__ inline std::uint32_t not_finite(const uint4& x) {
  return not_finite<M>(x.x) | not_finite<M>(x.y) | not_finite<M>(x.z) | not_finite<M>(x.w);
}

__device__ inline void store_16(std::uint32_t to, const std::uint32_t (&x)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]),
               "r"(x[3])
               : "memory");
}

__device__ inline uint4 load_16(std::uint32_t from) {
  uint4 x;
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(from)
               : "memory");
  return x;
}
__device__ inline std::uint32_t load_4(std::uint32_t from) {
  std::uint32_t x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
  return x;
}

// Eight neighbouring channels into all planes.
template <int kCount>
__device__ inline void store_parts(std::uint32_t to, int plane_bytes, float (&x)[8]) {
#pragma unroll
  for (int part = 0; part < kCount; ++part) {
    std::uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = take_part(x[2 * i], x[2 * i + 1]);
    store_16(to + part * plane_bytes, pairs);
  }
}

// 64 rows from `first` on, as load_tile has them, by a block of 128 threads; done after the copies' wait
// and a barrier.
template <class Kind, int kDim, bool kKeys>
__device__ inline void load_operand(std::uint32_t to, const RowsOf<ElementOf<Kind>>& from,
                                    int first, int count, int dim) {
  if constexpr (Planes<Kind>::kCount == 1) {
    load_tile<kDim, 64, kKeys, 128>(to, from, first, count, dim);
  } else {
    constexpr int kChunks = kDim / 8;
    const int chunk = static_cast<int>(threadIdx.x) % kChunks;
#pragma unroll 4
    for (int slot = static_cast<int>(threadIdx.x) / kChunks; slot < 64; slot += 128 / kChunks) {
      const int row = first + (kKeys ? key_of_slot(slot) : slot);
      float4 x[2] = {};
      if (row < count && chunk * 8 < dim) {
        const auto* source = reinterpret_cast<const float4*>(from.data + row * from.stride);
        x[0] = __ldg(source + 2 * chunk);
        x[1] = __ldg(source + 2 * chunk + 1);
      }
      store_parts<Planes<Kind>::kCount>(to + chunk / 8 * kTileBytes + chunk_offset(slot, chunk % 8),
                                        kPlaneBytes<kDim>, reinterpret_cast<float(&)[8]>(x));
    }
  }
}

// Calls f(i, j) for the parts whose products count, of operands of kLeft and kRight parts, small products
// first: tensor cores round their sums towards zero, which costs least while sums are small.
template <int kLeft, int kRight, class F>
__device__ inline void for_each_product(F&& f) {
  constexpr int kOrders = kLeft > kRight ? kLeft : kRight;
#pragma unroll
  for (int order = kOrders - 1; order >= 0; --order) {
#pragma unroll
    for (int i = 0; i < kLeft; ++i) {
      if (order - i >= 0 && order - i < kRight) f(i, order - i);
    }
  }
}

// d += A B, tiles of 64 columns of both; planes lie `apart` bytes from each other.
template <class M, int kLeft, int kRight, bool kTransA, bool kTransB>
__device__ inline void multiply_planes(Accum& d, std::uint32_t a, int a_apart, std::uint32_t b,
                                       int b_apart) {
  for_each_product<kLeft, kRight>(
      [&](int i, int j) { multiply<M, kTransA, kTransB>(d, a + i * a_apart, b + j * b_apart); });
}

// An accumulator as a left operand in registers.
template <class M, int kCount>
struct Fragments {
  Fragment part[kCount];
};
template <class Kind>
using FragmentsOf = Fragments<MmaOf<Kind>, Planes<Kind>::kCount>;

template <class M>
__device__ inline float round_to(float x) {
  return static_cast<float>(static_cast<M>(x));
}
// What rounding leaves of an accumulator.
template <class M>
__device__ inline void leave_rest(Accum& x) {
#pragma unroll
  for (int i = 0; i < 32; ++i) x[i / 4][i % 4] -= round_to<M>(x[i / 4][i % 4]);
}
template <class M, int kCount>
__device__ inline void to_fragments(Accum& x, Fragments<M, kCount>& a) {
#pragma unroll
  for (int part = 0; part < kCount; ++part) {
    to_fragment<M>(x, a.part[part]);
    if (part + 1 < kCount) leave_rest<M>(x);
  }
}
// Registers of a left operand stay what they are until its products are done.
template <class M, int kCount>
__device__ inline void hold(Fragments<M, kCount>& a) {
#pragma unroll
  for (int i = 0; i < kCount * 16; ++i) {
    asm volatile("" : "+r"(a.part[i / 16][i / 4 % 4][i % 4])::"memory");
  }
}

// The parts of a left operand: in registers, or its transpose's tiles in shared memory.
template <class M, int kCount>
__device__ inline const Fragment& part_of(const Fragments<M, kCount>& a, int part) {
  return a.part[part];
}
__device__ inline std::uint32_t part_of(std::uint32_t tiles, int part) {
  return tiles + part * kTileBytes;
}

// d += A B over rows of B with 64 kParts columns, and waits for it.
template <class M, int kCount, int kParts, class Left>
__device__ inline void add_rows(Accum (&d)[kParts], const Left& a, std::uint32_t b, int b_apart) {
  mma_begin();
  for_each_product<kCount, kCount>(
      [&](int i, int j) { multiply_rows<M, true>(d, part_of(a, i), b + j * b_apart); });
  mma_commit();
  mma_wait();
#pragma unroll
  for (int p = 0; p < kParts; ++p) pin(d[p]);
}
// The same; of three parts, products are summed by themselves, so that a long sum is rounded once per tile.
template <class M, int kCount, int kParts, class Left>
__device__ inline void add_rows_product(Accum (&d)[kParts], const Left& a, std::uint32_t b,
                                        int b_apart) {
  if constexpr (kCount < 3) {
    add_rows<M, kCount>(d, a, b, b_apart);
  } else {
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      Accum sum[1];
      zero(sum[0]);
      add_rows<M, kCount>(sum, a, b + p * kTileBytes, b_apart);
#pragma unroll
      for (int i = 0; i < 32; ++i) d[p][i / 4][i % 4] += sum[0][i / 4][i % 4];
    }
  }
}

// An accumulator as kCount tiles of 64 rows: its value and rests.
template <class M, int kCount>
__device__ inline void store_tiles(std::uint8_t* to, const ThreadRows& mine, Accum& x) {
#pragma unroll
  for (int part = 0; part < kCount; ++part) {
    store_tile<M>(to + part * kTileBytes, mine, x);
    if (part + 1 < kCount) leave_rest<M>(x);
  }
}

}  // namespace posenc::cuda

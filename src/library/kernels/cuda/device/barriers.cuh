// mbarriers in shared memory and setmaxnreg: synchronisation and register reallocation between the producer and
// consumer warpgroups of a warp-specialised kernel (sm_90).
#pragma once

#include "kernels/cuda/device/mma.cuh"

namespace posenc::cuda {

// Which of kSlots slots it is the turn of, and the parity of its barriers.
template <int kSlots>
struct SlotTurn {
  int slot = 0;
  int before = kSlots - 1;
  int parity = 0;
  bool again = false;  // whether every slot has had its turn
  __device__ void next() {
    before = slot;
    slot = slot == kSlots - 1 ? 0 : slot + 1;
    if (slot == 0) {
      parity ^= 1;
      again = true;
    }
  }
};

#if POSENC_WGMMA

__device__ inline void barrier_init(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Until the barrier's phase of this parity is over.
__device__ inline void barrier_wait(std::uint32_t barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
// Whether it is, without waiting.
__device__ inline bool barrier_is_over(std::uint32_t barrier, int parity) {
  int over;
  asm volatile(
      "{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.s32 %0, 1, 0, "
      "p; }"
      : "=r"(over)
      : "r"(barrier), "r"(parity)
      : "memory");
  return over != 0;
}

// Registers of a block with kGroups computing warpgroups and one that copies: all 64 Ki of a multiprocessor, most of
// them for those who compute.
template <int kGroups>
struct StreamRegisters {
  static constexpr int kComputing = kGroups == 3 ? 160 : 232;
  static constexpr int kCopying = kGroups == 3 ? 32 : 40;
};
template <int kCount>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ inline void leave_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

#endif

}  // namespace posenc::cuda

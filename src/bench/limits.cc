#include "bench/limits.h"

#include <cblas.h>

#include <cstdlib>
#include <vector>

#include "posenc/core/threads.h"

namespace posenc::bench {
namespace {

constexpr int kSize = 1024;

}  // namespace

struct Sgemm::State {
  std::vector<float> a = std::vector<float>(std::size_t{kSize} * kSize, 0.5f);
  std::vector<float> b = a;
  std::vector<float> c = a;
};

Sgemm::Sgemm() : state_(std::make_unique<State>()) {}
Sgemm::~Sgemm() = default;

void Sgemm::run() {
  openblas_set_num_threads(num_threads());
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSize, kSize, kSize, 1.0f,
              state_->a.data(), kSize, state_->b.data(), kSize, 0.0f, state_->c.data(), kSize);
}

std::string Sgemm::core() { return openblas_get_corename(); }

std::string better_openblas_core() {
#if defined(__x86_64__)
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr) return "";
  const std::string core = openblas_get_corename();
  if (core != "Prescott" && core != "Core2") return "";
  if (__builtin_cpu_supports("avx512f")) return "SkylakeX";
  if (__builtin_cpu_supports("avx2")) return "Haswell";
#endif
  return "";
}

}  // namespace posenc::bench

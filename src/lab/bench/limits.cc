#include "bench/limits.h"

#include <cblas.h>

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

}  // namespace posenc::bench

// The same bits for any number of threads, and from run to run.
#include <gtest/gtest.h>

#include <cstring>

#include "cases/problem.h"
#include "cases/table.h"
#include "posenc/core/threads.h"
#include "support/sanitizers.h"

namespace posenc::cases {
namespace {

// Large enough for every kernel to split its work.
std::vector<Case> wide_cases() {
  std::vector<Case> all;
  for (const char* spec : {"none", "rope + alibi(trainable=true) + cope(npos_max=8)",
                           "rope(schedule=learnable) + fire(init_threshold=20)",
                           "t5 + kerple + cope(npos_max=8, gate_source=separate)"}) {
    all.push_back(
        {.spec = spec, .batch = 2, .heads = 4, .queries = 200, .keys = 200, .dropout = 0.1});
    all.push_back({.op = Operation::kDecode, .spec = spec, .heads = 4, .queries = 2, .keys = 3000});
  }
  for (const LinearAttentionOptions& options : linear_forms()) {
    all.push_back({.op = Operation::kLinearAttention,
                   .spec = "rope(schedule=learnable)",
                   .batch = 2,
                   .heads = 4,
                   .queries = 200,
                   .keys = 200,
                   .linear = options});
  }
  for (const char* spec : {"rope", "rope(schedule=learnable)"}) {
    all.push_back({.op = Operation::kRope, .spec = spec, .batch = 2, .heads = 4, .queries = 300});
  }
  return all;
}

std::vector<double> all_results(const Case& c) {
  const auto problem = make_problem(c);
  problem->forward();
  problem->backward();
  std::vector<double> all;
  for (const Result& result : problem->results(true)) {
    all.insert(all.end(), result.values.begin(), result.values.end());
  }
  return all;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

TEST(CaseDeterminism, SameBitsForAnyThreadCountAndEveryRun) {
  for (const Case& c : wide_cases()) {
    SCOPED_TRACE(name_of(c));
    set_num_threads(1);
    const std::vector<double> alone = all_results(c);
    for (const int threads : {1, 2, 5}) {
      if (testing::kSanitized && threads < 5) continue;
      set_num_threads(threads);
      EXPECT_TRUE(same_bits(alone, all_results(c))) << threads << " threads";
    }
  }
  set_num_threads(0);
}

}  // namespace
}  // namespace posenc::cases

// Baselines: what a user would write without this library. The same mathematics as libtorch
// operations, with scores, biases and positions as tensors.
#pragma once

#include <memory>
#include <string>

#include "cases/problem.h"

namespace posenc::bench {

class Baseline {
 public:
  virtual ~Baseline() = default;
  virtual void run(bool with_backward) = 0;
  // The output of the same composition in float32, to be compared with the kernel's: in bfloat16 it
  // rounds at every step.
  [[nodiscard]] virtual std::vector<double> float32_out() = 0;

 protected:
  Baseline() = default;
  Baseline(const Baseline&) = default;
  Baseline& operator=(const Baseline&) = default;
};

// On the inputs of the problem, which must outlive it. Null where this was built without libtorch, or where the case is
// not composed (masks other than causal): `why_not` says so in a few words.
std::unique_ptr<Baseline> make_baseline(const cases::Case& c, cases::Problem& problem,
                                        std::string& why_not);

// "libtorch 1.13.1", or empty.
std::string baseline_library();

// Threads of the baselines, and whether their products go through oneDNN: its products are faster on
// some machines and slower on others.
void set_baseline_threads(int threads);
void set_baseline_onednn(bool on);

}  // namespace posenc::bench

// Built where libtorch is switched off: rows then have no baseline.
#include "bench/baseline.h"
#include "bench/measure.h"
#include "bench/training.h"

namespace posenc::bench {

std::unique_ptr<Baseline> make_baseline(const cases::Case& /*c*/, cases::Problem& /*problem*/,
                                        std::string& why_not) {
  why_not = "built without libtorch";
  return nullptr;
}
std::string baseline_library() { return ""; }
void set_baseline_threads(int /*threads*/) {}
void set_baseline_onednn(bool /*on*/) {}
std::vector<Job> operator_jobs() { return {}; }
std::vector<std::string> training_encodings(std::int64_t /*length*/) { return {}; }
bool cuda_found() { return false; }
TrainingRow measure_training(const std::string& /*encoding*/, const TrainingShape& /*shape*/,
                             const TrainingPlace& /*place*/, const Effort& /*effort*/) {
  return {};
}

}  // namespace posenc::bench

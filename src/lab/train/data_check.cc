#include "train/data_check.h"

#include "posenc/core/error.h"

namespace posenc::train {
namespace {

constexpr const char* kHash = "data_sha256";

}  // namespace

Value::Map data_facts(const tasks::Task& task) {
  const std::string hash = task.content_hash();
  if (hash.empty()) return {};
  return {{kHash, Value::of_string(hash)}};
}

void require_same_data(const runs::RunDirectory& run, const tasks::Task& task) {
  const Value environment = run.environment();
  const Value* trained = environment.find(kHash);
  if (trained == nullptr) return;
  const std::string hash = task.content_hash();
  if (*trained == Value::of_string(hash)) return;
  throw Error(ErrorKind::kConflict,
              {.scope = run.path().string(),
               .key = "",
               .rule = "was trained on other files than " + task.info().name + " has now",
               .value = "data_sha256 " + hash,
               .hint = "restore the files, or train a new run"});
}

}  // namespace posenc::train

#include "tasks/task.h"

#include "core/bind.h"

namespace posenc::tasks {

std::unique_ptr<Task> make_task(const TaskConfig& config) {
  return std::visit(
      [](const auto& fields) {
        using Config = std::decay_t<decltype(fields)>;
        // Fields set in C++ obey the same rules as fields that were read from a file.
        return make(
            bind_config<Config>(Value(Value::Data(all_fields(fields))), Config::kTraits.name));
      },
      config);
}

const TaskTraits& task_traits(const TaskConfig& config) {
  return std::visit(
      [](const auto& fields) -> const TaskTraits& {
        return std::decay_t<decltype(fields)>::kTraits;
      },
      config);
}

std::string_view split_name(Split split) {
  switch (split) {
    case Split::kTrain:
      return "training";
    case Split::kValidation:
      return "validation";
    case Split::kTest:
      break;
  }
  return "test";
}

std::optional<std::int64_t> Task::rows(const Condition& /*condition*/) const {
  return std::nullopt;
}

std::int64_t Task::natural_length(std::string_view /*axis*/, std::int64_t train_length) const {
  return train_length;
}

std::optional<std::uint32_t> Task::cluster(const Condition& /*condition*/,
                                           std::uint64_t /*row*/) const {
  return std::nullopt;
}

std::string Task::content_hash() const { return ""; }

std::string Task::data_summary() const { return ""; }

std::string Task::warning() const { return ""; }

std::optional<double> Task::depth(std::span<const std::int32_t> /*row*/) const {
  return std::nullopt;
}

std::int32_t Task::operation(std::span<const std::int32_t> /*row*/) const { return 0; }

std::optional<Region> Task::instruction(std::span<const std::int32_t> /*row*/) const {
  return std::nullopt;
}

}  // namespace posenc::tasks

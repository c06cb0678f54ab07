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

std::optional<std::int64_t> Task::rows(const Condition& /*condition*/) const {
  return std::nullopt;
}

std::optional<Region> Task::instruction(std::span<const std::int32_t> /*row*/) const {
  return std::nullopt;
}

}  // namespace posenc::tasks

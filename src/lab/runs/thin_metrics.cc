#include "runs/thin_metrics.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace posenc::runs {
namespace {

using Rows = std::vector<std::size_t>;  // indices

// The rows of one kind, step by step.
struct Kind {
  std::string name;
  std::size_t rows = 0;
  std::vector<Rows> steps;
  std::int64_t last_step = 0;
};

template <class T>
T member_of(const Value& row, std::string_view key) {
  const Value* value = row.find(key);
  const T* found = value == nullptr ? nullptr : value->get_if<T>();
  return found == nullptr ? T{} : *found;
}

std::vector<Kind> kinds_of(const std::vector<Value>& rows) {
  std::vector<Kind> kinds;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto name = member_of<std::string>(rows[i], "kind");
    const auto step = member_of<std::int64_t>(rows[i], "step");
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](auto& k) { return k.name == name; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {name, 0, {}, 0});
    if (kind->steps.empty() || kind->last_step != step) kind->steps.emplace_back();
    kind->steps.back().push_back(i);
    kind->last_step = step;
    ++kind->rows;
  }
  return kinds;
}

int rank(const Kind& kind) { return kind.name == "eval" ? 0 : kind.name == "train" ? 2 : 1; }

// Whole steps, evenly spread and the last among them; of a single step its last rows.
Rows chosen(const Kind& kind, std::size_t most) {
  std::size_t largest = 0;
  for (const Rows& step : kind.steps) largest = std::max(largest, step.size());
  const std::size_t count =
      kind.rows <= most ? kind.steps.size() : std::max<std::size_t>(1, most / largest);
  Rows rows;
  for (std::size_t i = 1; i <= count; ++i) {
    const Rows& step = kind.steps[i * kind.steps.size() / count - 1];
    rows.insert(rows.end(), step.begin(), step.end());
  }
  if (rows.size() > most) rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(most));
  return rows;
}

}  // namespace

std::vector<Value> thin_metrics(const std::vector<Value>& rows, std::size_t most) {
  std::vector<Kind> kinds = kinds_of(rows);
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const Kind& a, const Kind& b) { return rank(a) < rank(b); });
  Rows kept;
  for (std::size_t k = 0; k < kinds.size() && kept.size() < most; ++k) {
    const std::size_t later = kinds.size() - k - 1;  // a row for each of them
    const std::size_t left = most - kept.size();
    const Rows of_kind = chosen(kinds[k], left > later ? left - later : 1);
    kept.insert(kept.end(), of_kind.begin(), of_kind.end());
  }
  std::sort(kept.begin(), kept.end());
  std::vector<Value> thinned;
  for (const std::size_t row : kept) thinned.push_back(rows[row]);
  return thinned;
}

}  // namespace posenc::runs

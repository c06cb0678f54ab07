// Chance and trained share, measured over samples: no task needs code for them.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <vector>

#include "tasks/task.h"

namespace posenc::tasks {
namespace {

constexpr std::uint64_t kSeed = 0x5EEDC0DEu;  // of these samples alone
constexpr std::int64_t kTokenBudget = std::int64_t{1} << 21;
constexpr std::size_t kEnoughAnswers = std::size_t{1} << 18;
constexpr std::int64_t kFewestRows = 256;
constexpr std::int64_t kRowsAtOnce = 64;
constexpr double kLeastShare = 0.005;  // of the training answers, for a label to count as trained

struct Scored {
  std::int32_t row;
  std::int32_t position;
  std::int32_t target;
  std::int32_t operation;
};

std::int64_t sample_rows(const Task& task, const Condition& condition) {
  const std::int64_t length = std::max<std::int64_t>(condition.length, 1);
  const std::int64_t wanted = std::clamp<std::int64_t>(kTokenBudget / length, kFewestRows, 16384);
  return std::min(wanted, task.rows(condition).value_or(wanted));
}

void add_answers(const Task& task, const Batch& batch, std::int64_t first, std::int64_t r,
                 std::vector<Scored>& answers) {
  const auto length = static_cast<std::size_t>(batch.length);
  const std::size_t start = static_cast<std::size_t>(r) * length;
  const std::int32_t operation = task.operation(std::span(batch.tokens).subspan(start, length));
  for (std::size_t t = 0; t < length; ++t) {
    const std::int32_t target = batch.targets[start + t];
    if (target == kUnscored) continue;
    answers.push_back(
        {static_cast<std::int32_t>(first + r), static_cast<std::int32_t>(t), target, operation});
  }
}

std::vector<Scored> sample_answers(const Task& task, const Condition& condition) {
  std::vector<Scored> answers;
  const std::int64_t rows = sample_rows(task, condition);
  Batch batch;
  for (std::int64_t first = 0; first < rows; first += kRowsAtOnce) {
    if (first >= kFewestRows && answers.size() >= kEnoughAnswers) break;
    batch.rows = std::min(kRowsAtOnce, rows - first);
    task.fill(condition, kSeed, static_cast<std::uint64_t>(first), batch);
    for (std::int64_t r = 0; r < batch.rows; ++r) add_answers(task, batch, first, r, answers);
  }
  return answers;
}

// Even rows choose the answers, odd rows judge them: the luck of a small sample earns nothing.
bool chooses(const Scored& answer) { return answer.row % 2 == 0; }

std::vector<std::int64_t> target_counts(const std::vector<Scored>& answers,
                                        std::int64_t vocabulary) {
  std::vector<std::int64_t> counts(vocabulary);
  for (const Scored& answer : answers) {
    if (chooses(answer)) ++counts[answer.target];
  }
  return counts;
}

std::int32_t commonest(const std::vector<std::int64_t>& counts) {
  return static_cast<std::int32_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
}

// The commonest target of each position, `otherwise` where there was none to learn from.
std::vector<std::int32_t> commonest_by_position(const std::vector<Scored>& answers,
                                                std::int64_t length, std::int32_t otherwise) {
  std::vector<std::uint64_t> keys;
  for (const Scored& a : answers) {
    if (!chooses(a)) continue;
    keys.push_back(static_cast<std::uint64_t>(a.position) << 32 |
                   static_cast<std::uint32_t>(a.target));
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::int32_t> best(length, otherwise);
  std::vector<std::ptrdiff_t> times(length, 0);
  for (auto run = keys.begin(); run != keys.end();) {
    const auto end = std::upper_bound(run, keys.end(), *run);
    const auto position = static_cast<std::size_t>(*run >> 32);
    if (end - run > times[position]) {
      times[position] = end - run;
      best[position] = static_cast<std::int32_t>(*run & 0xFFFFFFFFu);
    }
    run = end;
  }
  return best;
}

template <class Says>
double accuracy(const std::vector<Scored>& answers, Says says) {
  std::int64_t judged = 0;
  std::int64_t right = 0;
  for (const Scored& answer : answers) {
    if (chooses(answer)) continue;
    ++judged;
    if (says(answer.position) == answer.target) ++right;
  }
  return judged == 0 ? 0.0 : static_cast<double>(right) / static_cast<double>(judged);
}

double best_accuracy(const std::vector<Scored>& answers, std::int64_t length,
                     std::int64_t vocabulary) {
  const std::int32_t one = commonest(target_counts(answers, vocabulary));
  const std::vector<std::int32_t> each = commonest_by_position(answers, length, one);
  return std::max(accuracy(answers, [&](std::int64_t) { return one; }),
                  accuracy(answers, [&](std::int64_t t) { return each[t]; }));
}

// Mean of p^(scored positions of a row): the answers of a row are taken as independent.
double whole_rows(const std::vector<Scored>& answers, double p) {
  double sum = 0.0;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < answers.size();) {
    std::size_t end = i;
    while (end < answers.size() && answers[end].row == answers[i].row) ++end;
    sum += std::pow(p, static_cast<double>(end - i));
    ++rows;
    i = end;
  }
  return rows == 0 ? 0.0 : sum / static_cast<double>(rows);
}

// What single bytes cost under the frequencies of the even rows, each counted once more than seen.
double unigram_bits(const std::vector<Scored>& answers, std::int64_t vocabulary) {
  const std::vector<std::int64_t> counts = target_counts(answers, vocabulary);
  double total = 0.0;
  for (const std::int64_t count : counts) total += static_cast<double>(count + 1);
  double bits = 0.0;
  std::int64_t judged = 0;
  for (const Scored& answer : answers) {
    if (chooses(answer)) continue;
    ++judged;
    bits -= std::log2(static_cast<double>(counts[answer.target] + 1) / total);
  }
  return judged == 0 ? std::log2(static_cast<double>(vocabulary))
                     : bits / static_cast<double>(judged);
}

std::vector<Scored> within(const std::vector<Scored>& answers, const Region& range) {
  std::vector<Scored> inside;
  std::copy_if(answers.begin(), answers.end(), std::back_inserter(inside), [&](const Scored& a) {
    return range.begin <= a.position && a.position < range.end;
  });
  return inside;
}

double chance_of(const std::vector<Scored>& answers, std::int64_t length, const TaskInfo& info,
                 bool single) {
  if (answers.empty()) return std::numeric_limits<double>::quiet_NaN();
  if (in_bits(info.metric)) return unigram_bits(answers, info.vocabulary);
  const double of_positions = best_accuracy(answers, length, info.vocabulary);
  const double value =
      info.row_metric && !single ? whole_rows(answers, of_positions) : of_positions;
  return info.metric == Metric::kError ? 1.0 - value : value;
}

// The labels that training asks for often enough to teach them, for each operation.
class TrainedLabels {
 public:
  TrainedLabels(const std::vector<Scored>& training, double least_share)
      : least_share_(least_share) {
    for (const Scored& answer : training) {
      Operation& operation = operations_[answer.operation];
      ++operation.counts[answer.target];
      ++operation.total;
    }
  }
  [[nodiscard]] bool has(const Scored& answer) const {
    const auto operation = operations_.find(answer.operation);
    if (operation == operations_.end()) return false;
    const auto count = operation->second.counts.find(answer.target);
    return count != operation->second.counts.end() &&
           static_cast<double>(count->second) >= least(operation->second);
  }

 private:
  struct Operation {
    std::map<std::int32_t, std::int64_t> counts;
    std::int64_t total = 0;
  };
  // Among more than 100 labels an even share is below 1 %, so half of an even share is enough.
  [[nodiscard]] double least(const Operation& operation) const {
    const auto labels = static_cast<double>(operation.counts.size());
    return static_cast<double>(operation.total) * std::min(least_share_, 0.5 / labels);
  }

  double least_share_;
  std::map<std::int32_t, Operation> operations_;
};

}  // namespace

std::vector<double> Task::chances(const Condition& condition,
                                  std::span<const Region> ranges) const {
  const std::vector<Scored> answers = sample_answers(*this, condition);
  std::vector<double> values;
  for (const Region& range : ranges) {
    values.push_back(chance_of(within(answers, range), condition.length, info(), range.single));
  }
  return values;
}

double Task::chance(const Condition& condition) const {
  const Region whole{0, condition.length};
  return chances(condition, {&whole, 1}).front();
}

double Task::trained_share(const Condition& condition) const {
  Condition training = condition;
  training.axis = "train";
  training.split = Split::kTrain;
  training.depth.reset();
  if (condition.train_length > 0) training.length = condition.train_length;
  // Bits are not right or wrong: a rare byte is as trained as its frequency deserves.
  const double least_share = in_bits(info().metric) ? 0.0 : kLeastShare;
  const TrainedLabels trained(sample_answers(*this, training), least_share);
  const std::vector<Scored> answers = sample_answers(*this, condition);
  const auto known = std::count_if(answers.begin(), answers.end(),
                                   [&](const Scored& answer) { return trained.has(answer); });
  return answers.empty() ? 0.0 : static_cast<double>(known) / static_cast<double>(answers.size());
}

}  // namespace posenc::tasks

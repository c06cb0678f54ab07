#include "tasks/passage_matching.h"

#include <fmt/format.h>

#include <algorithm>

#include "tasks/corpus_task.h"

namespace posenc::tasks {
namespace {

enum Token : std::int32_t { kPad = kBytes, kCls, kSep, kNo, kYes, kVocabulary };

class PassageMatchingTask final : public CorpusTask {
 public:
  using CorpusTask::CorpusTask;

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    if (token == kPad) return "<pad>";
    if (token == kCls) return "<cls>";
    if (token == kSep) return "<sep>";
    if (token == kNo) return "no";
    if (token == kYes) return "yes";
    return CorpusTask::token_text(token);
  }
  [[nodiscard]] std::optional<std::uint32_t> cluster(const Condition& condition,
                                                     std::uint64_t row) const override {
    if (condition.split == Split::kTrain) return std::nullopt;
    return static_cast<std::uint32_t>(row % documents(checked(condition)).size());
  }

 private:
  [[nodiscard]] std::vector<Bytes> long_enough(const Request& request, std::size_t bytes) const;
  void fill_rows(const Request& request) const override;
};

std::vector<Bytes> PassageMatchingTask::long_enough(const Request& request,
                                                    std::size_t bytes) const {
  std::vector<Bytes> texts;
  for (const Document& document : documents(request)) {
    if (document.bytes.size() >= bytes) texts.push_back(document.bytes);
  }
  if (texts.size() >= 2) return texts;
  throw error(ErrorKind::kOutOfRange,
              {.key = "length",
               .rule = fmt::format("must leave two {} documents of {} bytes, there {} {}",
                                   split_name(request.split), bytes,
                                   texts.size() == 1 ? "is" : "are", texts.size()),
               .value = std::to_string(request.length),
               .hint = "name more files, or raise the share of that split"});
}

// Two passages of one text that do not overlap, in either order; each pair is equally likely.
std::pair<Bytes, Bytes> two_passages(Bytes text, std::size_t passage, Draw& draw) {
  const auto slack = static_cast<std::int64_t>(text.size() - 2 * passage);
  // Two places among slack + 2, without order, are the ends of the gaps before and between.
  std::int64_t a = draw.below_large(slack + 2);
  std::int64_t b = draw.below_large(slack + 1);
  if (b >= a) ++b;
  const bool swapped = b < a;
  if (swapped) std::swap(a, b);
  const Bytes first = text.subspan(a, passage);
  const Bytes second = text.subspan(static_cast<std::size_t>(b) - 1 + passage, passage);
  return swapped ? std::pair{second, first} : std::pair{first, second};
}

void PassageMatchingTask::fill_rows(const Request& request) const {
  require_length(request.length, info().min_length, "for two bytes and two marks");
  const bool training = request.split == Split::kTrain;
  if (!training) require_context(request);  // every document of the split is then long enough
  const auto passage = static_cast<std::size_t>(request.length - 2) / 2;
  const std::vector<Bytes> texts = long_enough(request, 2 * passage);
  const auto count = std::ssize(texts);
  Request alike = request;
  if (!training) alike.key = request.shared_key;
  for_each_row(alike, [&](Row row, Draw& draw, std::uint64_t number) {
    const bool same = draw.below(2) == 1;
    const auto step = 1 + static_cast<std::size_t>(draw.below(count - 1));
    const std::size_t document =
        training ? static_cast<std::size_t>(draw.below(count)) : number % texts.size();
    auto [a, b] = two_passages(texts[document], passage, draw);
    if (!same) {  // drawn like a second passage, so that its place in the text says nothing
      b = two_passages(texts[(document + step) % texts.size()], passage, draw).second;
    }
    row.tokens[0] = kCls;
    row.tokens[passage + 1] = kSep;
    std::copy(a.begin(), a.end(), row.tokens.begin() + 1);
    std::copy(b.begin(), b.end(), row.tokens.begin() + static_cast<std::ptrdiff_t>(passage) + 2);
    if (request.length % 2 != 0) row.tokens.back() = kPad;
    row.targets[0] = same ? kYes : kNo;
  });
}

}  // namespace

std::unique_ptr<Task> make(const PassageMatching& config) {
  TaskInfo info{.name = std::string(PassageMatching::kTraits.name),
                .vocabulary = kVocabulary,
                .bidirectional = true,
                .length = 512,
                .min_length = 4,
                .pad = kPad};
  std::vector<Axis> axes = {{"train", "as in training", true}, {"longer", "longer passages"}};
  return std::make_unique<PassageMatchingTask>(config.files, std::move(info), std::move(axes));
}

}  // namespace posenc::tasks

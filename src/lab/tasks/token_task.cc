#include "tasks/token_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <mutex>

#include "core/bind.h"
#include "tasks/corpus_files.h"
#include "tasks/generator.h"
#include "tasks/permutation.h"
#include "tasks/windows.h"
#include "tasks/words.h"
#include "tokens/token_files.h"
#include "tokens/tokenizer.h"
#include "tokens/unicode.h"

namespace posenc::tasks {
namespace {

enum TokenAxis : std::size_t { kTokenTrain, kTokenLonger };

constexpr std::string_view kName = LanguageModel::kTraits.name;
constexpr std::int64_t kAlwaysVerified = std::int64_t{256} << 20;  // bytes: about a second

class TokenTask final : public Generator {
 public:
  TokenTask(const LanguageModel& config, std::shared_ptr<const tokens::TokenFiles> files,
            TaskInfo info)
      : Generator(std::move(info), {{"train", "blocks of the text scored everywhere", true},
                                    {"longer", "the same tokens scored after a longer context"}}),
        files_(std::move(files)),
        tokenizer_(
            tokens::Tokenizer::read((std::filesystem::path(files_->folder()) / "tokenizer.json"))),
        scored_(config.scored),
        longest_context_(config.files.longest_context) {
    require_tokenizer();
  }

  [[nodiscard]] std::string token_text(std::int32_t token) const override;
  [[nodiscard]] std::string content_hash() const override { return files_->sha256(); }
  [[nodiscard]] std::string data_summary() const override;
  [[nodiscard]] std::optional<std::int64_t> rows(const Condition& condition) const override;
  [[nodiscard]] std::optional<std::uint32_t> cluster(const Condition& condition,
                                                     std::uint64_t row) const override;

 private:
  // Where a row begins in the stream of its split, and its first scored position.
  struct Place {
    std::int64_t begin = 0;
    std::size_t first_scored = 0;
  };

  void require_tokenizer() const;
  void fill_rows(const Request& request) const override;
  void fill_epochs(const Request& request) const;
  void put(const Request& request, Place place, Row row) const;
  [[nodiscard]] std::int64_t tokens_of(const Request& request) const;
  [[nodiscard]] std::int64_t scored_tokens(const Request& request) const;
  // The rows of an evaluation: blocks of the whole stream, or within documents on axis longer.
  using SharedPlaces = std::shared_ptr<const BlockPlaces>;
  [[nodiscard]] SharedPlaces blocks(const Request& request) const;
  [[nodiscard]] BlockPlaces new_blocks(const Request& request, std::int64_t scored) const;
  [[nodiscard]] Place place(const Request& request, const BlockPlaces& blocks,
                            std::int64_t row) const;

  std::shared_ptr<const tokens::TokenFiles> files_;
  tokens::Tokenizer tokenizer_;
  std::int64_t scored_;
  std::int64_t longest_context_;
  // By axis, split, scored tokens and length: a corpus may have millions of documents, and rows are asked for singly.
  mutable std::mutex places_mutex_;
  mutable std::map<std::array<std::int64_t, 4>, SharedPlaces> places_;
};

bool is_drawn(const Request& request) {
  return request.axis == kTokenTrain && request.split == Split::kTrain;
}

std::size_t split_number(const Request& request) { return static_cast<std::size_t>(request.split); }

void TokenTask::require_tokenizer() const {
  const tokens::TokenIndex& index = files_->index();
  if (tokenizer_.fingerprint() == index.tokenizer_sha256) return;
  throw error(
      ErrorKind::kConflict,
      {.key = "tokens",
       .rule = fmt::format("must have the tokenizer that wrote them (vocabulary SHA-256 {})",
                           index.tokenizer_sha256),
       .value = fmt::format("{} in {}/tokenizer.json", tokenizer_.fingerprint(), files_->folder()),
       .hint = "restore tokenizer.json, or write the token files again"});
}

std::string TokenTask::token_text(std::int32_t token) const {
  const std::string bytes = tokenizer_.decode({&token, 1});
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const tokens::CodePoint next = tokens::code_point_at(bytes, at);
    const bool plain = next.value >= 0x80 && next.value < tokens::kInvalidByte;
    text += plain ? bytes.substr(at, next.bytes) : byte_name(static_cast<unsigned char>(bytes[at]));
    at += next.bytes;
  }
  return text;
}

std::string TokenTask::data_summary() const {
  const tokens::TokenIndex& index = files_->index();
  std::string text;
  for (std::size_t s = 0; s < index.splits.size(); ++s) {
    text +=
        fmt::format("{}{} {} tokens in {} documents", s == 0 ? "" : ", ", index.splits[s].tokens,
                    split_name(static_cast<Split>(s)), index.splits[s].documents);
  }
  return text + fmt::format("; {:.3f} bytes per token; vocabulary of {}",
                            static_cast<double>(index.bytes()) /
                                static_cast<double>(std::max<std::int64_t>(1, index.tokens())),
                            index.vocabulary);
}

std::int64_t TokenTask::tokens_of(const Request& request) const {
  const std::int64_t tokens = files_->index().splits[split_number(request)].tokens;
  if (tokens > request.length) return tokens;
  throw error(ErrorKind::kOutOfRange,
              {.key = "length",
               .rule = fmt::format("must be below the {} tokens of the {} split", tokens,
                                   split_name(request.split)),
               .value = std::to_string(request.length),
               .hint = "write token files of more text, or hold out a larger share"});
}

std::int64_t TokenTask::scored_tokens(const Request& request) const {
  if (request.axis == kTokenTrain) return request.length;
  if (request.length > longest_context_) {
    throw error(ErrorKind::kOutOfRange,
                {.key = "length",
                 .rule = fmt::format("must be <= {} (longest_context)", longest_context_),
                 .value = std::to_string(request.length),
                 .hint = "raise longest_context, which leaves longer documents alone"});
  }
  const std::int64_t half = std::max<std::int64_t>(1, request.train_length / 2);
  const std::int64_t scored = std::min({scored_, half, longest_context_});
  const std::int64_t more = request.length - request.train_length;
  if (request.length >= scored && (more <= 0 || more >= scored)) return scored;
  throw error(ErrorKind::kOutOfRange,
              {.key = "length",
               .rule = fmt::format("must be from {0} (scored) to the training length {1}, or at "
                                   "least {0} more",
                                   scored, request.train_length),
               .value = std::to_string(request.length),
               .hint = "choose another length, or lower scored"});
}

TokenTask::SharedPlaces TokenTask::blocks(const Request& request) const {
  const std::int64_t scored = scored_tokens(request);
  const std::array<std::int64_t, 4> key = {static_cast<std::int64_t>(request.axis),
                                           static_cast<std::int64_t>(request.split), scored,
                                           request.axis == kTokenTrain ? request.length : 0};
  const std::lock_guard lock(places_mutex_);
  SharedPlaces& known = places_[key];
  if (!known) known = std::make_shared<const BlockPlaces>(new_blocks(request, scored));
  return known;
}

BlockPlaces TokenTask::new_blocks(const Request& request, std::int64_t scored) const {
  const std::int64_t all = tokens_of(request);
  if (request.axis == kTokenTrain) return {std::span(&all, 1), scored, request.length};
  std::vector<std::int64_t> sizes;
  std::uint64_t before = 0;
  for (const std::uint64_t end : files_->document_ends(split_number(request))) {
    sizes.push_back(static_cast<std::int64_t>(end - before));
    before = end;
  }
  BlockPlaces places(sizes, scored, longest_context_);
  if (places.size() > 0) return places;
  throw error(ErrorKind::kConflict,
              {.key = "longest_context",
               .rule = fmt::format("must leave {} documents of more tokens, and there are none",
                                   split_name(request.split)),
               .value = std::to_string(longest_context_),
               .hint = "lower longest_context, or hold out more text"});
}

TokenTask::Place TokenTask::place(const Request& request, const BlockPlaces& blocks,
                                  std::int64_t row) const {
  const std::size_t document = blocks.document(row);
  const auto ends = files_->document_ends(split_number(request));
  const bool inside = request.axis == kTokenLonger && document > 0;
  const std::int64_t start = inside ? static_cast<std::int64_t>(ends[document - 1]) : 0;
  return {start + blocks.end(row) - request.length - 1,
          static_cast<std::size_t>(request.length - scored_tokens(request))};
}

std::optional<std::int64_t> TokenTask::rows(const Condition& condition) const {
  const Request request = checked(condition);
  if (is_drawn(request)) return std::nullopt;
  return blocks(request)->size();
}

std::optional<std::uint32_t> TokenTask::cluster(const Condition& condition,
                                                std::uint64_t row) const {
  const Request request = checked(condition);
  if (is_drawn(request)) return std::nullopt;
  const SharedPlaces all = blocks(request);
  if (row >= static_cast<std::uint64_t>(all->size())) return std::nullopt;
  const auto begin =
      static_cast<std::uint64_t>(place(request, *all, static_cast<std::int64_t>(row)).begin);
  const auto ends = files_->document_ends(split_number(request));
  return static_cast<std::uint32_t>(std::upper_bound(ends.begin(), ends.end(), begin) -
                                    ends.begin());
}

void TokenTask::put(const Request& request, Place place, Row row) const {
  const std::size_t split = split_number(request);
  files_->copy(split, place.begin, row.tokens);
  std::copy(row.tokens.begin() + 1, row.tokens.end(), row.targets.begin());
  files_->copy(split, place.begin + request.length, row.targets.last(1));
  std::fill_n(row.targets.begin(), place.first_scored, kUnscored);
  if (info().separator < 0) return;
  for (std::size_t t = 0; t < row.tokens.size(); ++t) {
    if (row.tokens[t] == info().separator) row.targets[t] = kUnscored;
  }
}

void TokenTask::fill_rows(const Request& request) const {
  if (is_drawn(request)) return fill_epochs(request);
  const SharedPlaces all = blocks(request);
  require_rows(request, all->size());
  for_each_row(request, [&](Row row, Draw& /*draw*/, std::uint64_t number) {
    put(request, place(request, *all, static_cast<std::int64_t>(number)), row);
  });
}

// A block or two fewer than fit, so that each epoch can begin its blocks elsewhere.
void TokenTask::fill_epochs(const Request& request) const {
  const std::int64_t answers = tokens_of(request) - 1;
  const std::int64_t blocks = std::max<std::int64_t>(1, answers / request.length - 1);
  for_each_row(request, [&](Row row, Draw& /*draw*/, std::uint64_t number) {
    const std::uint64_t epoch = number / static_cast<std::uint64_t>(blocks);
    const std::uint64_t key = mixed(request.key ^ mixed(epoch));
    const std::int64_t start = Draw(key, 0).below_large(answers - blocks * request.length + 1);
    const auto block = static_cast<std::int64_t>(permuted(
        number % static_cast<std::uint64_t>(blocks), static_cast<std::uint64_t>(blocks), key));
    put(request, {start + block * request.length, 0}, row);
  });
}

// Fields about files in memory: the split and the cleaning of token files are their own.
void require_no_file_fields(const LanguageModel& config) {
  const CorpusFiles plain{.longest_context = config.files.longest_context};
  if (config.files == plain) return;
  const Value::Map given = all_fields(config);
  const Value::Map usual = all_fields(LanguageModel{.files = plain});
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool own =
        given[i].key == "tokens" || given[i].key == "packing" || given[i].key == "scored";
    if (own || given[i] == usual[i]) continue;
    throw conflict(kName, given[i].key, "is not read with tokens", describe(given[i].value),
                   "leave it out: posenc data tokens has chosen the files and the split");
  }
}

}  // namespace

std::unique_ptr<Task> make_token_task(const LanguageModel& config) {
  require_no_file_fields(config);
  auto files = std::make_shared<const tokens::TokenFiles>(path_or_corpus(config.tokens));
  const tokens::TokenIndex& index = files->index();
  if (index.tokens() * index.token_bytes <= kAlwaysVerified) files->verify();
  TaskInfo info{.name = std::string(kName),
                .vocabulary = index.vocabulary,
                .metric = Metric::kBitsPerToken,
                .length = 512};
  if (masks_documents(config)) info.separator = static_cast<std::int32_t>(index.end_of_document);
  return std::make_unique<TokenTask>(config, std::move(files), std::move(info));
}

}  // namespace posenc::tasks

#include "tokens/token_index.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "posenc/core/error.h"

namespace posenc::tokens {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "posenc tokens 1";
constexpr std::int64_t kMost = std::int64_t{1} << 48;  // tokens, bytes, documents
constexpr std::int64_t kLargestVocabulary = std::int64_t{1} << 31;

class IndexReader {
 public:
  IndexReader(std::string_view json, const std::string& scope) : scope_(scope) {
    root_ = Json::parse(json, nullptr, false);
    if (root_.is_discarded() || !root_.is_object()) {
      throw error(ErrorKind::kSyntax, "file", "must be a JSON object", "");
    }
    if (text(root_, "format") != kFormat) {
      throw error(ErrorKind::kUnsupported, "format", fmt::format("must be '{}'", kFormat),
                  text(root_, "format"));
    }
  }

  TokenIndex read() const {
    TokenIndex index;
    const std::string type = text(root_, "dtype");
    if (type != "uint16" && type != "uint32") {
      throw error(ErrorKind::kUnsupported, "dtype", "must be uint16 or uint32", type);
    }
    index.token_bytes = type == "uint16" ? 2 : 4;
    index.vocabulary = number(root_, "vocabulary", 1, kLargestVocabulary);
    index.tokenizer_sha256 = text(root_, "tokenizer_sha256");
    index.end_of_document = number(root_, "end_of_document", 0, index.vocabulary - 1);
    index.source = text(root_, "source");
    index.licence = text(root_, "licence");
    const Json& splits = member(root_, "splits");
    for (std::size_t s = 0; s < kSplitNames.size(); ++s) {
      index.splits[s] = split(member(splits, kSplitNames[s]));
    }
    return index;
  }

 private:
  [[nodiscard]] Error error(ErrorKind kind, std::string_view key, std::string rule,
                            std::string value) const {
    return {kind,
            {scope_, std::string(key), std::move(rule), std::move(value),
             "write the token files again with posenc data tokens"}};
  }
  [[nodiscard]] const Json& member(const Json& object, std::string_view key) const {
    if (object.is_object()) {
      const auto found = object.find(key);
      if (found != object.end()) return *found;
    }
    throw error(ErrorKind::kMissingKey, key, "is required", "");
  }
  [[nodiscard]] std::string text(const Json& object, std::string_view key) const {
    const Json& value = member(object, key);
    if (!value.is_string()) throw error(ErrorKind::kWrongType, key, "must be text", value.dump());
    return value.get<std::string>();
  }
  [[nodiscard]] std::int64_t number(const Json& object, std::string_view key, std::int64_t least,
                                    std::int64_t most) const {
    const Json& value = member(object, key);
    const bool fits = value.is_number_integer() && value.get<std::int64_t>() >= least &&
                      value.get<std::int64_t>() <= most;
    if (fits) return value.get<std::int64_t>();
    throw error(ErrorKind::kOutOfRange, key,
                fmt::format("must be an integer in [{}, {}]", least, most),
                value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  [[nodiscard]] TokenShard shard(const Json& value, std::string_view count) const {
    TokenShard shard{text(value, "file"), number(value, count, 0, kMost), text(value, "sha256")};
    const bool plain = !shard.file.empty() && shard.file.front() != '.' &&
                       shard.file.find('/') == std::string::npos &&
                       shard.file.find('\0') == std::string::npos;
    if (!plain) {
      throw error(ErrorKind::kOutOfRange, "file", "must be the name of a file next to the index",
                  shard.file);
    }
    return shard;
  }

  [[nodiscard]] TokenSplit split(const Json& value) const {
    TokenSplit split{.tokens = number(value, "tokens", 0, kMost),
                     .documents = number(value, "documents", 0, kMost),
                     .bytes = number(value, "bytes", 0, kMost),
                     .shards = {},
                     .borders = shard(member(value, "borders"), "documents")};
    const Json& shards = member(value, "shards");
    if (!shards.is_array()) throw error(ErrorKind::kWrongType, "shards", "must be a list", "");
    std::int64_t total = 0;
    for (const Json& entry : shards) {
      split.shards.push_back(shard(entry, "tokens"));
      total += split.shards.back().tokens;
      if (total > kMost) break;
    }
    if (total != split.tokens || split.borders.tokens != split.documents) {
      throw error(ErrorKind::kConflict, "tokens",
                  "and documents must be those of the split's files",
                  fmt::format("{} and {}", split.tokens, split.documents));
    }
    return split;
  }

  const std::string& scope_;
  Json root_;
};

Json shard_json(const TokenShard& shard, const char* count) {
  return {{"file", shard.file}, {count, shard.tokens}, {"sha256", shard.sha256}};
}

std::int64_t sum(const TokenIndex& index, std::int64_t TokenSplit::*field) {
  std::int64_t total = 0;
  for (const TokenSplit& split : index.splits) total += split.*field;
  return total;
}

}  // namespace

std::int64_t TokenIndex::tokens() const { return sum(*this, &TokenSplit::tokens); }
std::int64_t TokenIndex::documents() const { return sum(*this, &TokenSplit::documents); }
std::int64_t TokenIndex::bytes() const { return sum(*this, &TokenSplit::bytes); }

TokenIndex parse_token_index(std::string_view json, const std::string& scope) {
  return IndexReader(json, scope).read();
}

std::string token_index_json(const TokenIndex& index) {
  Json splits = Json::object();
  for (std::size_t s = 0; s < kSplitNames.size(); ++s) {
    const TokenSplit& split = index.splits[s];
    Json shards = Json::array();
    for (const TokenShard& shard : split.shards) shards.push_back(shard_json(shard, "tokens"));
    splits[std::string(kSplitNames[s])] = {{"tokens", split.tokens},
                                           {"documents", split.documents},
                                           {"bytes", split.bytes},
                                           {"shards", shards},
                                           {"borders", shard_json(split.borders, "documents")}};
  }
  const Json file = {{"format", kFormat},
                     {"dtype", index.token_bytes == 2 ? "uint16" : "uint32"},
                     {"vocabulary", index.vocabulary},
                     {"tokenizer_sha256", index.tokenizer_sha256},
                     {"end_of_document", index.end_of_document},
                     {"source", index.source},
                     {"licence", index.licence},
                     {"splits", splits}};
  return file.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace posenc::tokens

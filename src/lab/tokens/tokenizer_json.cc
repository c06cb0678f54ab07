#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "posenc/core/error.h"
#include "tokens/byte_level.h"
#include "tokens/tokenizer_parts.h"

namespace posenc::tokens {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostTokens = 1 << 21;
constexpr const char* kReadable =
    "posenc reads byte-level BPE tokenizers of the GPT-2, GPT-NeoX, Llama 3 and Qwen kind";

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

class Reader {
 public:
  Reader(std::string_view json, const std::string& scope) : scope_(scope) {
    root_ = Json::parse(json, nullptr, false);
    if (root_.is_discarded()) throw error(ErrorKind::kSyntax, "file", "must be JSON", "");
    if (!root_.is_object()) throw wrong("file", "must be an object", root_);
  }

  TokenizerParts read() {
    require_null("truncation");
    require_null("padding");
    read_normalizer(field(root_, "normalizer"), "normalizer");
    read_pre_tokenizer(field(root_, "pre_tokenizer"));
    read_decoder();
    read_model(field(root_, "model"));
    read_added();
    read_post_processor(field(root_, "post_processor"), "post_processor");
    return std::move(parts_);
  }

 private:
  [[nodiscard]] Error error(ErrorKind kind, std::string key, std::string rule,
                            std::string value) const {
    return {kind, {scope_, std::move(key), std::move(rule), std::move(value), kReadable}};
  }
  [[nodiscard]] Error unsupported(const std::string& key, const std::string& rule,
                                  const Json& value) const {
    return error(ErrorKind::kUnsupported, key, rule, shown(value));
  }
  [[nodiscard]] Error wrong(const std::string& key, const std::string& rule,
                            const Json& value) const {
    return error(ErrorKind::kWrongType, key, rule, shown(value));
  }

  // A member, or null where there is none.
  static const Json& field(const Json& object, const char* key) {
    static const Json kNone;
    if (!object.is_object()) return kNone;
    const auto found = object.find(key);
    return found == object.end() ? kNone : *found;
  }
  static std::string type_of(const Json& part) {
    const Json& type = field(part, "type");
    return type.is_string() ? type.get<std::string>() : "";
  }
  [[nodiscard]] bool flag(const Json& object, const char* key, bool otherwise,
                          const std::string& scope) const {
    const Json& value = field(object, key);
    if (value.is_null()) return otherwise;
    if (!value.is_boolean()) throw wrong(scope + "." + key, "must be true or false", value);
    return value.get<bool>();
  }
  void require_null(const char* key) const {
    if (!field(root_, key).is_null()) {
      throw unsupported(key, "must be null: texts are encoded whole", field(root_, key));
    }
  }
  [[nodiscard]] const Json& list(const Json& object, const char* key,
                                 const std::string& scope) const {
    const Json& value = field(object, key);
    if (!value.is_array()) throw wrong(scope + "." + key, "must be a list", value);
    return value;
  }
  [[nodiscard]] std::int32_t id(const Json& value, const std::string& key) const {
    const bool fits = value.is_number_integer() && value.get<std::int64_t>() >= 0 &&
                      value.get<std::int64_t>() < kMostTokens;
    if (!fits) throw wrong(key, fmt::format("must be an integer in [0, {})", kMostTokens), value);
    return value.get<std::int32_t>();
  }

  void read_normalizer(const Json& part, const std::string& key) {
    const std::string type = type_of(part);
    if (type == "Sequence") {
      for (const Json& inner : list(part, "normalizers", key)) read_normalizer(inner, key);
    } else if (type == "NFC") {
      parts_.nfc = true;
    } else if (!part.is_null()) {
      throw unsupported(key, "must be null or NFC", part);
    }
  }

  void read_pre_tokenizer(const Json& part) {
    const std::string type = type_of(part);
    if (type == "ByteLevel") {
      read_byte_level(part);
      const bool split = flag(part, "use_regex", true, "pre_tokenizer");
      parts_.pattern = split ? SplitPattern::kGpt2 : SplitPattern::kNone;
      return;
    }
    const Json& inner = field(part, "pretokenizers");
    if (type != "Sequence" || !inner.is_array() || inner.size() != 2 ||
        type_of(inner[0]) != "Split" || type_of(inner[1]) != "ByteLevel") {
      throw unsupported("pre_tokenizer", "must be ByteLevel, or a Sequence of Split and ByteLevel",
                        part);
    }
    read_split(inner[0]);
    read_byte_level(inner[1]);
    if (flag(inner[1], "use_regex", true, "pre_tokenizer")) {
      throw unsupported("pre_tokenizer.use_regex", "must be false after a Split", inner[1]);
    }
  }

  void read_byte_level(const Json& part) const {
    if (flag(part, "add_prefix_space", true, "pre_tokenizer")) {
      throw unsupported("pre_tokenizer.add_prefix_space",
                        "must be false, or a text would not decode to itself", part);
    }
  }

  void read_split(const Json& part) {
    const Json& regex = field(field(part, "pattern"), "Regex");
    const auto known =
        regex.is_string() ? pattern_of(regex.get_ref<const std::string&>()) : std::nullopt;
    if (!known) {
      throw unsupported("pre_tokenizer.pattern", "must be the Regex of GPT-2, Llama 3 or Qwen 2",
                        field(part, "pattern"));
    }
    if (field(part, "behavior") != "Isolated" || flag(part, "invert", false, "pre_tokenizer")) {
      throw unsupported("pre_tokenizer.behavior", "must be Isolated and not inverted", part);
    }
    parts_.pattern = *known;
  }

  void read_decoder() const {
    const Json& part = field(root_, "decoder");
    if (part.is_null() || type_of(part) == "ByteLevel") return;
    throw unsupported("decoder", "must be ByteLevel", part);
  }

  void read_model(const Json& model) {
    const std::string type = type_of(model);
    // GPT-2's own file has no type.
    if (!model.is_object() || (type != "BPE" && model.contains("type"))) {
      throw unsupported("model", "must be of the type BPE",
                        type.empty() ? model : field(model, "type"));
    }
    const auto require_none = [&](const char* key) {
      const Json& value = field(model, key);
      const auto* text = value.get_ptr<const std::string*>();
      const bool blank = text != nullptr && text->empty();
      const bool none = value.is_null() || blank || value == false || value == 0;
      if (!none) throw unsupported(std::string("model.") + key, "must be null", value);
    };
    for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix",
                            "end_of_word_suffix", "byte_fallback"}) {
      require_none(key);
    }
    parts_.ignore_merges = flag(model, "ignore_merges", false, "model");
    read_vocabulary(field(model, "vocab"));
    for (const Json& merge : list(model, "merges", "model")) add_merge(merge);
  }

  void read_vocabulary(const Json& vocabulary) {
    if (!vocabulary.is_object()) throw wrong("model.vocab", "must be an object", vocabulary);
    for (const auto& [text, number] : vocabulary.items()) {
      const std::int32_t token = id(number, fmt::format("model.vocab['{}']", text));
      const auto place = static_cast<std::size_t>(token);
      if (parts_.vocabulary.size() <= place) parts_.vocabulary.resize(place + 1);
      VocabularyToken& entry = parts_.vocabulary[place];
      if (entry.kind != VocabularyToken::Kind::kAbsent || text.empty()) {
        throw error(
            ErrorKind::kConflict, "model.vocab",
            text.empty() ? "must have no empty token" : "must give each number to one token",
            std::to_string(token));
      }
      const std::optional<std::string> bytes = from_byte_level(text);
      entry.kind = bytes ? VocabularyToken::Kind::kBytes : VocabularyToken::Kind::kText;
      entry.bytes = bytes.value_or(text);
      by_text_[text] = token;
    }
    for (int byte = 0; byte < 256; ++byte) {
      const std::string text(1, static_cast<char>(byte));
      if (by_text_.contains(to_byte_level(text))) continue;
      throw error(ErrorKind::kUnsupported, "model.vocab", "must have a token for each byte",
                  fmt::format("none for byte {:#04x}", byte));
    }
  }

  void add_merge(const Json& merge) {
    std::string left;
    std::string right;
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      if (space != std::string::npos) {
        left = text.substr(0, space);
        right = text.substr(space + 1);
      }
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    }
    const std::string key = fmt::format("model.merges[{}]", parts_.merges.size());
    if (left.empty() || right.empty()) throw wrong(key, "must be a pair of tokens", merge);
    const auto number = [&](const std::string& text) {
      const auto found = by_text_.find(text);
      if (found != by_text_.end()) return found->second;
      throw error(ErrorKind::kUnknownKey, key, "must name and make tokens of the vocabulary", text);
    };
    parts_.merges.push_back({number(left), number(right), number(left + right)});
  }

  void read_added() {
    const Json& added = field(root_, "added_tokens");
    if (added.is_null()) return;
    if (!added.is_array()) throw wrong("added_tokens", "must be a list", added);
    for (const Json& token : added) add_token(token);
  }

  void add_token(const Json& token) {
    const Json& content = field(token, "content");
    if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
      throw wrong("added_tokens.content", "must be text", token);
    }
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      if (!flag(token, key, false, "added_tokens")) continue;
      throw unsupported(std::string("added_tokens.") + key, "must be false", token);
    }
    const bool special = flag(token, "special", false, "added_tokens");
    AddedToken added{.id = id(field(token, "id"), "added_tokens.id"),
                     .content = content.get<std::string>(),
                     .special = special,
                     .normalized = flag(token, "normalized", !special, "added_tokens")};
    require_own_number(added);
    parts_.added.push_back(std::move(added));
  }

  // An added token may be in the vocabulary as well, under the same number.
  void require_own_number(const AddedToken& token) const {
    const auto place = static_cast<std::size_t>(token.id);
    const auto found = by_text_.find(token.content);
    const bool taken = place < parts_.vocabulary.size() &&
                       parts_.vocabulary[place].kind != VocabularyToken::Kind::kAbsent;
    const bool same = found != by_text_.end() ? found->second == token.id : !taken;
    if (same) return;
    throw error(ErrorKind::kConflict, fmt::format("added_tokens['{}']", token.content),
                "must have a unique number, equal to the vocabulary's if it is there too",
                std::to_string(token.id));
  }

  void read_post_processor(const Json& part, const std::string& key) {
    const std::string type = type_of(part);
    if (type == "Sequence") {
      for (const Json& inner : list(part, "processors", key)) read_post_processor(inner, key);
    } else if (type == "TemplateProcessing") {
      read_template(part);
    } else if (!part.is_null() && type != "ByteLevel") {
      throw unsupported(key, "must be null, ByteLevel or TemplateProcessing", part);
    }
  }

  void read_template(const Json& part) {
    bool before = true;
    for (const Json& item : list(part, "single", "post_processor")) {
      const Json& special = field(field(item, "SpecialToken"), "id");
      if (!field(item, "Sequence").is_null()) {
        before = false;
      } else if (special.is_string()) {
        const Json& entry =
            field(field(part, "special_tokens"), special.get_ref<const std::string&>().c_str());
        for (const Json& token : list(entry, "ids", "post_processor.special_tokens")) {
          (before ? parts_.prefix : parts_.suffix).push_back(known(token));
        }
      } else {
        throw wrong("post_processor.single", "must list SpecialToken and Sequence", item);
      }
    }
  }

  // The number of a token that is there.
  [[nodiscard]] std::int32_t known(const Json& value) const {
    const std::int32_t token = id(value, "post_processor.special_tokens.ids");
    const auto place = static_cast<std::size_t>(token);
    const bool added = std::any_of(parts_.added.begin(), parts_.added.end(),
                                   [&](const AddedToken& a) { return a.id == token; });
    const bool there = place < parts_.vocabulary.size() &&
                       parts_.vocabulary[place].kind != VocabularyToken::Kind::kAbsent;
    if (added || there) return token;
    throw error(ErrorKind::kUnknownKey, "post_processor.special_tokens.ids",
                "must be tokens of the vocabulary", std::to_string(token));
  }

  const std::string& scope_;
  Json root_;
  TokenizerParts parts_;
  std::unordered_map<std::string, std::int32_t> by_text_;  // as the file writes tokens
};

}  // namespace

TokenizerParts parse_tokenizer(std::string_view json, const std::string& scope) {
  return Reader(json, scope).read();
}

}  // namespace posenc::tokens

#include <nlohmann/json.hpp>

#include "tokens/byte_level.h"
#include "tokens/tokenizer_parts.h"

namespace posenc::tokens {
namespace {

using Json = nlohmann::ordered_json;

// The forms that Hugging Face's own writer gives these parts.
Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json pre_tokenizer(SplitPattern pattern) {
  if (pattern == SplitPattern::kNone) return byte_level(false);
  if (pattern == SplitPattern::kGpt2) return byte_level(true);
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", regex_of(pattern)}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level(false)})}};
}

Json added_tokens(const TokenizerParts& parts) {
  Json all = Json::array();
  for (const AddedToken& token : parts.added) {
    all.push_back({{"id", token.id},
                   {"content", token.content},
                   {"single_word", false},
                   {"lstrip", false},
                   {"rstrip", false},
                   {"normalized", token.normalized},
                   {"special", token.special}});
  }
  return all;
}

std::string content_of(const TokenizerParts& parts, std::int32_t id) {
  for (const AddedToken& token : parts.added) {
    if (token.id == id) return token.content;
  }
  return to_byte_level(parts.vocabulary.at(static_cast<std::size_t>(id)).bytes);
}

Json post_processor(const TokenizerParts& parts) {
  Json plain = byte_level(true);
  if (parts.prefix.empty() && parts.suffix.empty()) return plain;
  Json single = Json::array();
  Json special = Json::object();
  const auto add = [&](std::int32_t id) {
    const std::string content = content_of(parts, id);
    single.push_back({{"SpecialToken", {{"id", content}, {"type_id", 0}}}});
    special[content] = {
        {"id", content}, {"ids", Json::array({id})}, {"tokens", Json::array({content})}};
  };
  for (const std::int32_t id : parts.prefix) add(id);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  for (const std::int32_t id : parts.suffix) add(id);
  const Json pair = Json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                                 {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}});
  const Json form = {{"type", "TemplateProcessing"},
                     {"single", single},
                     {"pair", pair},
                     {"special_tokens", special}};
  return {{"type", "Sequence"}, {"processors", Json::array({plain, form})}};
}

std::string written(const VocabularyToken& token) {
  return token.kind == VocabularyToken::Kind::kBytes ? to_byte_level(token.bytes) : token.bytes;
}

Json model(const TokenizerParts& parts) {
  Json vocabulary = Json::object();
  // The list itself: operator[] of an ordered object looks at all members before.
  auto& members = vocabulary.get_ref<Json::object_t&>();
  for (std::size_t id = 0; id < parts.vocabulary.size(); ++id) {
    const VocabularyToken& token = parts.vocabulary[id];
    if (token.kind == VocabularyToken::Kind::kAbsent) continue;
    members.push_back({written(token), Json(id)});
  }
  Json merges = Json::array();
  for (const Merge& merge : parts.merges) {
    const auto text = [&](std::int32_t id) {
      return written(parts.vocabulary[static_cast<std::size_t>(id)]);
    };
    merges.push_back(Json::array({text(merge.left), text(merge.right)}));
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", parts.ignore_merges},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

}  // namespace

std::string tokenizer_json(const TokenizerParts& parts) {
  const Json normalizer = parts.nfc ? Json{{"type", "NFC"}} : Json(nullptr);
  const Json file = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added_tokens(parts)},
                     {"normalizer", normalizer},
                     {"pre_tokenizer", pre_tokenizer(parts.pattern)},
                     {"post_processor", post_processor(parts)},
                     {"decoder", byte_level(true)},
                     {"model", model(parts)}};
  return file.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace posenc::tokens

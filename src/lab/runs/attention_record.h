// The attention of a trained model on one example: the example, and the weights of every layer.
//
//   RUN/attention/<axis>-T<length>-sample<N>.safetensors
//
//   __metadata__             "posenc.attention": the example as JSON
//   layer.<l>.weights        [heads, T, T], rows are queries, columns keys, 0 where masked
//   layer.<l>.cope.gates     likewise, for layers with CoPE
//   layer.<l>.cope.positions likewise
//
// Weights and gates are stored as float16: they come back rounded by at most 2^-11 of themselves, or
// by 2^-25 where they are below 6e-5. Positions are float32.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "posenc/core/fields.h"

namespace posenc::runs {

// A position whose answer counts.
struct ScoredPlace {
  std::int64_t position = 0;
  std::string expected;
  std::string predicted;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("position", self.position, FieldRule{.doc = "from 0", .min = 0, .required = true});
    visit("expected", self.expected, FieldRule{.doc = "the answer", .required = true});
    visit("predicted", self.predicted, FieldRule{.doc = "what the model says", .required = true});
  }
  bool operator==(const ScoredPlace&) const = default;
};

struct AttentionExample {
  std::string task;
  std::string axis;
  std::int64_t length = 0;  // T
  std::int64_t sample = 0;
  std::int64_t seed = 0;  // of the samples
  std::int64_t step = 0;  // of the checkpoint
  std::string config_hash;
  std::vector<std::string> encodings;  // the spec of each layer, as text
  bool causal = true;
  std::int64_t window = -1;             // keys that a query sees before itself; -1: all
  std::vector<std::string> tokens;      // as words
  std::vector<std::int64_t> token_ids;  // as the model reads them
  std::int64_t instruction_begin = 0;   // tokens that say what to do; none where both are equal
  std::int64_t instruction_end = 0;
  std::vector<ScoredPlace> scored;

  [[nodiscard]] bool has_instruction() const { return instruction_begin < instruction_end; }

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("task", self.task, FieldRule{.doc = "name of the task", .required = true});
    visit("axis", self.axis, FieldRule{.doc = "how the sample was made", .required = true});
    visit("length", self.length, FieldRule{.doc = "tokens", .min = 1, .required = true});
    visit("sample", self.sample, FieldRule{.doc = "its number", .min = 0, .required = true});
    visit("seed", self.seed, FieldRule{.doc = "of the samples", .required = true});
    visit("step", self.step, FieldRule{.doc = "of the checkpoint", .min = 0, .required = true});
    visit("config_hash", self.config_hash, FieldRule{.doc = "of the run", .required = true});
    visit("encodings", self.encodings, FieldRule{.doc = "spec of each layer", .required = true});
    visit("causal", self.causal, FieldRule{.doc = "no query sees what follows it"});
    visit("window", self.window, FieldRule{.doc = "keys seen before the query", .min = -1});
    visit("tokens", self.tokens, FieldRule{.doc = "as words", .required = true});
    visit("token_ids", self.token_ids, FieldRule{.doc = "as numbers", .required = true});
    visit("instruction_begin", self.instruction_begin, FieldRule{.doc = "first token", .min = 0});
    visit("instruction_end", self.instruction_end, FieldRule{.doc = "past its last", .min = 0});
    visit("scored", self.scored, FieldRule{.doc = "answers", .required = true});
  }
  bool operator==(const AttentionExample&) const = default;
};

struct AttentionLayer {
  std::vector<float> weights;    // [heads, T, T]
  std::vector<float> gates;      // of CoPE; empty without it
  std::vector<float> positions;  // of CoPE

  [[nodiscard]] bool has_cope() const { return !gates.empty(); }
  bool operator==(const AttentionLayer&) const = default;
};

struct AttentionRecord {
  AttentionExample example;
  std::int64_t heads = 0;
  std::vector<AttentionLayer> layers;

  [[nodiscard]] std::int64_t tokens() const { return example.length; }
  bool operator==(const AttentionRecord&) const = default;
};

// Replaces the file at once. Throws where the record contradicts itself.
void write_attention(const std::filesystem::path& path, const AttentionRecord& record);
// Throws an Error signed with the path where the file is no such record, or one that lies: other
// shapes than the example says, tensors too many or too few, weights outside [0, 1], no numbers.
AttentionRecord read_attention(const std::filesystem::path& path);
// The example alone, without the maps.
AttentionExample read_attention_example(const std::filesystem::path& path);

std::filesystem::path attention_folder(const std::filesystem::path& run);
// `best`: of the best checkpoint instead of the last; the name ends in -best then.
std::filesystem::path attention_path(const std::filesystem::path& run, std::string_view axis,
                                     std::int64_t length, std::int64_t sample, bool best = false);
// The records of a run, sorted by name; none where it has none.
std::vector<std::filesystem::path> list_attention(const std::filesystem::path& run);

// Bytes of the tensors of a layer's file.
std::int64_t attention_bytes(std::int64_t heads, std::int64_t tokens, bool cope);

}  // namespace posenc::runs

// What a plot is asked for: one struct for all kinds. The command line, the explorer page and the
// documentation take names, ranges and explanations from its one field list.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "posenc/core/fields.h"

namespace posenc::plots {

// What is rotated, where a plot needs a query and a key and no text gives them.
enum class Content { kOnes, kRandom };
constexpr std::array<std::string_view, 2> enum_names(Content /*tag*/) { return {"ones", "random"}; }

struct PlotRequest {
  std::string kind;
  std::vector<std::string> encodings;
  std::int64_t head_dim = 64;
  std::int64_t heads = 8;
  std::int64_t head = 0;
  std::int64_t length = 128;
  std::int64_t train_length = 2048;
  std::vector<double> theta;
  std::vector<std::int64_t> pairs;
  std::vector<std::int64_t> dimensions;
  std::vector<std::int64_t> positions;
  Content content = Content::kOnes;
  std::int64_t samples = 64;
  std::vector<std::string> text;
  std::vector<std::string> gate_words;
  std::vector<double> gates;
  double gate_strength = 4.0;
  double match_score = 4.0;
  double table_std = 1.0;
  bool causal = true;
  double perplexity = 12.0;
  std::int64_t iterations = 600;
  std::int64_t seed = 0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind, FieldRule{.doc = "what to draw", .required = true});
    visit("encodings", self.encodings,
          FieldRule{.doc = "specs, such as \"rope(theta=500000) + alibi\"; several to compare"});
    visit("head_dim", self.head_dim,
          FieldRule{.doc = "channels of a head, or of a position vector", .min = 1, .max = 1024});
    visit("heads", self.heads, FieldRule{.doc = "attention heads", .min = 1, .max = 128});
    visit("head", self.head, FieldRule{.doc = "the head shown, from 0", .min = 0, .max = 127});
    visit("length", self.length,
          FieldRule{.doc = "positions or distances shown", .min = 2, .max = 1 << 20});
    visit("train_length", self.train_length,
          FieldRule{.doc = "the length trained on", .min = 1, .max = 1 << 30});
    visit("theta", self.theta,
          FieldRule{.doc = "bases of the frequencies to compare; the spec's own where absent",
                    .min = 1,
                    .max = 1e30,
                    .open_min = true});
    visit(
        "pairs", self.pairs,
        FieldRule{
            .doc = "rotated pairs shown; some, evenly spaced, where absent", .min = 0, .max = 511});
    visit("dimensions", self.dimensions,
          FieldRule{
              .doc = "dimensions shown; some, evenly spaced, where absent", .min = 0, .max = 1023});
    visit("positions", self.positions,
          FieldRule{.doc = "positions shown; some where absent", .min = 0, .max = 1 << 30});
    visit("content", self.content,
          FieldRule{.doc = "queries and keys: ones, or drawn from a normal distribution"});
    visit("samples", self.samples,
          FieldRule{.doc = "random queries and keys averaged over", .min = 1, .max = 10000});
    visit("text", self.text,
          FieldRule{.doc = "a sentence of your own, or several, read one after the other"});
    visit("gate_words", self.gate_words, FieldRule{.doc = "words that the gates open on"});
    visit("gates", self.gates,
          FieldRule{.doc = "logits of the gates, one per word, in place of gate_words",
                    .min = -1000,
                    .max = 1000});
    visit("gate_strength", self.gate_strength,
          FieldRule{.doc = "logit of an open gate, and minus that of a closed one",
                    .min = 0,
                    .max = 100,
                    .open_min = true});
    visit("match_score", self.match_score,
          FieldRule{.doc = "score of a word with itself at the same position",
                    .min = 0,
                    .max = 100,
                    .open_min = true});
    visit("table_std", self.table_std,
          FieldRule{.doc = "deviation of learned tables that start at zero; 0 leaves them there",
                    .min = 0,
                    .max = 100});
    visit("causal", self.causal, FieldRule{.doc = "hide keys after the query"});
    visit("perplexity", self.perplexity,
          FieldRule{.doc = "neighbours that a point of t-SNE keeps near", .min = 2, .max = 200});
    visit("iterations", self.iterations,
          FieldRule{.doc = "steps of t-SNE", .min = 50, .max = 5000});
    visit("seed", self.seed,
          FieldRule{.doc = "of everything drawn at random", .min = 0, .max = 9007199254740992.0});
  }
};

}  // namespace posenc::plots

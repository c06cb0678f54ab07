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
          rule_between("channels of a head, or of a position vector", 1, 1024, log_range(4, 256)));
    visit("heads", self.heads, rule_between("attention heads", 1, 128, {1, 32}));
    visit("head", self.head, rule_between("the head shown, from 0", 0, 127, {0, 31}));
    visit("length", self.length,
          rule_between("positions or distances shown", 2, 1 << 20, log_range(8, 2048)));
    visit("train_length", self.train_length,
          rule_between("the length trained on", 1, 1 << 30, log_range(16, 131072)));
    visit("theta", self.theta,
          FieldRule{.doc = "bases of the frequencies to compare; the spec's own where absent",
                    .min = 1,
                    .max = 1e30,
                    .open_min = true,
                    .advanced = true,
                    .usual = log_range(100, 1e7)});
    visit("pairs", self.pairs,
          FieldRule{.doc = "rotated pairs shown; some, evenly spaced, where absent",
                    .min = 0,
                    .max = 511,
                    .advanced = true});
    visit("dimensions", self.dimensions,
          FieldRule{
              .doc = "dimensions shown; some, evenly spaced, where absent", .min = 0, .max = 1023});
    visit("positions", self.positions,
          FieldRule{.doc = "positions shown; some where absent", .min = 0, .max = 1 << 30});
    visit("content", self.content,
          FieldRule{.doc = "queries and keys: ones, or drawn from a normal distribution"});
    visit("samples", self.samples,
          rule_between("random queries and keys averaged over", 1, 10000, log_range(1, 512)));
    visit("text", self.text,
          FieldRule{.doc = "a sentence of your own, or several, read one after the other"});
    visit("gate_words", self.gate_words, FieldRule{.doc = "words that the gates open on"});
    visit("gates", self.gates,
          FieldRule{.doc = "logits of the gates, one per word, in place of gate_words",
                    .min = -1000,
                    .max = 1000,
                    .advanced = true});
    visit("gate_strength", self.gate_strength,
          rule_above("logit of an open gate, and minus that of a closed one", 0, 100, {0.5, 12}));
    visit("match_score", self.match_score,
          rule_above("score of a word with itself at the same position", 0, 100, {0.5, 12}));
    visit("table_std", self.table_std,
          rule_between("deviation of learned tables that start at zero; 0 leaves them there", 0,
                       100, {0, 3}));
    visit("causal", self.causal, FieldRule{.doc = "hide keys after the query"});
    visit("perplexity", self.perplexity,
          rule_between("neighbours that a point of t-SNE keeps near", 2, 200, {2, 60}));
    visit("iterations", self.iterations,
          FieldRule{.doc = "steps of t-SNE",
                    .min = 50,
                    .max = 5000,
                    .advanced = true,
                    .usual = log_range(50, 2000)});
    visit("seed", self.seed,
          FieldRule{.doc = "of everything drawn at random",
                    .min = 0,
                    .max = 9007199254740992.0,
                    .advanced = true,
                    .usual = {0, 32}});
  }
};

}  // namespace posenc::plots

// RoPE against Hugging Face transformers: config.json in, frequencies, tables and rotated vectors
// out.
#include <gtest/gtest.h>

#include <cmath>

#include "encodings/hf_pow.h"
#include "posenc/core/rng.h"
#include "posenc/encodings/hf_config.h"
#include "posenc/encodings/rotary.h"
#include "support/golden.h"

namespace posenc {
namespace {

using testing::Json;
using testing::largest_difference;
using testing::largest_relative_error;
using testing::load_golden;
using testing::Row;
using testing::Rows;

Rotary rotary_of(const HfModel& model, Precision precision, std::int64_t seq_len) {
  const Spec spec = with_precision(model.layers.at(0).spec, precision);
  return make_rotary(std::get<Rope>(spec.encodings.at(0)), model.shape,
                     Lengths{.sequence = seq_len, .context = 0});
}

struct Table {
  Row cos;
  Row sin;
};

Table table_at(const Rotary& rotary, std::int64_t position) {
  Table table{Row(static_cast<std::size_t>(rotary.pairs())),
              Row(static_cast<std::size_t>(rotary.pairs()))};
  rotary_row(rotary, Role::kQuery, 0, std::vector<std::int64_t>{position}, table.cos, table.sin);
  return table;
}

// Calls check(name, model, evaluation) for every evaluation of every case.
template <class Check>
void for_each_evaluation(Check check) {
  const Json golden = load_golden("rope_hf.json");
  for (const Json& test_case : golden.at("cases")) {
    const HfModel model = parse_hf_config(test_case.at("config").dump());
    for (const Json& evaluation : test_case.at("evals")) {
      check(test_case.at("name").get<std::string>(), model, evaluation);
    }
  }
}

TEST(GoldenRope, FrequenciesAndAttentionFactors) {
  int evaluations = 0;
  for_each_evaluation([&](const std::string& name, const HfModel& model, const Json& evaluation) {
    const auto seq_len = evaluation.at("seq_len").get<std::int64_t>();
    SCOPED_TRACE(name + " at length " + std::to_string(seq_len));
    for (const Precision precision : {Precision::kHf, Precision::kExact}) {
      const Rotary rotary = rotary_of(model, precision, seq_len);
      EXPECT_EQ(rotary.rotary_dim, evaluation.at("rotary_dim").get<std::int64_t>());
      EXPECT_LE(largest_relative_error(rotary.inv_freq.at(0), evaluation.at("inv_freq").get<Row>()),
                1e-6);
      EXPECT_LE(testing::relative_error(rotary.attention_factor,
                                        evaluation.at("attention_factor").get<double>()),
                1e-6);
    }
    ++evaluations;
  });
  EXPECT_EQ(evaluations, 20);
}

// The golden values have nine digits, which tell every float32 from its neighbours.
TEST(GoldenRope, HfFrequenciesAreTheSameFloats) {
  for_each_evaluation([&](const std::string& name, const HfModel& model, const Json& evaluation) {
    const Rotary rotary =
        rotary_of(model, Precision::kHf, evaluation.at("seq_len").get<std::int64_t>());
    const Row want = evaluation.at("inv_freq").get<Row>();
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(static_cast<float>(rotary.inv_freq.at(0).at(i)), static_cast<float>(want[i]))
          << name << " pair " << i;
    }
  });
}

// In blocks of 32 the vector pow may be a unit off; what remains is correctly rounded.
TEST(GoldenRope, HfPowersAreWithinAUnit) {
  Rng rng(7);
  for (int round = 0; round < 200; ++round) {
    const auto base = static_cast<float>(std::exp(rng.uniform(-6.0, 60.0)));
    std::vector<float> exponents;
    for (int i = 0; i < 40; ++i) exponents.push_back(static_cast<float>(rng.uniform()));
    const std::vector<float> powers = hf_powers(base, exponents);
    ASSERT_EQ(powers.size(), exponents.size());
    for (std::size_t i = 0; i < powers.size(); ++i) {
      const double want = std::pow(static_cast<double>(base), static_cast<double>(exponents[i]));
      const double bound =
          i < 32 ? 1.2e-7 : 0.6e-7;  // a unit in the last place is 0.6e-7 to 1.2e-7
      EXPECT_LE(testing::relative_error(static_cast<double>(powers[i]), want), bound)
          << base << "^" << exponents[i];
    }
  }
}

TEST(GoldenRope, CosAndSinInHfPrecision) {
  int rows = 0;
  for_each_evaluation([&](const std::string& name, const HfModel& model, const Json& evaluation) {
    const Rotary rotary =
        rotary_of(model, Precision::kHf, evaluation.at("seq_len").get<std::int64_t>());
    const auto positions = evaluation.at("positions").get<std::vector<std::int64_t>>();
    for (std::size_t r = 0; r < positions.size(); ++r) {
      ASSERT_LT(positions[r], 2048);
      const Table table = table_at(rotary, positions[r]);
      EXPECT_LE(largest_difference(table.cos, evaluation.at("cos").at(r).get<Row>()), 2e-6)
          << name << " at " << positions[r];
      EXPECT_LE(largest_difference(table.sin, evaluation.at("sin").at(r).get<Row>()), 2e-6)
          << name << " at " << positions[r];
      ++rows;
    }
  });
  EXPECT_GT(rows, 100);
}

TEST(GoldenRope, RotatedVectors) {
  int rows = 0;
  for_each_evaluation([&](const std::string& name, const HfModel& model, const Json& evaluation) {
    const Rotary rotary =
        rotary_of(model, Precision::kHf, evaluation.at("seq_len").get<std::int64_t>());
    const auto positions = evaluation.at("positions").get<std::vector<std::int64_t>>();
    for (std::size_t r = 0; r < positions.size(); ++r) {
      Row head = evaluation.at("q_in").at(r).get<Row>();
      const Table table = table_at(rotary, positions[r]);
      rotate(rotary, table.cos, table.sin, head);
      EXPECT_LE(largest_difference(head, evaluation.at("q_out_half_layout").at(r).get<Row>()), 1e-5)
          << name << " at " << positions[r];
      ++rows;
    }
  });
  EXPECT_GT(rows, 100);
}

}  // namespace
}  // namespace posenc

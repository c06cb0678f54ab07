// M-RoPE of Qwen2-VL and Qwen3-VL, and RoFormer's own pairing, against Hugging Face transformers.
#include <gtest/gtest.h>

#include "posenc/encodings/rotary.h"
#include "support/golden.h"

namespace posenc {
namespace {

using testing::Json;
using testing::Row;

Rope rope_of(const Json& golden) {
  Rope rope;
  rope.theta = {golden.at("theta").get<double>()};
  rope.precision = Precision::kHf;
  return rope;
}

Row rotated(const Rotary& rotary, const std::vector<std::int64_t>& position, Row head) {
  Row cos(static_cast<std::size_t>(rotary.pairs()));
  Row sin(cos.size());
  rotary_row(rotary, Role::kQuery, 0, position, cos, sin);
  rotate(rotary, cos, sin, head);
  return head;
}

// positions[a][r] is row r's position along axis a.
void expect_rotations(const Rope& rope, const Json& golden,
                      const std::vector<std::vector<std::int64_t>>& positions, const char* out) {
  const ModelShape shape{.head_dim = golden.at("head_dim").get<std::int64_t>(), .heads = 1};
  const Rotary rotary = make_rotary(rope, shape, Lengths{});
  const std::size_t rows = positions.at(0).size();
  ASSERT_EQ(rows, golden.at("q_in").size());
  for (std::size_t r = 0; r < rows; ++r) {
    std::vector<std::int64_t> position;
    for (const auto& axis : positions) position.push_back(axis.at(r));
    const Row got = rotated(rotary, position, golden.at("q_in").at(r).get<Row>());
    EXPECT_LE(testing::largest_difference(got, golden.at(out).at(r).get<Row>()), 1e-5)
        << "row " << r;
  }
}

TEST(GoldenMultiAxis, MropeInChunks) {
  const Json golden = testing::load_golden("multiaxis_hf.json").at("mrope_chunked");
  Rope rope = rope_of(golden);
  rope.axes = MropeAxes{golden.at("sections").get<std::vector<std::int64_t>>()};
  expect_rotations(rope, golden,
                   golden.at("positions_t_h_w").get<std::vector<std::vector<std::int64_t>>>(),
                   "q_out_half_layout");
}

TEST(GoldenMultiAxis, MropeInterleaved) {
  const Json golden = testing::load_golden("multiaxis_hf.json").at("mrope_interleaved");
  Rope rope = rope_of(golden);
  rope.axes = MropeInterleavedAxes{golden.at("sections").get<std::vector<std::int64_t>>()};
  expect_rotations(rope, golden,
                   golden.at("positions_t_h_w").get<std::vector<std::vector<std::int64_t>>>(),
                   "q_out_half_layout");
}

TEST(GoldenMultiAxis, RoformerInterleavedPairs) {
  const Json golden = testing::load_golden("multiaxis_hf.json").at("roformer_interleaved");
  Rope rope = rope_of(golden);
  rope.layout = PairLayout::kInterleaved;
  expect_rotations(rope, golden, {golden.at("positions").get<std::vector<std::int64_t>>()},
                   "q_out_interleaved_layout");
}

}  // namespace
}  // namespace posenc

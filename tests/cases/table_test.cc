// Every row of the case table, on every SIMD target of this machine, against the float64 reference.
#include "cases/table.h"

#include <gtest/gtest.h>

#include "cases/compare.h"
#include "support/sanitizers.h"
#include "support/simd_targets.h"

namespace posenc::cases {
namespace {

// Has no divisor in common with the numbers of settings that tables repeat per spec (4, 6, 9, 10), so
// that all of them have their turn.
constexpr std::size_t kStride = testing::kSanitized ? 7 : 1;

// A share of an operation's rows, so that rows run in parallel.
struct Share {
  Operation op;
  std::size_t index;
  std::size_t of;
};

std::vector<Share> shares() {
  std::vector<Share> all;
  for (const auto& [op, count] : {std::pair<Operation, std::size_t>{Operation::kRope, 2},
                                  {Operation::kAttention, 6},
                                  {Operation::kDecode, 2},
                                  {Operation::kLinearAttention, 4},
                                  {Operation::kEmbedding, 1}}) {
    for (std::size_t i = 0; i < count; ++i) all.push_back({op, i, count});
  }
  return all;
}

class CaseTable : public ::testing::TestWithParam<Share> {};

void run(const Case& row) {
  const bool with_backward = has_backward(row);
  const Case c = with_backward ? away_from_kinks(row) : row;
  SCOPED_TRACE(name_of(c));
  const std::vector<Result> want = make_problem(c)->expected(with_backward);
  testing::for_each_simd_target([&] {
    const auto problem = make_problem(c);
    problem->forward();
    if (with_backward) problem->backward();
    const Comparison found = compare(c.dtype, problem->results(with_backward), want);
    EXPECT_TRUE(found.fine()) << found.mismatch;
  });
}

TEST_P(CaseTable, EveryTargetMatchesTheReference) {
  const auto [op, index, of] = GetParam();
  const std::vector<Case> rows = checked_cases(op);
  ASSERT_GE(rows.size(), of * kStride);
  for (std::size_t n = index * kStride; n < rows.size(); n += of * kStride) run(rows[n]);
}

INSTANTIATE_TEST_SUITE_P(All, CaseTable, ::testing::ValuesIn(shares()), [](const auto& share) {
  return std::string(operation_name(share.param.op)) + std::to_string(share.param.index);
});

// What the benchmarks check before they time a row.
TEST(TimedCases, SmallTwinsMatchTheReference) {
  std::vector<std::string> names;
  for (const TimedCase& row : timed_cases()) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(std::count(names.begin(), names.end(), row.name), 0) << "names tell rows apart";
    names.push_back(row.name);
    if (names.size() % kStride != 0) continue;
    const Comparison found = check(small_twin(row.c), row.with_backward);
    EXPECT_TRUE(found.fine()) << found.mismatch;
  }
}

// `posenc bench cpu` reports the time of every encoding of attention over plain.
TEST(TimedCases, HaveEveryEncodingOfAttention) {
  std::vector<std::string> timed;
  for (const TimedCase& row : timed_cases()) {
    if (row.c.op == Operation::kAttention && row.with_backward && !row.plain.empty()) {
      timed.push_back(row.c.spec);
    }
  }
  ASSERT_FALSE(timed.empty());
  EXPECT_EQ(with_every_encoding(timed), timed);
}

// The judge itself: a value that is off by little more than allowed, a NaN, a missing one.
TEST(Compare, SeesWhatIsWrong) {
  const std::vector<Result> want = {{"out", ResultKind::kValue, {1.0, -2.0, 0.5}}};
  const auto with = [&](std::vector<double> values) {
    return compare(DType::kFloat32, {{"out", ResultKind::kValue, std::move(values)}}, want);
  };
  EXPECT_TRUE(with({1.0, -2.0, 0.5}).fine());
  EXPECT_TRUE(with({1.00001, -2.0, 0.5}).fine());
  EXPECT_FALSE(with({1.00003, -2.0, 0.5}).fine());
  EXPECT_FALSE(with({1.0, -2.0}).fine());
  EXPECT_FALSE(with({1.0, NAN, 0.5}).fine());
  EXPECT_FALSE(with({1.0, -HUGE_VAL, 0.5}).fine());
  EXPECT_FALSE(compare(DType::kFloat32, {}, want).fine());
}

}  // namespace
}  // namespace posenc::cases

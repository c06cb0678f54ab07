#include "tasks/minhash.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "posenc/core/rng.h"
#include "support/message_of.h"

namespace posenc::tasks {
namespace {

Bytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string words(std::int64_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::string text;
  for (std::int64_t i = 0; i < count; ++i)
    text += "w" + std::to_string(rng.integer(0, 1 << 20)) + " ";
  return text;
}

// By the definition, over the strings themselves.
double exact_resemblance(const std::string& a, const std::string& b) {
  const auto strings = [](const std::string& text) {
    std::set<std::string> all;
    for (std::size_t i = 0; i + 32 <= text.size(); ++i) all.insert(text.substr(i, 32));
    return all;
  };
  const std::set<std::string> in_a = strings(a);
  std::size_t both = 0;
  const std::set<std::string> in_b = strings(b);
  for (const std::string& s : in_b) both += in_a.count(s);
  return static_cast<double>(both) / static_cast<double>(in_a.size() + in_b.size() - both);
}

TEST(MinHash, EstimatesTheResemblance) {
  double error = 0.0;
  double bias = 0.0;
  constexpr int kPairs = 60;
  for (std::uint64_t i = 0; i < kPairs; ++i) {
    const std::string shared = words(static_cast<std::int64_t>(20 + 12 * i), 10 * i);
    const std::string a = shared + words(300, 10 * i + 1);
    const std::string b = words(200, 10 * i + 2) + shared;
    const double exact = exact_resemblance(a, b);
    const double estimate = resemblance(signature_of(bytes_of(a)), signature_of(bytes_of(b)));
    EXPECT_NEAR(estimate, exact, 0.2) << i;
    error += (estimate - exact) * (estimate - exact);
    bias += estimate - exact;
  }
  EXPECT_LT(std::sqrt(error / kPairs), 0.05);
  EXPECT_LT(std::abs(bias / kPairs), 0.02);
}

TEST(MinHash, ShortDocumentsAreEqualOrNot) {
  EXPECT_EQ(resemblance(signature_of(bytes_of("ab")), signature_of(bytes_of("ab"))), 1.0);
  EXPECT_LT(resemblance(signature_of(bytes_of("ab")), signature_of(bytes_of("ba"))), 0.1);
}

TEST(NearDuplicateDocuments, AreFoundAtAnyPlace) {
  std::vector<std::string> documents;
  for (std::uint64_t i = 0; i < 200; ++i) documents.push_back(words(300, i));
  NearDuplicates found(0.8);
  for (const std::string& document : documents) EXPECT_FALSE(found.add(bytes_of(document)));
  EXPECT_EQ(found.kept(), 200u);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const std::string copy = "Reprinted. " + documents[i].substr(0, documents[i].size() - 60);
    ASSERT_GT(exact_resemblance(copy, documents[i]), 0.9);
    const auto match = found.add(bytes_of(copy));
    ASSERT_TRUE(match) << i;
    EXPECT_EQ(match->kept, i);
  }
  EXPECT_EQ(found.kept(), 200u);
}

TEST(NearDuplicateDocuments, TheThresholdDecides) {
  const std::string first = words(400, 1);
  const std::string half = first.substr(0, first.size() / 2) + words(200, 2);
  ASSERT_NEAR(exact_resemblance(first, half), 0.33, 0.05);
  for (const double threshold : {0.2, 0.6}) {
    NearDuplicates found(threshold);
    EXPECT_FALSE(found.add(bytes_of(first)));
    EXPECT_EQ(found.add(bytes_of(half)).has_value(), threshold < 0.3);
  }
  EXPECT_NE(testing::message_of([] { NearDuplicates none(0.0); }).find("must be in (0, 1]"),
            std::string::npos);
}

}  // namespace
}  // namespace posenc::tasks

// Lists of specs that end with the encodings they do not name.
#include <gtest/gtest.h>

#include <algorithm>

#include "cases/table.h"
#include "posenc/encodings/encoding.h"

namespace posenc::cases {
namespace {

using Specs = std::vector<std::string>;

TEST(EveryEncoding, IsThereOnceAfterTheSpecsThatAreGiven) {
  const Specs given = {"rope(theta=100) + alibi", "cope(npos_max=8)"};
  const Specs all = with_every_encoding(given);
  ASSERT_TRUE(std::equal(given.begin(), given.end(), all.begin()));
  const Specs added(all.begin() + static_cast<std::ptrdiff_t>(given.size()), all.end());
  Specs wanted;
  for (const CatalogEntry& entry : encoding_catalog()) {
    const std::string name(entry.traits.name);
    const bool attends = entry.traits.site != Site::kInput && entry.traits.site != Site::kNone;
    if (attends && name != "rope" && name != "alibi" && name != "cope") wanted.push_back(name);
  }
  EXPECT_EQ(added, wanted);
  EXPECT_EQ(with_every_encoding(all), all);
}

TEST(EveryEncoding, OfDistanceBiasesLeavesOthersOut) {
  const Specs all = with_every_distance_bias({"kerple(kernel=power)"});
  EXPECT_EQ(all, (Specs{"kerple(kernel=power)", "alibi", "t5", "relative"}));
}

}  // namespace
}  // namespace posenc::cases

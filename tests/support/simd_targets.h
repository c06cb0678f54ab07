// Runs a test body once for every SIMD target that was compiled and that this machine supports.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace posenc::testing {

template <class Body>
void for_each_simd_target(const Body& body) {
  hwy::SetSupportedTargetsForTest(0);
  const std::int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  int ran = 0;
  for (std::int64_t left = supported; left != 0; left &= left - 1) {
    const std::int64_t target = left & -left;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(target));
    body();
    ++ran;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  EXPECT_GT(ran, 0);
}

}  // namespace posenc::testing

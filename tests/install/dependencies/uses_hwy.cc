#include <hwy/highway.h>
#include <hwy/targets.h>

namespace hn = hwy::HWY_NAMESPACE;

int main() {
  const hn::ScalableTag<float> d;
  const float sum = hn::GetLane(hn::Add(hn::Set(d, 1.0F), hn::Set(d, 2.0F)));
  // SupportedTargets lives in the library, so this also proves the link.
  return sum == 3.0F && hwy::SupportedTargets() != 0 ? 0 : 1;
}

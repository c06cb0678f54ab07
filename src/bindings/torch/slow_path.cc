// Whether a call is slow, for the warning: asked once for each kind of call.
#include <set>

#include "torch/call_capability.h"

namespace posenc::ops {
namespace {

using CallKind = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                            at::ScalarType, at::DeviceType, bool, bool>;

class KnownKinds {
 public:
  bool has(const CallKind& kind) const {
    const std::lock_guard lock(mutex_);
    return kinds_.count(kind) > 0;
  }
  // Whether it is new.
  bool add(const CallKind& kind) {
    const std::lock_guard lock(mutex_);
    return kinds_.insert(kind).second;
  }

 private:
  mutable std::mutex mutex_;
  std::set<CallKind> kinds_;
};

}  // namespace

std::string slow_path(const std::string& spec, const at::Tensor& q, const at::Tensor& k,
                      const at::Tensor& v, bool explicit_positions) {
  if (q.dim() != 4 || k.dim() != 4 || v.dim() != 4 || !(q.is_cpu() || q.is_cuda())) return "";
  if (has_symbolic_sizes(q) || has_symbolic_sizes(k) || has_symbolic_sizes(v)) return "";
  if (q.is_cpu() && q.scalar_type() == at::kDouble) return "";
  const bool few = q.size(2) <= 8;  // decoding has separate paths
  static KnownKinds known;
  const CallKind kind{
      spec, q.size(1),         k.size(1), q.size(3), v.size(3), q.scalar_type(), q.device().type(),
      few,  explicit_positions};
  if (known.has(kind)) return "";
  const AttentionShapes shapes{.batch = q.size(0),
                               .heads = q.size(1),
                               .kv_heads = k.size(1),
                               .queries = q.size(2),
                               .keys = k.size(2),
                               .head_dim = q.size(3),
                               .explicit_positions = explicit_positions,
                               .value_dim = v.size(3)};
  try {
    const Capability found = call_capability(spec, shapes, q.is_cuda(), q.scalar_type());
    if (!known.add(kind) || !found.is_slow()) return "";
    return "[posenc] attention with '" + spec + "' is not fused: " + to_string(found);
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace posenc::ops

// Whether a call is slow, for the warning: asked once for each kind of call.
#include <set>

#include "torch/call_capability.h"

namespace posenc::ops {
namespace {

using CallKind = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t, at::ScalarType,
                            at::DeviceType, bool, bool>;

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
                      bool explicit_positions) {
  if (q.dim() != 4 || k.dim() != 4 || !(q.is_cpu() || q.is_cuda())) return "";
  if (has_symbolic_sizes(q) || has_symbolic_sizes(k)) return "";
  if (q.is_cpu() && q.scalar_type() == at::kDouble) return "";
  const bool few = q.size(2) <= 8;  // decoding has separate paths
  static KnownKinds known;
  const CallKind kind{spec,      q.size(1),         k.size(1),
                      q.size(3), q.scalar_type(),   q.device().type(),
                      few,       explicit_positions};
  if (known.has(kind)) return "";
  const AttentionShapes shapes{q.size(0), q.size(1), k.size(1),         q.size(2),
                               k.size(2), q.size(3), explicit_positions};
  try {
    const Capability found = call_capability(spec, shapes, q.is_cuda(), q.scalar_type());
    if (!known.add(kind) || !found.is_slow()) return "";
    return "[posenc] attention with '" + spec + "' is not fused: " + to_string(found);
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace posenc::ops

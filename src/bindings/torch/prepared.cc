#include "torch/arguments.h"

namespace posenc::ops {
namespace {

thread_local PreparedKeeper::Kept* keeping = nullptr;

}  // namespace

PreparedKeeper::PreparedKeeper(Kept* kept) { keeping = kept; }
PreparedKeeper::~PreparedKeeper() { keeping = nullptr; }

std::shared_ptr<const Prepared> prepare(const std::string& spec, const ModelShape& shape,
                                        std::int64_t kv_heads, std::int64_t length) {
  static PreparedCache<Prepared> cache;
  auto prepared = cache.get(spec, shape, kv_heads, length);
  if (keeping != nullptr) keeping->push_back(prepared);
  return prepared;
}

}  // namespace posenc::ops

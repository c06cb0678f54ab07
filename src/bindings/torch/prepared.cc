#include <algorithm>
#include <list>
#include <mutex>
#include <unordered_map>

#include "torch/arguments.h"

namespace posenc::ops {
namespace {

// The least recently used of a few entries leaves.
class PreparedCache {
 public:
  std::shared_ptr<const Prepared> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second.place);
    return found->second.value;
  }
  void insert(const std::string& key, std::shared_ptr<const Prepared> value) {
    constexpr std::size_t kMost = 64;
    const std::lock_guard lock(mutex_);
    if (entries_.count(key) != 0) return;
    order_.push_front(key);
    entries_[key] = {std::move(value), order_.begin()};
    if (entries_.size() <= kMost) return;
    entries_.erase(order_.back());
    order_.pop_back();
  }

 private:
  struct Entry {
    std::shared_ptr<const Prepared> value;
    std::list<std::string>::iterator place;
  };
  std::mutex mutex_;
  std::list<std::string> order_;
  std::unordered_map<std::string, Entry> entries_;
};

PreparedCache& cache() {
  static PreparedCache kept;
  return kept;
}

thread_local PreparedKeeper::Kept* keeping = nullptr;

std::shared_ptr<const Prepared> noted(std::shared_ptr<const Prepared> prepared) {
  if (keeping != nullptr) keeping->push_back(prepared);
  return prepared;
}

}  // namespace

PreparedKeeper::PreparedKeeper(Kept* kept) { keeping = kept; }
PreparedKeeper::~PreparedKeeper() { keeping = nullptr; }

Prepared::Prepared(const Spec& parsed, const ModelShape& model, std::int64_t kv_heads,
                   Lengths lengths)
    : spec(parsed),
      shape(model),
      parameters(posenc::parameters(parsed, model)),
      plan(parsed, model, kv_heads, lengths) {
  for (const SpecParameter& p : parameters) {
    parameter_count += p.info.count();
    if (p.info.trainable) trainable_count += p.info.count();
  }
  Rng rng(0);
  for (const Encoding& e : spec.encodings) {
    start.push_back(initial_parameters(posenc::parameters(e, shape), rng));
  }
}

std::shared_ptr<const Prepared> prepare(const std::string& spec, const ModelShape& shape,
                                        std::int64_t kv_heads, std::int64_t length) {
  std::string key;  // no fmt here: PyTorch's headers bring their own copy
  for (const std::int64_t n : {shape.head_dim, shape.heads, shape.model_dim, kv_heads}) {
    key += std::to_string(n) + " ";
  }
  key += spec;
  if (auto known = cache().find(key)) return noted(known);
  const std::string at_length = std::to_string(length) + " " + key;
  if (auto known = cache().find(at_length)) return noted(known);
  const Spec parsed = parse_any_spec(spec);
  auto made = std::make_shared<const Prepared>(parsed, shape, kv_heads,
                                               Lengths{std::max<std::int64_t>(length, 1)});
  cache().insert(follows_length(parsed) ? at_length : key, made);
  return noted(made);
}

}  // namespace posenc::ops

// A spec prepared for a model shape, for bindings whose calls bring the spec as text: parsing it and filling its tables
// takes longer than a short call, so only the last ones are kept.
#pragma once

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "posenc/kernels/attention.h"

namespace posenc {

struct PreparedSpec {
  PreparedSpec(const Spec& parsed, const ModelShape& model, std::int64_t kv_heads, Lengths lengths);

  Spec spec;
  ModelShape shape;
  std::vector<SpecParameter> parameters;
  std::int64_t parameter_count = 0;  // entries of all of them, one after the other
  std::int64_t trainable_count = 0;  // of those that train
  std::vector<Parameters> start;     // their values before training
  AttentionPlan plan;
};

// What a preparation is kept under. Only specs that follow the length have one for each of them.
std::string prepared_key(const std::string& spec, const ModelShape& shape, std::int64_t kv_heads);

// The least recently used of a few entries leaves. Prepared is PreparedSpec or derived from it.
template <class Prepared>
class PreparedCache {
 public:
  std::shared_ptr<const Prepared> get(const std::string& spec, const ModelShape& shape,
                                      std::int64_t kv_heads, std::int64_t length) {
    const std::string key = prepared_key(spec, shape, kv_heads);
    if (auto known = find(key)) return known;
    const std::string at_length = std::to_string(length) + " " + key;
    if (auto known = find(at_length)) return known;
    const Spec parsed = parse_any_spec(spec);
    auto made = std::make_shared<const Prepared>(parsed, shape, kv_heads,
                                                 Lengths{std::max<std::int64_t>(length, 1)});
    insert(follows_length(parsed) ? at_length : key, made);
    return made;
  }

 private:
  struct Entry {
    std::shared_ptr<const Prepared> value;
    std::list<std::string>::iterator place;
  };

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

  std::mutex mutex_;
  std::list<std::string> order_;
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace posenc

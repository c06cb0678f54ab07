#include "tasks/near_duplicates.h"

#include <algorithm>
#include <bit>

#include "tasks/rolling_hash.h"
#include "tasks/task.h"

namespace posenc::tasks {
namespace {

constexpr std::size_t kString = 50;                     // bytes
constexpr std::size_t kSampled = std::size_t{1} << 18;  // held-out strings that are compared
constexpr std::int64_t kFewestShared = 3;  // one string of a small sample may be a licence

// visit(hash) for each string whose hash falls into the sample: the same strings in every document.
template <class Visit>
void for_each_sampled(Bytes bytes, std::uint64_t mask, Visit visit) {
  for_each_string<kString>(bytes, [&](std::uint64_t hash) {
    if ((hash & mask) == 0) visit(hash);
  });
}

enum Seen : std::uint8_t { kNowhere, kInDropped, kInKept };

// The held-out strings by their hashes, and where training has them: an open hash table.
class HeldOutStrings {
 public:
  explicit HeldOutStrings(const SplitDocuments& documents) {
    std::size_t bytes = 0;
    for_each_document(documents, [&](const Document& d) { bytes += d.bytes.size(); });
    mask_ = std::bit_ceil(std::max<std::size_t>(1, bytes / kSampled)) - 1;
    // Four slots for each string that is expected, so that runs of taken slots stay short.
    hashes_.resize(std::bit_ceil(64 + 4 * bytes / (mask_ + 1)));
    seen_.resize(hashes_.size());
    for_each_document(documents, [&](const Document& d) {
      for_each_sampled(d.bytes, mask_, [&](std::uint64_t hash) { hashes_[slot(hash)] = hash; });
    });
  }

  // Whether the training document repeats more than max_shared of its strings.
  bool repeats(const Document& document, double max_shared) {
    std::int64_t all = 0;
    std::int64_t shared = 0;
    for_each_sampled(document.bytes, mask_, [&](std::uint64_t hash) {
      ++all;
      shared += hashes_[slot(hash)] == hash ? 1 : 0;
    });
    if (shared == 0) return false;
    const bool drop = shared >= kFewestShared &&
                      static_cast<double>(shared) > max_shared * static_cast<double>(all);
    for_each_sampled(document.bytes, mask_, [&](std::uint64_t hash) {
      const std::size_t place = slot(hash);
      if (hashes_[place] == hash)
        seen_[place] = std::max(seen_[place], drop ? kInDropped : kInKept);
    });
    return drop;
  }

  [[nodiscard]] double share_at_least(Seen least) const {
    const auto all = std::count_if(hashes_.begin(), hashes_.end(), [](auto h) { return h != 0; });
    const auto found =
        std::count_if(seen_.begin(), seen_.end(), [&](Seen s) { return s >= least; });
    return all == 0 ? 0.0 : static_cast<double>(found) / static_cast<double>(all);
  }

 private:
  template <class Visit>
  static void for_each_document(const SplitDocuments& documents, Visit visit) {
    for (const Split split : {Split::kValidation, Split::kTest}) {
      for (const Document& d : documents[static_cast<std::size_t>(split)]) visit(d);
    }
  }

  // Where the hash is, or the empty slot where it would be. The low bits of sampled hashes are all 0.
  [[nodiscard]] std::size_t slot(std::uint64_t hash) const {
    const auto bits = std::countr_zero(hashes_.size());
    std::size_t place = hash >> (64 - bits);
    while (hashes_[place] != 0 && hashes_[place] != hash)
      place = (place + 1) & (hashes_.size() - 1);
    return place;
  }

  std::uint64_t mask_ = 0;
  std::vector<std::uint64_t> hashes_;  // 0: empty
  std::vector<Seen> seen_;
};

}  // namespace

Overlap drop_near_duplicates(SplitDocuments& documents, double max_shared) {
  HeldOutStrings strings(documents);
  Overlap overlap;
  overlap.dropped =
      std::erase_if(documents[static_cast<std::size_t>(Split::kTrain)],
                    [&](const Document& d) { return strings.repeats(d, max_shared); });
  overlap.before = strings.share_at_least(kInDropped);
  overlap.after = strings.share_at_least(kInKept);
  return overlap;
}

}  // namespace posenc::tasks

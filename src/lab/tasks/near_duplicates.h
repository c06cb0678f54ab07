// Training documents that repeat held-out text, found by the strings of 50 bytes that both hold.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tasks/document.h"

namespace posenc::tasks {

using SplitDocuments = std::array<std::vector<Document>, 3>;  // by Split

struct Overlap {
  std::size_t dropped = 0;  // training documents
  // Share of the held-out 50-byte strings that occur in training documents, with all of them and
  // without the dropped ones.
  double before = 0.0;
  double after = 0.0;
};

// Drops training documents that share more than max_shared of their strings with held-out documents.
// Strings are hashed, and of large corpora a fixed sample of the hashes is compared, so time is linear
// in the bytes and memory is bounded.
Overlap drop_near_duplicates(SplitDocuments& documents, double max_shared);

}  // namespace posenc::tasks

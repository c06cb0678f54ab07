// The attention records of a run, and the response to a request for one.
#pragma once

#include "core/value.h"
#include "serve/attention_jobs.h"
#include "serve/files.h"
#include "serve/response.h"
#include "serve/run_list.h"

namespace posenc::serve {

inline constexpr std::int64_t kMostSamples = 1'000'000'000;
inline constexpr std::int64_t kLongest = 16384;  // tokens; a map has the square of that

// {"records": [{"file", "url", "axis", "length", "sample", "best", "bytes"}]}
Value records_value(const RunPath& path, const Folder& run);

// The maps of a record as JSON, as the report carries them (report/page_maps.h); 500 where it cannot be read.
Response maps_response(const RunPath& path, const File& file, const std::string& name);

// 200 with the record where it is there and no checkpoint is newer, 202 while it is computed, 503 while
// another one is, 500 where the program failed.
Response record_response(AttentionJobs& jobs, const AttentionRequest& request, const RunPath& path,
                         const Folder& run);

}  // namespace posenc::serve

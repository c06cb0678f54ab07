// Claims a job for this process: takes its lease, and checks that the job is not done yet.
#pragma once

#include <filesystem>
#include <optional>

#include "sweep/lease.h"
#include "sweep/run.h"

namespace posenc::sweep {

// Workers of one submission leave a job whose worker died this often to a person: out of memory kills the next, too.
inline constexpr int kMostDeaths = 2;

struct Claim {
  std::optional<Lease> lease;
  bool look_again =
      false;  // a process of another machine holds it: whether it lives is not known yet
};

// With a lease the report says how the job is to be started. Without one it says why not: finished meanwhile, held by
// another process, or failed before in the session of `self`.
Claim claim_job(const std::filesystem::path& out, JobReport& report, const Holder& self,
                Watch& watch);

}  // namespace posenc::sweep

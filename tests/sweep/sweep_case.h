// A sweep of five jobs with a trainer that is a few lines of shell.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/temporary_folder.h"
#include "sweep/run.h"

namespace posenc::testing {

// Takes a trainer's options, writes the status of a run, and does what `act-seedN` in its folder says.
inline constexpr const char* kTrainer = R"(#!/bin/sh
here=$(dirname "$0"); shift 2
resume=no; seed=none
while [ $# -gt 0 ]; do case $1 in
  --set) case $2 in seed=*) seed=${2#seed=};; esac; shift 2;;
  --out) out=$2; shift 2;;
  --threads) threads=$2; shift 2;;
  --resume) resume=yes; shift;;
  --minutes) minutes=$2; shift 2;;
  *) echo "what is $1?"; exit 9;;
esac; done
hash=$(grep "^$(basename "$out") " "$here/hashes" | cut -d' ' -f2)
say() { echo "$* seed=$seed" >> "$here/calls"; }
status() {
  mkdir -p "$out"
  printf '{"state": "%s", "step": 3, "message": "%s", "config_hash": "%s"}' "$1" "$2" "$hash" \
    > "$out/status.json"
}
say "start resume=$resume threads=$threads omp=$OMP_NUM_THREADS"
[ -f "$here/act-seed$seed" ] && . "$here/act-seed$seed"
status finished
evaluation=$(grep "^$(basename "$out") " "$here/hashes" | cut -d' ' -f3)
printf '{"eval_hash": "%s"}' "$evaluation" > "$out/results.json"
)";

class SweepCase : public ::testing::Test {
 protected:
  SweepCase() {
    write_content(folder_ / "base.yaml", "task: selective_counting\n");
    write_content(folder_ / "trainer", kTrainer);
    std::filesystem::permissions(folder_ / "trainer", std::filesystem::perms::owner_all);
    options_.trainer = {folder_ / "trainer", "train"};
    options_.jobs = 2;
    options_.threads = 3;
    options_.summary_file = folder_ / "out/sweep.json";
    make_plan({});
  }

  void make_plan(const std::vector<std::string>& settings) {
    plan_ = sweep::make_plan(sweep::parse_sweep("base: base.yaml\nout: " + (folder_ / "out") +
                                                    "\ngrid: {seed: [0, 1, 2, 3, 4]}\n",
                                                folder_ / "s.yaml"),
                             settings);
    std::string hashes;
    for (const sweep::Job& job : plan_.jobs) {
      hashes += job.folder.filename().string() + " " + job.hash + " " + job.eval_hash + "\n";
    }
    write_content(folder_ / "hashes", hashes);
  }

  void act(int seed, const std::string& script) const {
    write_content(folder_ / ("act-seed" + std::to_string(seed)), script);
  }
  std::vector<sweep::JobReport> run(const sweep::Observer& observer = {}) {
    auto reports = look_up(plan_, plan_.jobs);
    if (own_session_) options_.holder = sweep::this_holder();
    run_jobs(plan_, reports, options_, observer);
    return reports;
  }
  [[nodiscard]] std::string calls() const { return file_content(folder_ / "calls"); }
  [[nodiscard]] std::size_t count(const std::string& part) const {
    const std::string text = calls();
    std::size_t n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++n;
    return n;
  }

  TemporaryFolder folder_;
  sweep::Plan plan_;
  sweep::RunOptions options_;
  bool own_session_ = true;  // each call of run() is a command of its own
};

}  // namespace posenc::testing

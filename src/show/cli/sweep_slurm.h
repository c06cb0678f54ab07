// posenc sweep on a Slurm cluster: submitting an array job, and status, cancel and retry of a sweep's folder.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/sweep_session.h"
#include "cli/verbs.h"
#include "sweep/slurm.h"

namespace posenc::cli {

// The flags of --on slurm. An Error where one is given without it.
void add_slurm_options(CLI::App& verb, sweep::SlurmRequest& request);
void refuse_slurm_options(const CLI::App& verb);

// Writes and submits an array job for the jobs of the plan, or prints its script for --dry-run. `worker` are the words
// after the name of this program. Returns the exit code.
int submit_sweep(const sweep::Plan& plan, const SessionOptions& options,
                 sweep::SlurmRequest request, const std::vector<std::string>& worker);

// The verbs below `posenc sweep`.
void add_sweep_status(CLI::App& sweep, Action& chosen);
void add_sweep_cancel(CLI::App& sweep, Action& chosen);
void add_sweep_retry(CLI::App& sweep, Action& chosen);

}  // namespace posenc::cli

// An evidence file: the sweeps behind one page of docs/evidence, and the published tables next to them.
//
//   question: Does an encoding keep counting past the length it was trained at?
//   base: base/counting.yaml          a lab config, relative to this file
//   parts:                            each is a sweep (plan.h)
//     main:
//       about: ten encodings, four layers
//       grid: {seed: [0, 1, 2], model.encoding: [none, rope]}
//     layers:
//       about: 2 to 6 layers
//       base: base/deep.yaml          in place of the file's base
//       grid: {seed: [0, 1, 2], model.layers: [2, 6]}
//     cost:
//       about: what a step takes
//       bench: train --lengths 512,1024   words of posenc bench, in place of a sweep
//   published:
//     - source: Golovneva et al. 2024, table 2
//       part: main                    whose results stand next to it
//       metric: error                 accuracy, error, bits_per_byte or bits_per_token
//       single_answers: true          not of whole rows, which is the metric of some tasks
//       where: {model.layers: 4}      training fields that choose a variant of the part
//       rows:
//         - {name: RoPE, encoding: rope, values: {train: 1.8, sparse@512: 20.3}}
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runs/published.h"
#include "sweep/plan.h"

namespace posenc::sweep {

struct EvidencePart {
  std::string name;
  std::string about;
  SweepFile sweep;  // out is runs/evidence/NAME/PART
};

// A table of posenc bench in place of runs.
struct MeasuredPart {
  std::string name;
  std::string about;
  std::vector<std::string> words;  // of posenc bench
  std::filesystem::path out;       // runs/evidence/NAME/PART.json
};

struct EvidenceFile {
  std::string path;
  std::string name;  // of the file, without its ending
  std::string question;
  std::vector<EvidencePart> parts;     // in the order of the file
  std::vector<MeasuredPart> measured;  // likewise
  std::vector<runs::PublishedTable> published;

  // Throws an Error that lists the parts.
  [[nodiscard]] const EvidencePart& part(const std::string& part_name) const;
  // None where it is a sweep, or no part at all.
  [[nodiscard]] const MeasuredPart* measured_part(const std::string& part_name) const;
};

// Errors are signed with the path, and say line and column.
EvidenceFile read_evidence(const std::string& path);
EvidenceFile parse_evidence(std::string_view yaml, const std::string& path);

}  // namespace posenc::sweep

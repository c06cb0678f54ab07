// Where the pages of docs/evidence, their sweeps and their committed runs are, and what they hold.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/evidence.h"
#include "sweep/evidence_file.h"

namespace posenc::cli {

class EvidenceFiles {
 public:
  // The root of a checkout; "." is not shown in paths.
  explicit EvidenceFiles(const std::filesystem::path& root);

  // Of every configs/evidence/*.yaml, sorted.
  [[nodiscard]] std::vector<std::string> names() const;
  // The file of a page. An unknown name is an Error that suggests a known one.
  [[nodiscard]] sweep::EvidenceFile read(const std::string& name) const;

  [[nodiscard]] std::filesystem::path page(const std::string& name) const;
  [[nodiscard]] std::filesystem::path picture(const std::string& name,
                                              const std::string& part) const;
  // Where new runs of a part go: below the root, or below `out` where it is given.
  [[nodiscard]] std::filesystem::path runs_folder(const sweep::EvidencePart& part,
                                                  const std::string& out) const;

  [[nodiscard]] std::filesystem::path rows_file(const sweep::MeasuredPart& part,
                                                const std::string& out) const;

  // The committed rows of a measured part; empty where there are none.
  [[nodiscard]] std::string committed_rows(const std::string& name, const std::string& part) const;
  // The committed runs of a part: a folder, or a pack; none where there is neither.
  [[nodiscard]] std::vector<report::Run> committed(const std::string& name,
                                                   const std::string& part) const;

 private:
  [[nodiscard]] std::filesystem::path pages() const { return root_ / "docs" / "evidence"; }
  [[nodiscard]] std::filesystem::path configs() const { return root_ / "configs" / "evidence"; }

  std::filesystem::path root_;
};

// A part with its runs compared, as blocks and pictures are made from it.
report::EvidencePart make_part(const sweep::EvidenceFile& file, const sweep::EvidencePart& part,
                               std::size_t jobs, std::vector<report::Run> runs);

}  // namespace posenc::cli

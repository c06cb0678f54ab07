// Shared by tasks over text: the corpus, and errors about missing parts of it.
#pragma once

#include "tasks/corpus.h"
#include "tasks/generator.h"
#include "tasks/windows.h"

namespace posenc::tasks {

inline constexpr std::int32_t kBytes = 256;  // tokens; the others of a task come after them

class CorpusTask : public Generator {
 public:
  CorpusTask(const CorpusFiles& files, TaskInfo info, std::vector<Axis> axes)
      : Generator(std::move(info), std::move(axes)),
        corpus_(files, this->info().name),
        longest_context_(files.longest_context) {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override;
  [[nodiscard]] std::string content_hash() const override { return corpus_.content_hash(); }
  [[nodiscard]] std::string data_summary() const override { return corpus_.summary(); }

 protected:
  // The documents of the condition, or an Error where there are none.
  [[nodiscard]] std::span<const Document> documents(const Request& request) const;
  // Every held-out document has room for rows of up to this length.
  [[nodiscard]] std::int64_t longest_context() const { return longest_context_; }
  void require_context(const Request& request) const;

 private:
  Corpus corpus_;
  std::int64_t longest_context_;
};

// Rows that are windows of a document. Training draws their places at random. An evaluation takes them
// from all documents of its split (BlockList):
//
//   train    windows side by side, scored everywhere
//   longer   the same blocks of bytes at every length, scored alone, after as much context as fits
class WindowTask : public CorpusTask {
 public:
  WindowTask(const CorpusFiles& files, std::int64_t scored, TaskInfo info);

  [[nodiscard]] std::optional<std::int64_t> rows(const Condition& condition) const final;
  [[nodiscard]] std::optional<std::uint32_t> cluster(const Condition& condition,
                                                     std::uint64_t row) const final;

 private:
  // A window has a byte more than the row; of the row, positions from first_scored on count.
  virtual void put(Bytes window, std::size_t first_scored, Draw& draw, Row row) const = 0;

  void fill_rows(const Request& request) const final;
  void fill_random(const Request& request) const;
  [[nodiscard]] std::int64_t scored_bytes(const Request& request) const;
  [[nodiscard]] BlockList blocks(const Request& request) const;

  std::int64_t scored_;
};

}  // namespace posenc::tasks

// What tasks over files share: the corpus, and errors about what it lacks.
#pragma once

#include "tasks/corpus.h"
#include "tasks/generator.h"

namespace posenc::tasks {

inline constexpr std::int32_t kPadByte = 256;  // the first token that is no byte

class CorpusTask : public Generator {
 public:
  CorpusTask(const CorpusFiles& files, TaskInfo info, std::vector<Axis> axes)
      : Generator(std::move(info), std::move(axes)), corpus_(files, this->info().name) {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override;

 protected:
  // The files of the condition, or an Error where none are held out.
  [[nodiscard]] std::span<const Document> documents(const Request& request) const;
  // Every place for a window of so many bytes, or an Error where there is none.
  [[nodiscard]] WindowIndex window_index(const Request& request, std::int64_t window) const;
  // The rows of the request are among the first `rows`, or an Error.
  void require_rows(const Request& request, std::int64_t rows) const;

 private:
  Corpus corpus_;
};

}  // namespace posenc::tasks

// Which documents are trained on and which are held out.
#pragma once

#include "tasks/corpus_files.h"
#include "tasks/near_duplicates.h"

namespace posenc::tasks {

// Files of one folder stay together, unless the folder holds more than a quarter of all bytes. Test
// and validation each take folders and files in the order of the hash of their names until they have
// their share; those without a file longer than longest_context are trained on, and at least one is.
SplitDocuments split_files(std::span<const Document> files, const CorpusFiles& config);

// A single text: its end is the test part, what comes before is the validation part, both cut at line
// ends into pieces that are separate documents. longest_context bytes before each part are left out.
SplitDocuments split_text(const Document& text, const CorpusFiles& config);

}  // namespace posenc::tasks

// Items by number: positions at the level of words and of sentences.
//
//   <bos> d a b _ c _ a a _ <query> 2        ith_word: the first letter of the 2nd word, c
//   <bos> d a b . c d . a a . <query> 2      last_sentence: the first word of the 2nd last one, c
//
// Segments of random letters, each closed by a mark; the last one takes what is left of the row.
// Scored at the number.
//
//   train    segments of min_letters to max_letters
//   longer   the same segments, a longer row; numbers stay in the trained range
//   sparse   segments sparse_factor times as long: the same numbers, other distances in tokens
#pragma once

#include "tasks/traits.h"

namespace posenc::tasks {

struct IthWord {
  std::int64_t letters = 26;
  std::int64_t min_letters = 1;
  std::int64_t max_letters = 6;
  std::int64_t max_index = 8;
  std::int64_t sparse_factor = 2;

  static constexpr TaskTraits kTraits{.name = "ith_word",
                                      .doc = "the first letter of the k-th word",
                                      .paper = "after Golovneva et al. 2024, arXiv 2405.18719"};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("letters", self.letters, FieldRule{.doc = "different letters", .min = 2, .max = 10000});
    visit("min_letters", self.min_letters,
          FieldRule{.doc = "letters of the shortest word", .min = 1, .max = 10000});
    visit("max_letters", self.max_letters,
          FieldRule{.doc = "letters of the longest word", .min = 1, .max = 10000});
    visit("max_index", self.max_index,
          FieldRule{.doc = "largest k that is asked for", .min = 1, .max = 10000});
    visit("sparse_factor", self.sparse_factor,
          FieldRule{.doc = "how much longer words are on axis sparse", .min = 1, .max = 100});
  }
  bool operator==(const IthWord&) const = default;
};

struct LastSentence {
  std::int64_t words = 26;
  std::int64_t min_words = 2;
  std::int64_t max_words = 12;
  std::int64_t max_index = 4;
  std::int64_t sparse_factor = 2;

  static constexpr TaskTraits kTraits{.name = "last_sentence",
                                      .doc = "the first word of the k-th last sentence",
                                      .paper = "after Golovneva et al. 2024, arXiv 2405.18719"};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("words", self.words, FieldRule{.doc = "different words", .min = 2, .max = 10000});
    visit("min_words", self.min_words,
          FieldRule{.doc = "words of the shortest sentence", .min = 1, .max = 10000});
    visit("max_words", self.max_words,
          FieldRule{.doc = "words of the longest sentence", .min = 1, .max = 10000});
    visit("max_index", self.max_index,
          FieldRule{.doc = "largest k that is asked for", .min = 1, .max = 10000});
    visit("sparse_factor", self.sparse_factor,
          FieldRule{.doc = "how much longer sentences are on axis sparse", .min = 1, .max = 100});
  }
  bool operator==(const LastSentence&) const = default;
};

std::unique_ptr<Task> make(const IthWord& config);
std::unique_ptr<Task> make(const LastSentence& config);

}  // namespace posenc::tasks

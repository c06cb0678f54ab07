// Selective copy: repeat the symbols, leave out the blanks.
//
//   a . . c b . | a c            cope: after | the symbols follow in order, each said one step ahead
//   a . . c b . ? ? ?            mamba: the k-th marker asks for the k-th symbol
//
// n symbols among b blanks, at places chosen uniformly; a row has 2 n + b positions and is right when
// every symbol is. n follows from the training length, on every axis: b = train_blanks * n (or copied).
//
//   train    b = train_blanks * n
//   longer   the same n, b the rest of the row
//   dense    cope: the same n; its natural length has b = dense_blanks * n
//   sparse   cope: the same n; its natural length has b = sparse_blanks * n
//
// So 768 positions in training, 640 dense and 1,024 sparse have 256 symbols each. Golovneva et al.
// 2024, arXiv 2405.18719 (cope); Gu and Dao 2023, arXiv 2312.00752 (mamba: 16 symbols, 4,096 blanks).
#pragma once

#include "tasks/traits.h"

namespace posenc::tasks {

struct SelectiveCopy {
  enum class Form { kCope, kMamba };

  Form form = Form::kCope;
  std::int64_t symbols = 16;
  std::int64_t copied = 0;
  double train_blanks = 1.0;
  double dense_blanks = 0.5;
  double sparse_blanks = 2.0;

  static constexpr TaskTraits kTraits{
      .name = "selective_copy",
      .doc = "the symbols of the row in order, without its blanks",
      .paper = "Golovneva et al. 2024, arXiv 2405.18719; Gu and Dao 2023, arXiv 2312.00752"};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("form", self.form,
          FieldRule{.doc = "symbols said one after the other, or each read at a marker"});
    visit("symbols", self.symbols, FieldRule{.doc = "different symbols", .min = 2, .max = 1e6});
    visit("copied", self.copied,
          FieldRule{.doc = "symbols of a row; 0: by the blanks per symbol (mamba: 16)",
                    .min = 0,
                    .max = 1e6});
    visit("train_blanks", self.train_blanks,
          FieldRule{.doc = "blanks per symbol in training", .min = 0, .max = 1000});
    visit(
        "dense_blanks", self.dense_blanks,
        FieldRule{
            .doc = "blanks per symbol at the natural length of axis dense", .min = 0, .max = 1000});
    visit("sparse_blanks", self.sparse_blanks,
          FieldRule{.doc = "blanks per symbol at the natural length of axis sparse",
                    .min = 0,
                    .max = 1000});
  }
  bool operator==(const SelectiveCopy&) const = default;
};
constexpr std::array<std::string_view, 2> enum_names(SelectiveCopy::Form /*tag*/) {
  return {"cope", "mamba"};
}

std::unique_ptr<Task> make(const SelectiveCopy& config);

}  // namespace posenc::tasks

// Facts that follow from a model type and are not in its config.json.
#pragma once

#include <string_view>

#include "posenc/encodings/rope.h"

namespace posenc {

struct HfFamily {
  enum class Positions { kUnknown, kRotary, kAlibi, kMpt, kT5, kLearned };
  // Which layers leave out the rotation that the file describes.
  enum class NoRope { kNever, kFullAttention, kByInterval };
  // What the sliding-window layers do when the file describes one rotation for all.
  enum class Local { kSame, kOwnTheta, kOwnThetaSameSchedule };

  std::string_view model_type;
  Positions positions = Positions::kUnknown;
  PairLayout layout = PairLayout::kHalf;
  double theta = 10000.0;  // where the file gives none
  double partial = 1.0;    // likewise, the fraction of the head that is rotated
  NoRope no_rope = NoRope::kNever;
  Local local = Local::kSame;
  double local_theta = 10000.0;  // likewise, of sliding-window layers; 0 means theta
  bool trailing = false;         // the last channels are rotated, not the first
  bool sink = false;             // attention has a trained sink per head (gpt-oss)
  bool temperature = false;      // layers without rotation scale their queries (Llama 4)
  double softcap = 0.0;          // of scores, where the file gives none; 0: it has no such key
  // What multiplies scores in place of 1 / sqrt(head_dim): the key `scale_key`, to the power
  // `scale_power`, or `scale_default` where the file has none.
  std::string_view scale_key = {};
  double scale_default = 1.0;
  double scale_power = 1.0;
};

// The entry of a model type, or one of unknown positions with every default.
const HfFamily& hf_family(std::string_view model_type);

}  // namespace posenc

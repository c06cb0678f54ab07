// expect-error: (constraint|no matching function|is not a member|satisf)
// What is no encoding is not taken for a bias: the concept asks for the traits.
#include "posenc/encodings/encoding.h"

struct NotAnEncoding {};

template <posenc::BiasEncoding E>
void takes_bias(const E& /*encoding*/) {}

void call() { takes_bias(NotAnEncoding{}); }

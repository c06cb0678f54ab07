// A program that uses an installed posenc: reads a spec, checks it against a
// model's shape, and names what it has to learn.
#include <posenc/posenc.h>

#include <cstdio>

int main() {
  const posenc::Spec spec = posenc::parse_spec("rope(theta=500000) + alibi(trainable=true)");
  const posenc::ModelShape shape{.head_dim = 64, .heads = 8};
  posenc::validate(spec, shape);

  std::printf("posenc %d.%d.%d\n", POSENC_VERSION_MAJOR, POSENC_VERSION_MINOR,
              POSENC_VERSION_PATCH);
  std::printf("%s has the hash %s\n", posenc::to_text(spec).c_str(), posenc::hash(spec).c_str());
  for (const posenc::SpecParameter& parameter : posenc::parameters(spec, shape)) {
    std::printf("it learns %s, %lld values\n", parameter.info.name.c_str(),
                static_cast<long long>(parameter.info.count()));
  }
}

// From a request to what formulas need: specs, shapes, parameters, vectors, and errors that help.
#pragma once

#include <span>

#include "plots/request.h"
#include "posenc/core/error.h"
#include "posenc/encodings/rotary.h"
#include "posenc/encodings/spec.h"
#include "posenc/kernels/ref/attention.h"

namespace posenc::plots {

[[noreturn]] void refuse(ErrorKind kind, std::string key, std::string rule, std::string value,
                         std::string hint);

ModelShape shape_of(const PlotRequest& request);

struct NamedSpec {
  Spec spec;
  std::string label;  // short enough for a legend: "rope, yarn x4"
};

// The request's specs, checked against its shape; at most `most` of them.
std::vector<NamedSpec> read_specs(const PlotRequest& request, std::size_t most);
// "alibi, kerple": as captions name them, in full.
std::string spec_list(const std::vector<NamedSpec>& specs);

// The one encoding of a spec; throws where there are several or none. `instead` says what the kind can
// show.
const Encoding& single_encoding(const PlotRequest& request, const NamedSpec& named,
                                std::string_view instead);
// Throws where a model computes the angles or positions for each token: without one there is nothing to draw.
void require_own_angles(const PlotRequest& request, const NamedSpec& named, const Rope& rope);
// The single encoding made ready to rotate; throws where it is not of site 2.
Rotary single_rotary(const PlotRequest& request, const NamedSpec& named, const Lengths& lengths);

// Vectors that stand for positions 0 .. length-1, head_dim wide: an embedding of site 1, or a vector
// rotated by site 2. Rotated ones play the role given, which tells xPos which way to scale.
std::vector<std::vector<double>> position_vectors(const PlotRequest& request,
                                                  const NamedSpec& named, std::int64_t length,
                                                  Role role);

// Start values of all parameters, from the request's seed. Tables that start at zero would show
// nothing: they are drawn with deviation table_std, and parameters_text names them.
ref::SpecParameters start_values(const PlotRequest& request, const Spec& spec);
// A sentence for captions on where the parameters of these specs come from; empty without any.
std::string parameters_text(const PlotRequest& request, const std::vector<NamedSpec>& specs);

// Ones, or normal numbers of the stream.
std::vector<double> content_vector(const PlotRequest& request, std::uint64_t stream);
std::vector<double> normal_vector(std::int64_t size, std::uint64_t seed, std::uint64_t stream);

// 500000, 1e7, 0.4: as people write them.
std::string plain_number(double number);

double dot(std::span<const double> x, std::span<const double> y);

// The given entries, checked to be below `end`; else `count` of 0 .. end-1, evenly spaced.
std::vector<std::int64_t> chosen(std::string key, const std::vector<std::int64_t>& given,
                                 std::int64_t end, std::int64_t count);
// 0, step, 2 step, .. up to last, at most about `most` of them; the last is always there.
std::vector<std::int64_t> thinned(std::int64_t last, std::int64_t most);

}  // namespace posenc::plots
